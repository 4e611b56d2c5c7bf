#!/usr/bin/env bash
# Proves that the contract tests can fail. Each toy allocator has one fault. The test listed for it
# must detect that fault, and must pass with the toy allocator that has no fault.
#
#     toys/run.sh DIRECTORY_OF_THE_TEST_PROGRAMS
set -uo pipefail
programs=$1
passed=0 failed=0
export CHECK_MALLOC_IN=toy_

# fault suite test
expectations="
MISALIGNED        sizes     blocks_of_every_size_are_aligned
OVERLAPPING       sizes     many_small_blocks_of_mixed_sizes
DIRTY_CALLOC      contents  calloc_is_zero_after_dirty_blocks_of_other_sizes
DIRTY_CALLOC      contents  calloc_is_zero_after_another_thread
CUT_REALLOC       contents  realloc_keeps_contents_from_every_size
CUT_REALLOC       contents  many_blocks_grow_in_turn
NO_ERRNO          sizes     sizes_beyond_the_address_space
WRAPPED_SIZE      sizes     sizes_beyond_the_address_space
WRAPPED_PRODUCT   sizes     products_that_overflow
LYING_USABLE_SIZE aligned   all_of_the_usable_size
WEAK_ALIGNMENT    aligned   alignments_from_a_page_to_four
FORGETFUL         footprint a_burst_of_large_blocks
FORGETFUL         large     huge_allocations_fail_without_address_space
RACING            threads   blocks_of_all_sizes_are_freed_by_other_threads
LOCKED_IN_CHILD   fork      the_child_of_a_busy_process
QUIET_NEW         operators without_memory_new_throws
"

# run FAULT SUITE TEST: prints the suite's output. A fault may prevent the test from ending, so
# tests with a fault have a short timeout. Without a fault, the test may be slow.
run() {
    local seconds=15
    [ "$1" != NONE ] || seconds=300
    CHECK_SECONDS=$seconds LD_PRELOAD=$programs/toys/toy_$1.so "$programs/$2-plain" "$3" 2>&1
}

verdict() { # verdict GOOD MESSAGE OUTPUT
    if [ "$1" = yes ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAIL %s\n%s\n' "$2" "$3"
    fi
}

while read -r fault suite test; do
    [ -n "$fault" ] || continue
    output=$(run NONE "$suite" "$test")
    good=no
    if [[ $output == *"1 passed, 0 failed, 0 skipped" ]]; then good=yes; fi
    verdict $good "the toy without a fault must pass $suite/$test" "$output"
    output=$(run "$fault" "$suite" "$test")
    good=no
    if [[ $output == *"FAIL $test"*"0 passed, 1 failed, 0 skipped" ]]; then good=yes; fi
    verdict $good "$suite/$test must detect the fault $fault" "$output"
done <<<"$expectations"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
