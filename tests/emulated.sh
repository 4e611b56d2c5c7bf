#!/usr/bin/env bash
# Cross-compiles libkeel, the recorder and their tests for arm64 and runs the tests under user-mode
# emulation. Prints `N passed, N failed, N skipped` at the end. Tests that emulation cannot support
# are left out; their names and the reasons are printed.
#
#     tests/arm64.sh
#
# The emulator emulates instructions, not the memory model: threads have this machine's stronger
# memory order. So this finds code that does not compile, wrong constants, wrong layouts and faults
# of the counter, but not a missing barrier.
set -uo pipefail
cd "$(dirname "$0")/.."
build=build/arm64
emulator="qemu-aarch64-static -L /usr/aarch64-linux-gnu"

left_out() { # left_out REGULAR-EXPRESSION-OF-TESTS REASON
    pattern+="${pattern:+|}$1"
    reasons+="    $1: $2"$'\n'
}
pattern='' reasons=''
left_out '^linking/' "they build programs with this machine's compiler"
left_out '^cxx/headers$' "the same"
left_out '^rust/' "the same, with its Cargo"
left_out '^mimalloc/table$' "it compares texts, which are the same on every machine"
left_out '^toys$' "a script that starts the programs itself, without the emulator"
left_out '^replay/' "the same"
left_out '^programs' "they are programs of this machine"
left_out '^allocator_instructions$' "it steps through a program with ptrace, which is not emulated"
left_out '^contract/(large|footprint)/' "they measure and limit memory, which includes the emulator"
left_out '^allocator_keeper$' "it counts page faults, and the emulator's are among them"
left_out '^api/keeper/' "it counts the process's threads, and the emulator adds one"
left_out '^contract/threads/' "it starts up to 500 threads at a time, 10,000 in all: too slow"
left_out '^contract/fork/' "it forks while threads start, which the emulator does not support"

# Single tests of the other suites are left out: those that measure or limit the process or start it
# again (found by their text, or listed by name if they do so in a helper), those that fork while
# other threads run, which the emulator does not support, and one that needs MADV_WIPEONFORK, which
# the emulator ignores.
CHECK_LEAVE_OUT=" $(awk '
    /^TEST\(/ { name = $0; sub(/^TEST\(/, "", name); sub(/\).*/, "", name); next }
    /^}/ { name = "" }
    name != "" && /resident_bytes|RLIMIT|\/proc\/self\/exe/ && !(name in seen) {
        seen[name]; printf "%s ", name
    }' tests/contract/{contents,loading,misuse,aligned,sizes}.c tests/contract/*.cpp tests/api/*.c \
    tests/cxx/*.cpp tests/mimalloc/*.c)"
CHECK_LEAVE_OUT+="options_are_set_by_the_environment an_invalid_value_prints_a_warning "
CHECK_LEAVE_OUT+="each_option_of_mimalloc_has_both_names_in_the_environment "
CHECK_LEAVE_OUT+="threads_share_arenas every_heap_is_usable_in_a_forked_child "
CHECK_LEAVE_OUT+="exit_from_a_thread_while_others_allocate "
CHECK_LEAVE_OUT+="a_forked_child_is_not_recorded_and_may_record_itself "
export CHECK_LEAVE_OUT

cmake -S . -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/aarch64-linux-gnu.cmake" \
    -DKEEL_OUTPUT_DIR="$PWD/$build" >"$build.log" 2>&1 || { cat "$build.log" >&2; exit 1; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
tests/run.sh -B "$build" -j 1 -E "$pattern" 2>&1 | tee "$log"
read -r passed failed skipped < <(awk '/^total: / { gsub(",", ""); print $2, $4, $6 }' "$log")

# The recorder: an arm64 program records itself with the arm64 counter, and this machine's keel
# reads the recording. The program prints the number of its operations.
recorded() {
    local folder=$1 printed journal
    # shellcheck disable=SC2086
    printed=$($emulator "$build/lib/keel/samples/engine" 400 "$folder/engine.spool") || return 1
    build/bin/keel import "$folder/engine.spool" -o "$folder/engine.journal.parquet" || return 1
    build/bin/keel info --verify "$folder/engine.journal.parquet" || return 1
    journal=$(build/bin/keel info --json "$folder/engine.journal.parquet") || return 1
    python3 - "$printed" "$journal" <<'PYTHON'
import json, sys
words, journal = sys.argv[1].split(), json.loads(sys.argv[2])["facts"]
expected = sum(int(number) for number in words[3::2])  # `frames N`, then each count
seconds = journal["duration_ns"] / 1e9
print(f"the engine did {expected} operations, the journal has {journal['operations']}"
      f" in {seconds:.3f} s")
sys.exit(not (expected == journal["operations"] and 0 < seconds < 600))
PYTHON
}
count() { # count NAME COMMAND...: runs one more test
    if "${@:2}" >"$log" 2>&1; then
        passed=$((${passed:-0} + 1))
        printf 'ok   %s\n' "$1"
    else
        failed=$((${failed:-0} + 1))
        printf 'FAIL %s\n' "$1"
        sed 's/^/    /' "$log"
    fi
}
if [ -x build/bin/keel ]; then
    folder=$(mktemp -d)
    count recorder/engine recorded "$folder"
    rm -rf "$folder"
else
    left_out recorder/engine "it needs this machine's keel, which is not built (make build)"
fi

# The player: its clock, and the causes that it can detect. It must report features that the
# emulator or the architecture does not have (rseq, redirected system calls, counting of interrupts)
# as missing.
player() {
    local result target=aarch64-unknown-linux-gnu
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc cargo build --release \
        --locked -p keel-player --target $target --target-dir "$build/target" || return 1
    # shellcheck disable=SC2086
    result=$($emulator "$build/target/$target/release/keel-player" --self-test) || return 1
    printf '%s\n' "$result"
    [[ $result == *"clock counter"*"test sleep 20 20"*"test fault 20 20"* ]]
}
libraries=$("${RUSTC:-rustc}" --print target-libdir --target aarch64-unknown-linux-gnu 2>/dev/null)
if compgen -G "$libraries/libstd-*.rlib" >/dev/null; then
    count player/self-test player
else
    left_out player/self-test \
        "Rust's arm64 library is not installed (rustup target add aarch64-unknown-linux-gnu)"
fi
echo "left out:"
printf '%s' "$reasons"
printf '    single tests that measure or limit the process, start it again, or fork:\n'
printf '%s\n' "$CHECK_LEAVE_OUT" | fmt -w 100 | sed 's/^ */        /'
echo "${passed:-0} passed, ${failed:-1} failed, ${skipped:-0} skipped"
[ "${failed:-1}" -eq 0 ]
