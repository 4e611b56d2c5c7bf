# optional: openttd
# A game without a window: the same world is made and lives for some months.
mkdir -p config
openttd -x -c "$PWD/config/openttd.cfg" -v null:ticks=3000 -s null -m null -g -G 42 -q >/dev/null 2>&1 || true
openttd -x -c "$PWD/config/openttd.cfg" -v null:ticks=3000 -s null -m null -g -G 42 >log 2>&1
echo "ended with $?"
