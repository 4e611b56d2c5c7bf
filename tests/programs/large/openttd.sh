# needs: openttd
# debian: openttd openttd-opengfx
# about: generates a world and simulates some months of a game, without a window
# stresses: a long-lived set of small blocks, and arrays that grow
# not shown: drawing; players over a network
# A game without a window: generates the same world and runs it for some months.
source "$SUPPORT"
mkdir -p config
cat >config/openttd.cfg <<'CFG'
[misc]
resolution = 640,480
[gui]
autosave = monthly
threaded_saves = false
[game_creation]
map_x = 8
map_y = 8
[difficulty]
max_no_competitors = 0
number_towns = 3
CFG
# work:
source "$SUPPORT"
openttd -x -c "$PWD/config/openttd.cfg" -v null:ticks=40000 -s null -m null -g -G 42 >log 2>&1
find . -name '*.sav' -printf '%f %s\n' | sort
find . -name '*.sav' | sort | xargs -n 1 openttd -q 2>&1 | sed "s|$PWD||" | sort | sha256sum
