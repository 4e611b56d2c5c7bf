#!/usr/bin/env bash
# Cross-compiles libkeel and its tests for another architecture and runs the tests under user-mode
# emulation. Prints `total: N passed, N failed, N skipped` at the end. Tests that emulation cannot
# support are left out; their names and the reasons are printed.
#
#     tests/emulated.sh aarch64|aarch64-musl|riscv64|s390x|ppc64le|loongarch64
#
# The emulator emulates instructions, not the memory model: threads have this machine's stronger
# memory order. So this finds code that does not compile, wrong constants, wrong layouts, an assumed
# order of bytes or size of pages, and faults of the counter, but not a missing barrier.
set -uo pipefail
cd "$(dirname "$0")/.."
machine=${1:?aarch64, aarch64-musl, riscv64, s390x, ppc64le or loongarch64}
build=build/$machine
triple=${machine/ppc64le/powerpc64le}-linux-gnu
emulator="$PWD/$build-emulator" # tests/support/emulator.c
root=''
case $machine in
    loongarch64 | aarch64-musl)
        root=$PWD/$build-root
        tests/support/debian.sh "$machine" "$root" || exit 1
        ;;
esac
case $machine in
    loongarch64) emulator+=" $root/usr/bin/qemu-$machine -L $root/usr/$triple" ;;
    aarch64-musl) emulator+=" qemu-aarch64-static -L $root" ;;
    *) emulator+=" qemu-$machine-static -L /usr/$triple" ;;
esac

left_out() { # left_out REGULAR-EXPRESSION-OF-TESTS REASON
    pattern+="${pattern:+|}$1"
    reasons+="    $1: $2"$'\n'
}
pattern='' reasons=''
left_out '^linking/|^cxx/headers$|^rust/' "they build programs with this machine's compiler"
left_out '^mimalloc/table$|^os_interface$' "they compare texts, which are the same on every machine"
left_out '^toys$|^(replay|bench|checkers|neighbours)/|^(programs|misuse|attacks|guarded|tokens)' \
    "scripts that start programs without the emulator"
left_out '/(preload|keeper|bridge|c-library)$' "the same suite, started in another way; too slow"
left_out '^allocator_instructions$' "it steps through a program with ptrace, which is not emulated"
left_out '^contract/footprint/|^api/(giveback/|address_space|old_system|fresh_blocks|huge_pages)' \
    "they measure and limit memory, which includes the emulator; it enforces no limit, so that a
        test that fills one would fill the machine"
counting='keeper|slow_paths|growth|refills|cold_pages|mappings|policy|headroom|scale|fill|warm'
counting+='|near_limit'
left_out "^allocator_($counting)\$" \
    "they count page faults and resident pages, or need 2 TiB of address space; the same"
[ "$machine" != s390x ] || left_out '^allocator_faults$' \
    "it reads /proc/self/pagemap, whose words have this machine's order of bytes"
left_out '^api/(keeper/.*|one_thread|failing_calls|machine)$' \
    "they count threads or calls, to which the emulator adds its own, or define open"
left_out '_counted$|^checked/|^interleavings|^contention|^bounds' \
    "the same code with checks, which do not depend on the machine; too slow"

# Single tests of the other suites are left out: those that measure or limit the process or start
# it again (found by their text, or listed by name if they do so in a helper), those that start
# hundreds of threads, those that fork in another thread than the first or while handlers of fork
# allocate, which the emulator does not support (with the C library's malloc they hang), and those
# that need MADV_WIPEONFORK, which the emulator ignores.
CHECK_LEAVE_OUT=" $(awk '
    /^TEST\(/ { name = $0; sub(/^TEST\(/, "", name); sub(/\).*/, "", name); next }
    /^}/ { name = "" }
    name != "" && /resident_bytes|RLIMIT|\/proc\/self\/exe/ && !(name in seen) {
        seen[name]; printf "%s ", name
    }' tests/contract/{contents,loading,misuse,aligned,sizes,large,threads,fork}.c \
    tests/contract/*.cpp \
    tests/api/*.c tests/cxx/*.cpp tests/mimalloc/*.c)"
CHECK_LEAVE_OUT+="options_are_set_by_the_environment an_invalid_value_prints_a_warning "
CHECK_LEAVE_OUT+="each_option_of_mimalloc_has_both_names_in_the_environment "
CHECK_LEAVE_OUT+="threads_share_arenas every_heap_is_usable_in_a_forked_child "
CHECK_LEAVE_OUT+="exit_from_a_thread_while_others_allocate "
CHECK_LEAVE_OUT+="forked_child_is_not_recorded_and_may_record_itself "
CHECK_LEAVE_OUT+="a_thread_other_than_the_first_forks a_handler_of_another_library_forks "
CHECK_LEAVE_OUT+="handlers_of_other_libraries_allocate_in_forks_of_a_thread_without_a_heap "
CHECK_LEAVE_OUT+="more_than_the_machine_could_hold_fails a_realloc_without_memory_keeps_the_block "
CHECK_LEAVE_OUT+="small_allocations_fail_at_the_limit_and_work_after_frees "
CHECK_LEAVE_OUT+="allocations_of_all_sizes_fail_at_the_limit_and_work_after_frees "
CHECK_LEAVE_OUT+="huge_allocations_fail_without_address_space "
CHECK_LEAVE_OUT+="a_program_started_under_an_address_space_limit_works "
CHECK_LEAVE_OUT+="half_of_a_limit_of_768_mebibytes_is_usable "
CHECK_LEAVE_OUT+="ten_thousand_threads_end_and_leave_live_blocks_to_the_next "
CHECK_LEAVE_OUT+="five_hundred_threads_run_at_the_same_time "
CHECK_LEAVE_OUT+="other_programs_can_be_started_from_a_busy_process "
CHECK_LEAVE_OUT+="a_busy_process_can_become_another_program "
CHECK_LEAVE_OUT+="the_child_of_a_busy_process_allocates_and_frees_its_parents_blocks "
CHECK_LEAVE_OUT+="a_child_can_start_threads_while_its_parent_starts_threads "
CHECK_LEAVE_OUT+="a_fork_locks_and_unlocks_the_zone "
export CHECK_LEAVE_OUT

mkdir -p build
cc -O1 -Wall -Wextra -o "$build-emulator" tests/support/emulator.c || exit 1
cmake -S . -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/emulated.cmake" \
    -DKEEL_MACHINE="$machine" "-DKEEL_EMULATOR=$PWD/$build-emulator" "-DKEEL_ROOT=$root" \
    -DKEEL_OUTPUT_DIR="$PWD/$build" >"$build.log" 2>&1 ||
    { cat "$build.log" >&2; exit 1; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
tests/run.sh -B "$build" -j "${KEEL_JOBS:-1}" -E "$pattern" 2>&1 | tee "$log" | grep -v '^total: '
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
if [ "$machine" = aarch64-musl ]; then
    musl_cc=$root/usr/bin/aarch64-linux-musl-gcc glibc_cc=aarch64-linux-gnu-gcc
    objects=$root/usr/lib/aarch64-linux-musl
    # shellcheck source=tests/support/musl.sh
    . tests/support/musl.sh
    musl_programs
fi
# The same binaries with pages of 16 and 64 KiB. With these, the emulator does not start dynamic
# programs of musl, also without Keel: its suites are linked statically.
case $machine in
    aarch64 | aarch64-musl)
        large_pages=${emulator/emulator /emulator --no-mincore }
        for suite in sizes contents aligned large; do
            program=$build/tests/$suite-static
            if [ "$machine" = aarch64-musl ]; then
                program=$build/$suite-without-loader
                "$musl_cc" -static -o "$program" \
                    "$build/tests/CMakeFiles/$suite-static.dir/contract/$suite.c.o" \
                    "$build/lib/libkeel.a" "$build/tests/libkeel_check.a" -lpthread
            fi
            for bytes in 16384 65536; do
                # shellcheck disable=SC2086
                CHECK_SECONDS=300 count "pages/$bytes/$suite" $large_pages -p $bytes "$program"
            done
        done
        ;;
esac
if [ "$machine" != aarch64 ]; then
    left_out recorder/engine "the recorder is for x86-64 and arm64 with glibc"
elif [ -x build/bin/keel ]; then
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
# The other crates of the lab: only whether they compile.
lab_compiles() {
    local target=aarch64-unknown-linux-gnu
    CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc cargo check --release --locked -p keel-cli \
        --target $target --target-dir "$build/target"
}
libraries=$("${RUSTC:-rustc}" --print target-libdir --target aarch64-unknown-linux-gnu 2>/dev/null)
if [ "$machine" != aarch64 ]; then
    left_out player/self-test "the lab is for x86-64 and arm64 with glibc"
elif compgen -G "$libraries/libstd-*.rlib" >/dev/null; then
    count player/self-test player
    count lab/compiles lab_compiles
else
    left_out player/self-test \
        "Rust's arm64 library is not installed (rustup target add aarch64-unknown-linux-gnu)"
fi
echo "left out:"
printf '%s' "$reasons"
printf '    single tests of those that the comment on CHECK_LEAVE_OUT names:\n'
printf '%s\n' "$CHECK_LEAVE_OUT" | fmt -w 100 | sed 's/^ */        /'
echo "total: ${passed:-0} passed, ${failed:-1} failed, ${skipped:-0} skipped"
[ "${failed:-1}" -eq 0 ]
