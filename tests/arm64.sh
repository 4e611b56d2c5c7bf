#!/usr/bin/env bash
# Cross-compiles libkeel, the recorder and their tests for arm64 and runs the tests under user-mode emulation. Ends with
# `N passed, N failed, N skipped`. What emulation cannot show is left out, by name and with the reason.
#
#     tests/arm64.sh
#
# Emulation is of the instructions, not of the memory model: threads run on this machine's own, stronger order. So
# this finds what does not compile, wrong constants, wrong layouts, and the counter; not a missing barrier.
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
left_out '^allocator_instructions$' "it steps through a program with ptrace, which the emulator does not have"
left_out '^contract/(large|footprint)/' "they measure and limit the process's memory, and it is the emulator's process"
left_out '^allocator_keeper$' "it counts page faults, and the emulator's are among them"
left_out '^api/keeper/' "it counts the process's threads, and the emulator has one of its own"
left_out '^contract/threads/' "it starts up to 500 threads at a time, 10,000 in all: too much for an emulator"
left_out '^contract/fork/' "it forks thousands of times while threads are born, which user-mode emulation does not bear"

# Of the other suites single tests: those that measure or limit the process, or start it anew; and by name those that do
# so by a helper, those that fork while other threads run, which user-mode emulation does not bear, and the one that
# needs a page to be wiped in a forked child (MADV_WIPEONFORK), which the emulator passes over.
CHECK_LEAVE_OUT=" $(awk '
    /^TEST\(/ { name = $0; sub(/^TEST\(/, "", name); sub(/\).*/, "", name); next }
    /^}/ { name = "" }
    name != "" && /resident_bytes|RLIMIT|\/proc\/self\/exe/ && !(name in told) { told[name]; printf "%s ", name }
    ' tests/contract/{contents,loading,misuse,aligned,sizes}.c tests/contract/*.cpp tests/api/*.c tests/cxx/*.cpp \
    tests/mimalloc/*.c)"
CHECK_LEAVE_OUT+="options_are_set_by_the_environment each_option_of_mimalloc_has_both_names_in_the_environment "
CHECK_LEAVE_OUT+="a_value_that_is_none_is_told "
CHECK_LEAVE_OUT+="threads_share_arenas a_child_of_fork_finds_every_heap_whole exit_from_a_thread_while_others_allocate "
CHECK_LEAVE_OUT+="a_forked_child_is_not_recorded_and_may_record_itself "
export CHECK_LEAVE_OUT

cmake -S . -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/aarch64-linux-gnu.cmake" \
    -DKEEL_OUTPUT_DIR="$PWD/$build" >"$build.log" 2>&1 || { cat "$build.log" >&2; exit 1; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
tests/run.sh -B "$build" -j 1 -E "$pattern" 2>&1 | tee "$log"
read -r passed failed skipped < <(awk '/^total: / { gsub(",", ""); print $2, $4, $6 }' "$log")

# The recorder: a program of arm64 records itself by the arm64 counter, and this machine's keel reads what it left. The
# program says how many operations it did.
recorded() {
    local folder=$1 told journal
    # shellcheck disable=SC2086
    told=$($emulator "$build/lib/keel/samples/engine" 400 "$folder/engine.spool") || return 1
    build/bin/keel import "$folder/engine.spool" -o "$folder/engine.journal.parquet" || return 1
    build/bin/keel info --verify "$folder/engine.journal.parquet" || return 1
    journal=$(build/bin/keel info --json "$folder/engine.journal.parquet") || return 1
    python3 - "$told" "$journal" <<'PYTHON'
import json, sys
words, journal = sys.argv[1].split(), json.loads(sys.argv[2])["facts"]
told = sum(int(number) for number in words[3::2])  # frames N, then what was done, each with its number
seconds = journal["duration_ns"] / 1e9
print(f"the engine tells of {told} operations, the journal holds {journal['operations']} in {seconds:.3f} s")
sys.exit(not (told == journal["operations"] and 0 < seconds < 600))
PYTHON
}
count() { # count NAME COMMAND...: one more test
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
    left_out recorder/engine "this machine's keel is to read the journal, and is not built (make build)"
fi

# The player: its clock, and what it can tell of a call. What the emulator or the architecture does not have (rseq,
# redirected system calls, the wire for interrupts) it must say that it does not have.
player() {
    local told
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc cargo build --release --locked -p keel-player \
        --target aarch64-unknown-linux-gnu --target-dir "$build/target" || return 1
    # shellcheck disable=SC2086
    told=$($emulator "$build/target/aarch64-unknown-linux-gnu/release/keel-player" --self-test) || return 1
    printf '%s\n' "$told"
    [[ $told == *"clock counter"*"test sleep 20 20"*"test fault 20 20"* ]]
}
libraries=$("${RUSTC:-rustc}" --print target-libdir --target aarch64-unknown-linux-gnu 2>/dev/null)
if compgen -G "$libraries/libstd-*.rlib" >/dev/null; then
    count player/self-test player
else
    left_out player/self-test "Rust's library for arm64 is not installed (rustup target add aarch64-unknown-linux-gnu)"
fi
echo "left out:"
printf '%s' "$reasons"
printf '    single tests, which measure or limit the process, start it anew, or fork:\n'
printf '%s\n' "$CHECK_LEAVE_OUT" | fmt -w 100 | sed 's/^ */        /'
echo "${passed:-0} passed, ${failed:-1} failed, ${skipped:-0} skipped"
[ "${failed:-1}" -eq 0 ]
