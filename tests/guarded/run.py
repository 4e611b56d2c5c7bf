#!/usr/bin/env python3
"""Runs guarded.c with KEEL_GUARD_RATE: the reports of guarded sampling, and its rate.

    run.py [--protect] PROGRAM

--protect: the program is linked with no_guards.c. Then only the tests run that depend on it.

The number of guarded allocations must be within the bounds that a binomial distribution exceeds
with a probability of 1e-9. Seeds are fixed, so each run of this test makes the same choices.
"""
import math
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from functions import run_tests

PROTECT = sys.argv[1] == "--protect"
PROGRAM = sys.argv[-1]
UNLIKELY = 1e-9


def run(*arguments, rate=1, seed=1, keeper="off", **environment):
    return subprocess.run(
        [PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300,
        env={**os.environ, "KEEL_GUARD_RATE": str(rate), "KEEL_GUARD_SEED": str(seed),
             "KEEL_KEEPER": keeper, **environment})


# --- The rate -------------------------------------------------------------------------------------

def binomial(count, probability, successes):
    """The probability of exactly this many successes."""
    return math.exp(math.lgamma(count + 1) - math.lgamma(successes + 1)
                    - math.lgamma(count - successes + 1) + successes * math.log(probability)
                    + (count - successes) * math.log1p(-probability))


def bounds(count, probability):
    """The fewest and the most successes that are not unlikely."""
    most = min(count, int(4 * count * probability) + 100)  # beyond: far more unlikely
    chances = [binomial(count, probability, k) for k in range(most + 1)]
    below = above = 0.0
    low, high = 0, most
    while below + chances[low] < UNLIKELY / 2:
        below += chances[low]
        low += 1
    while above + chances[high] < UNLIKELY / 2:
        above += chances[high]
        high -= 1
    return low, high


def check_rate(what, successes, count, probability):
    low, high = bounds(count, probability)
    assert low <= successes <= high, f"{what}: {successes} of {count} is not in {low} .. {high}"


def numbers(done):
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr[-2000:])
    return tuple(map(int, re.findall(r"\d+", done.stdout)[:2]))


def every_pattern_has_the_rate():
    for pattern in ("in-pairs", "in-batches", "of-all-sizes", "in-turn", "large", "zeroed",
                    "aligned", "in-threads"):
        for rate, count in (10, 4000), (100, 40000):
            guarded, allocated = numbers(run("count", pattern, count, rate=rate))
            check_rate(f"{pattern}, rate {rate}", guarded, allocated, 1 / rate)


def long_lists_have_the_rate():
    guarded, allocated = numbers(run("count", "in-batches", 2000000, rate=2000))
    check_rate("in-batches, rate 2000", guarded, allocated, 1 / 2000)


def a_user_heap_has_the_rate():
    guarded, allocated = numbers(run("count", "in-user-heap", 4000, rate=10))
    check_rate("in-user-heap", guarded, allocated, 1 / 10)


def sizes_that_are_never_refilled_have_the_rate():
    each = [numbers(run("count", "few-of-each", 1000, rate=10, seed=seed))
            for seed in range(1, 101)]
    check_rate("few-of-each", sum(pair[0] for pair in each), sum(pair[1] for pair in each), 1 / 10)


def the_rate_1_guards_every_allocation():
    assert numbers(run("count", "in-pairs", 1000)) == (1000, 1000)


def without_the_option_nothing_is_guarded():
    assert numbers(run("count", "of-all-sizes", 1000, rate=0)) == (0, 1000)


def blocks_that_stay_occupy_all_slots():
    """The known limit of sampling: 256 live blocks of up to 60 KiB."""
    guarded, allocated = numbers(run("count", "never-freed", 10000, rate=10))
    assert 250 <= guarded <= 256 and allocated == 10000, (guarded, allocated)


def bugs_are_caught_at_the_rate():
    share = {"read-behind": 3 / 4, "write-behind": 3 / 4, "read-before": 1 / 4}
    for bug in ("read-behind", "write-behind", "read-before", "read-freed", "write-freed",
                "free-inside", "write-next-byte", "write-before"):
        caught, count = numbers(run("trials", bug, 96, 500, rate=5))
        check_rate(bug, caught, count, share.get(bug, 1) / 5)


def a_double_free_is_caught_at_the_rate():
    caught, count = numbers(run("trials", "free-twice", 96, 500, rate=5))
    check_rate("free-twice", caught, count, 1 / 5)


# --- Reports --------------------------------------------------------------------------------------

def in_order(names, functions):
    rest = iter(functions)
    assert all(name in rest for name in names), f"{names} are not in {functions}"


def functions(report, name):
    found = re.search(rf"^  {name} by thread (\d+):\n((?:    0x.*\n)+)", report, re.M)
    assert found, f"no stack `{name}` in {report}"
    offsets = re.findall(rf"{re.escape(PROGRAM)}\+(0x\w+)$", found.group(2), re.M)
    assert f"addr2line -aCfpie {PROGRAM} " in report, report
    lines = subprocess.run(["addr2line", "-f", "-e", PROGRAM, *offsets], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    return lines[::2]


def address_of(done):
    return int(re.search(r"address=(0x\w+)", done.stdout).group(1), 16)


def run_at(begin, *arguments, **options):
    """A run in which the block is at the beginning of its memory, or not, as its seed decides."""
    for seed in range(1, 100):
        done = run(*arguments, seed=seed, **options)
        if begin is None or (address_of(done) % 4096 == 0) == begin:
            return done
    raise AssertionError(f"no seed places the block as wanted: {arguments}")


def reports(bug, size, sentence, status, rest, freed, begin=None, **options):
    done = run_at(begin, "bug", bug, size, **options)
    address = address_of(done)
    assert address % (16 if size > 8 else 8) == 0, (bug, size, hex(address))
    assert done.returncode == status and "survived" not in done.stdout, (bug, done)
    line = re.match(rf"keel: {sentence}: (0x\w+); block bytes {size}{rest}\n", done.stderr)
    assert line, (bug, size, done.stderr)
    in_order(["allocates_here", "one_bug", "main"], functions(done.stderr, "allocated"))
    if freed:
        in_order(["frees_here", "one_bug", "main"], functions(done.stderr, "freed"))
    in_order(["main"], functions(done.stderr, "found"))
    return int(line.group(1), 16) - address


def accesses_are_reported():
    for size in 1, 8, 40, 96, 100, 4000, 60000, 61440, 61441, 200000, 5000000:
        for word, bug in ("read", "read-behind"), ("write", "write-behind"):
            at = reports(bug, size, f"{word} behind the end of a block", -11,
                         rf"; {(size + 15) // 16 * 16 - size} bytes behind its end", False,
                         begin=False if size % 4096 else None)
            assert at == (size + 15) // 16 * 16
        for word, bug in ("read", "read-freed"), ("write", "write-freed"):
            at = reports(bug, size, rf"{word} (?:of|to) a freed block", -11,
                         f"; {size // 2} bytes from its start", True)
            assert at == size // 2
    for size in 1, 100, 60000, 200000:
        at = reports("read-before", size, "read before the start of a block", -11,
                     "; 1 bytes before its start", False, begin=True)
        assert at == -1


def faulty_calls_are_reported():
    for size in 1, 100, 4000, 60000, 200000:
        reports("free-twice", size, "double free", -6, "", True)
        reports("realloc-freed", size, "double free", -6, "", True)
    for size in 100, 4000, 60000, 200000:
        at = reports("free-inside", size, "free of an address inside a block", -6,
                     f"; {size // 2} bytes from its start", False)
        assert at == size // 2


def writes_beside_a_block_are_found_at_its_free():
    for size in 1, 100, 4001, 60001, 200001:
        reports("write-next-byte", size, "the end of a block is overwritten", -6,
                "; 0 bytes behind its end", False, begin=False)
        reports("write-next-byte", size, "the end of a block is overwritten", -6,
                "; 0 bytes behind its end", False, begin=True)
        reports("write-before", size, "the start of a block is overwritten", -6,
                "; 1 bytes before its start", False, begin=False)


def threads_that_fault_at_once_have_one_whole_report():
    for _ in range(30):
        done = run("threads")
        assert done.returncode == -11 and done.stderr.count("keel: ") == 1, done
        assert re.search(r"found by thread \d+:\n(    0x.*\n)+.*\n    addr2line", done.stderr), done


def the_keeper_closes_freed_blocks():
    for size in 100, 200000:
        reports("read-freed", size, "read of a freed block", -11,
                f"; {size // 2} bytes from its start", True, keeper="on", GUARDED_WAIT="1")


def without_the_handler_the_program_just_ends():
    done = run("bug", "read-freed", 100, KEEL_GUARD_HANDLER="off")
    assert (done.returncode, done.stderr) == (-11, ""), done


def the_handler_of_the_program_runs():
    done = run("handled", GUARDED_HANDLER="1")
    assert (done.returncode, done.stdout) == (0, "handled\n"), done


def correct_programs_run():
    for keeper in "off", "auto", "on":
        for rate in 1, 3, 50:
            done = run("use", rate=rate, keeper=keeper)
            assert (done.returncode, done.stderr) == (0, ""), (keeper, rate, done)
            assert int(re.search(r'"guarded": ?(\d+)', done.stdout).group(1)) > 500, done.stdout


# Since Linux 6.13.
HAS_LIGHT_GUARDS = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) >= (6, 13)


def live_guarded_blocks_divide_mappings_only_without_light_guards():
    for keeper in "off", "on":
        for variables in ({}, {"GUARDED_IGNORES": "1"}) if PROTECT else ({},):
            guarded, more = numbers(run("maps", keeper=keeper, **variables))
            assert guarded == 200, (keeper, variables, guarded)
            if PROTECT or not HAS_LIGHT_GUARDS:
                assert more >= 200, (keeper, variables, more)
            else:
                assert more <= 20, (keeper, more)


PROTECTED = (live_guarded_blocks_divide_mappings_only_without_light_guards, accesses_are_reported,
             faulty_calls_are_reported, the_keeper_closes_freed_blocks, correct_programs_run)


def main():
    tests = [value for name, value in globals().items()
             if callable(value) and value.__module__ == "__main__"
             and value.__code__.co_argcount == 0 and name != "main"]
    if PROTECT:
        tests = [test for test in tests if test in PROTECTED]
    sys.exit(run_tests(tests))


main()
