# linked_for SYSTEM LIBRARY MACHINE...: calls `built MACHINE` for each, with its output in
# build/SYSTEM-MACHINE.log, and prints whether it succeeded and the size of LIBRARY. Exits with the
# number of failures.
linked_for() {
    local system=$1 library=$2 machine build failed=0
    shift 2
    mkdir -p build
    for machine; do
        build=build/$system-$machine
        if built "$machine" >"$build.log" 2>&1; then
            printf 'ok   %s: compiled and linked, %s has %d bytes\n' "$machine" "$library" \
                "$(stat -Lc %s "$build/lib/$library")"
        else
            printf 'FAIL %s\n' "$machine"
            tail -n 30 "$build.log"
            failed=$((failed + 1))
        fi
    done
    echo "nothing is run"
    exit $failed
}
