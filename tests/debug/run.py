#!/usr/bin/env python3
"""Runs debugged.c with the debug flavour, and checks its reports and settings.

    run.py PROGRAM
"""
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from functions import run_tests

PROGRAM = sys.argv[1]


class Run:
    def __init__(self, mode, debug="", fail=None, **more):
        environment = {**os.environ, "KEEL_DEBUG": debug, **more}
        if fail is not None:
            environment["KEEL_FAIL"] = fail
        done = subprocess.run([PROGRAM, mode], capture_output=True, text=True, timeout=120,
                              errors="replace", env=environment)
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr

    def first(self):
        return self.err.partition("\n")[0]

    def stack(self, name):
        """The functions of a stack, which addr2line finds from the printed file and offsets."""
        found = re.search(rf"^  {name} by thread (\d+):\n((?:    0x.*\n)+)", self.err, re.M)
        assert found, f"no stack `{name}` in {self.err}"
        offsets = re.findall(rf"{re.escape(PROGRAM)}\+(0x\w+)$", found.group(2), re.M)
        command = next(line.split() for line in self.err.splitlines()
                       if line.startswith("    addr2line ") and PROGRAM in line)
        assert set(offsets) <= set(command), f"{offsets} are not all in {command}"
        lines = subprocess.run(["addr2line", "-f", "-e", PROGRAM, *offsets], check=True,
                               capture_output=True, text=True).stdout.splitlines()
        return [name for name in lines[::2] if name != "??"]

    def thread(self, name):
        return re.search(rf"^  {name} by thread (\d+):", self.err, re.M).group(1)


def in_order(names, functions):
    rest = iter(functions)
    assert all(name in rest for name in names), f"{names} are not in {functions}"


def a_report_names_the_functions():
    run = Run("double-free")
    assert run.status == -6 and "double free" in run.first(), run.err
    in_order(["allocates_here", "double_free", "mode_run"], run.stack("allocated"))
    in_order(["frees_here", "double_free", "mode_run"], run.stack("freed"))
    in_order(["frees_again", "double_free", "mode_run"], run.stack("found"))


def a_program_in_a_folder_with_any_name_has_frames():
    with tempfile.TemporaryDirectory(prefix="libkeel x;") as folder:
        program = shutil.copy(PROGRAM, folder)
        done = subprocess.run([program, "double-free"], capture_output=True, text=True, timeout=120)
        command = next(line for line in done.stderr.splitlines()
                       if line.startswith("    addr2line ") and folder in line)
        arguments = shlex.split(command)
        assert arguments[2] == program, command
        names = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
        in_order(["allocates_here", "double_free", "mode_run", "frees_here", "frees_again"],
                 re.findall(r"\w+", names))


def a_report_waits_for_a_full_stderr():
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"." * 65536)
    except BlockingIOError:
        pass
    process = subprocess.Popen([PROGRAM, "double-free"], stderr=writer)
    os.close(writer)
    time.sleep(0.3)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read().lstrip(b".")
    assert process.wait(timeout=60) == -6
    assert text.startswith(b"keel: double free") and b"addr2line" in text, text


def a_closed_stderr_does_not_change_the_exit_status():
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**os.environ, "KEEL_DEBUG": "leaks", "KEEL_STATS": "1"}
    done = subprocess.run([PROGRAM, "leaks"], stderr=writer, env=environment, timeout=60,
                          preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL))
    os.close(writer)
    assert done.returncode == 0, done.returncode


def a_report_names_the_threads():
    run = Run("free-by-two-threads")
    assert run.thread("allocated") == run.thread("found") != run.thread("freed"), run.err
    in_order(["frees_here", "frees_in_thread"], run.stack("freed"))


def frames_of_any_size_are_unwound():
    run = Run("varying-frames")
    for name, function in ("allocated", "allocates_here"), ("freed", "frees_here"):
        in_order([function, "varying_frames", "mode_run"], run.stack(name))
    in_order(["allocates_here", "allocates_deep", "varying_frames"], run.stack("allocated"))


def a_thread_may_change_stacks():
    run = Run("change-of-stacks")
    assert (run.status, run.out, run.err) == (0, "came back\n", ""), (run.status, run.err)


def a_stack_may_end_in_any_way():
    for mode in "stack-with-invalid-end", "stack-with-wrong-end":
        run = Run(mode)
        assert run.status == -6 and run.out == "came back\n", (mode, run.status, run.err)
        in_order(["allocates_here", "allocates_in_coroutine"], run.stack("allocated"))


def frames_behind_a_signal_are_found():
    run = Run("stack-through-signal")
    in_order(["allocates_here", "allocates_in_signal", "raises_here", "stack_through_signal",
              "mode_run"], run.stack("allocated"))


def stacks_have_the_frames_that_are_asked_for():
    # A static library prints its own frames too.
    depth = 8
    run = Run("double-free", debug=f"stack={depth}")
    assert "allocates_here" in run.stack("allocated")
    for part in re.findall(r"by thread \d+:\n((?:    0x.*\n)*)", run.err):
        assert 0 < part.count("\n") <= depth, run.err
    if not PROGRAM.endswith("-static"):
        one = Run("double-free", debug="stack=1")
        assert one.stack("allocated") == ["allocates_here"], one.err
        assert one.stack("found") == ["frees_again"], one.err
    none = Run("double-free", debug="stack=0")
    assert none.err.count("(no call stack)") == 3, none.err


def many_different_stacks_take_limited_memory():
    run = Run("many-stacks", debug="stack=32")
    assert int(re.search(r"peak MiB (\d+)", run.out).group(1)) < 280, run.out
    in_order(["allocates_here", "many_stacks"], run.stack("allocated"))
    in_order(["frees_again", "many_stacks"], run.stack("found"))


def a_block_whose_number_is_overwritten_is_found():
    run = Run("overwrite-number")
    assert re.match(r"keel: the start of a block is overwritten: 0x\w+; block bytes 30; "
                    r"overwritten at offset -\d+$", run.first()), run.err
    in_order(["allocates_here", "overwrite_number"], run.stack("allocated"))


def blocks_that_stay_are_checked_at_the_end():
    run = Run("overflow-is-never-freed")
    assert run.status == -6, run.err
    assert run.first().endswith("block bytes 30; overwritten at offset 31"), run.err
    assert Run("overflow-is-never-freed", debug="check_at_exit=0").status == 0


def blocks_are_checked_during_the_run():
    run = Run("overflow-is-checked", debug="check=1,check_blocks=0")
    assert run.status == -6 and run.first().endswith("overwritten at offset 30"), run.err
    assert Run("overflow-is-checked", debug="check=0").out == "survived\n"


def a_handler_of_a_fault_may_use_the_heap():
    for debug in "check=1,check_blocks=0", "check=1", "check=7,leaks":
        for action in "fork", "allocate", "exit":
            run = Run(f"fault-then-{action}", debug=debug)
            assert run.status == 3 and run.err.count("keel: the end of a block") == 1, (
                debug, action, run.status, run.err)
        assert Run("fault-then-free", debug=debug).status == -6, debug


def a_handler_of_a_fault_may_leave_by_longjmp():
    run = Run("fault-then-leave")
    assert run.status == 3 and run.err.count("keel: double free") == 1, (run.status, run.err)
    assert run.err.endswith("keel: another fault while a fault was reported\n"), run.err


def writes_to_discarded_pages_are_found():
    run = Run("write-into-discarded-pages")
    assert run.first().endswith("block bytes 600000; overwritten at offset 300000"), run.err


def blocks_are_filled():
    assert Run("contents").out == "fresh ac ac zero 00 00\nfreed db db\n"
    assert Run("contents", debug="fill=50").out.startswith("fresh ac")
    assert "ac ac" not in Run("contents", debug="fill=50").out


def freed_blocks_are_kept():
    assert Run("reuse").out == "kept\n"
    assert Run("reuse", debug="quarantine=0").out == "reused\n"


def large_blocks_move_rarely_when_they_are_resized():
    run = Run("resizes-in-small-steps")
    found = re.fullmatch(r"moves (\d+), kept 1\nmoves (\d+), kept 1\nnot zero 0, checked 1\n",
                         run.out)
    assert run.status == 0 and found, (run.out, run.err)
    # Each resize below 64 KiB moves the block; above, one in a fifth of the size.
    for moves in map(int, found.groups()):
        assert 4000 < moves < 4200, run.out
    run = Run("overflow-of-a-grown-block")
    assert run.first().endswith("block bytes 72000; overwritten at offset 72000"), run.err


def thousands_of_far_aligned_blocks_are_found_quickly():
    run = Run("far-blocks")
    assert re.fullmatch(r"unknown 0, seconds [0-2]\n", run.out), run.out
    assert "double free" in run.first(), run.err


def far_blocks_beside_mappings_are_known():
    run = Run("far-blocks-beside-mappings", debug="quarantine=0", KEEL_KEEPER="off")
    assert (run.status, run.out, run.err) == (0, "wrong 0\n", ""), (run.out, run.err)


def a_resize_without_memory_keeps_the_alignment():
    run = Run("failed-resizes", fail="min=2000,max=3000")
    assert run.out == "kept some 1, wrong 0\n", (run.out, run.err)


def a_correct_program_runs():
    for debug in "", "check=1", "quarantine=0", "quarantine=1K,check=7", "stack=0":
        run = Run("correct", debug=debug)
        assert (run.status, run.out, run.err) == (0, "checked 1\n", ""), (debug, run.out, run.err)


def leaks_are_listed_by_call_stack():
    assert Run("leaks").err == ""
    err = Run("leaks", debug="leaks").err
    assert re.match(r"keel: at the end: 3 blocks, 150 bytes lost; \d+ blocks, \d+ bytes reachable",
                    err), err
    assert re.search(r"^  3 blocks, 150 bytes lost, allocated at:\n    0x", err, re.M), err
    assert re.search(r"^  4 blocks, 384 bytes reachable, allocated at:\n    0x", err, re.M), err


def a_report_has_addresses_where_the_mappings_are_not_readable():
    run = Run("fault-without-files")
    parts = re.findall(r"by thread \d+:\n((?:    0x[0-9a-f]+\n)+)", run.err)
    assert run.status == -6 and len(parts) == 3, run.err


def leaks_are_listed_where_their_reachability_is_not_known():
    # Behind a filter of system calls Keel reads no files, either.
    for mode in ("leaks-without-files", "leaks-without-reading"):
        err = Run(mode, debug="leaks").err
        assert re.match(r"keel: at the end: \d+ blocks, \d+ bytes live; which are lost is not "
                        r"known, because the system refuses to read /proc/self/maps\n", err), err
        assert re.search(r"^  3 blocks, 150 bytes live, allocated at:\n    0x", err, re.M), err
        assert " lost, " not in err and "reachable" not in err, err


def allocations_fail_on_request():
    def failed(fail):
        run = Run("failures", fail=fail)
        assert run.status == 0, (fail, run.err)
        return tuple(map(int, re.fullmatch(r"failed (\d+) (\d+)\n", run.out).groups()))
    assert failed("every=100,min=100,max=100") == (100, 0)
    assert failed("every=100,min=5000,max=5000") == (0, 100)
    assert failed("min=5000,max=5000,after=9990") == (0, 10)
    assert failed("min=5000,max=5000,after=100,count=7") == (0, 7)
    some = failed("probability=0.05,min=5000,max=5000,seed=1")
    assert some[0] == 0 and 350 < some[1] < 650, some
    assert some == failed("probability=.05,min=5000,max=5000,seed=1")
    assert some != failed("probability=0.05,min=5000,max=5000,seed=2")


def allocations_fail_at_a_site():
    def failed(site, more="min=5000"):
        run = Run("failures-at-site", fail=f"{more},{site}")
        assert (run.status, run.err) == (0, ""), (site, run.err)
        return tuple(map(int, re.match(r"failed (\d+) (\d+) at", run.out).groups()))
    assert failed("site=allocates_here") == failed("site:allocates_h*") == (100, 0)
    assert failed("site=allocates_*") == failed("site=main") == (100, 100)
    assert failed("site=allocates") == failed("site=no_function") == (0, 0)
    assert failed("site=allocates_elsewhere,after=10,count=7") == (0, 7)

    report = Run("double-free").err
    at = re.search(rf"allocated by.*\n(?:.*\n)*?.*{re.escape(PROGRAM)}\+(0x\w+)$", report, re.M)
    functions = subprocess.run(["nm", PROGRAM], check=True, capture_output=True, text=True).stdout
    begin = int(re.search(r"^(\w+) t allocates_here$", functions, re.M).group(1), 16)
    offsets = [int(offset, 16) for offset in
               re.findall(rf"{re.escape(PROGRAM)}\+(0x\w+)$", report, re.M)]
    offset = next(offset for offset in offsets if begin <= offset < begin + 64)
    name = os.path.basename(PROGRAM)
    assert at and failed(f"site={name}+{offset:#x}") == (100, 0)
    assert failed(f"site={PROGRAM}+{offset:#x}") == (100, 0)
    for other in f"{name[1:]}+{offset:#x}", f"{name}+{offset + 1:#x}":
        assert failed(f"site={other}") == (0, 0), other
    assert failed(f"site={name}+{offset:#x}-{offset + 1:#x}") == (100, 0)
    assert failed(f"site={name}+{offset + 1:#x}-{offset + 2:#x}") == (0, 0)
    # Addresses in memory are the same in each run only without their randomization.
    command = ["setarch", "-R", PROGRAM, "failures-at-site"]
    plain = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    start = int(plain.split()[-1], 16)
    for first, end, expected in (start, start + 64, "100 0"), (start - 64, start, "0 0"):
        run = subprocess.run(command, capture_output=True, text=True, check=True, env={
            **os.environ, "KEEL_FAIL": f"min=5000,site={first:#x}-{end:#x}"})
        assert run.stdout.startswith(f"failed {expected} at"), run.stdout


def help_lists_every_setting():
    err = Run("contents", debug="help,quarantine=3M,fill=1K").err
    for name, value in ("quarantine", "3.0 MiB"), ("fill", "1.0 KiB"), ("stack", "12"):
        assert re.search(rf"^  {name} +\w.* \(now {value}\)$", err, re.M), err
    for name in ("check check_blocks check_at_exit leaks mismatch help probability every after "
                 "count min max seed site").split():
        assert re.search(rf"^  {name} +\w.* \(now .*\)$", err, re.M), (name, err)
    assert "KEEL_SIZED_FREE=abort, report or off" in err, err


def wrong_settings_are_reported():
    for site in "site", "site=", "site=0x10", "site=a+12", "site=a+0x5-0x5", "site=+0x5":
        run = Run("contents", fail=site)
        assert f"keel: KEEL_FAIL={site}: not valid" in run.err, (site, run.err)
    run = Run("contents", debug="quarantine=x,stack=1000,colour,leaks=0", fail="probability=2")
    assert run.status == 0
    for part in "DEBUG=quarantine=x", "DEBUG=stack=1000", "DEBUG=colour", "FAIL=probability=2":
        assert f"keel: KEEL_{part}: not valid, ignored; KEEL_DEBUG=help lists what is\n" in run.err
    assert run.err.count("\n") == 4, run.err


def main():
    tests = [function for name, function in globals().items()
             if callable(function) and function.__module__ == "__main__" and
             name not in ("Run", "in_order", "main")]
    return run_tests(tests)


if __name__ == "__main__":
    sys.exit(main())
