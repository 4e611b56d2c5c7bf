"""Runs the test functions of a script and prints their counts, as `make test` reads them."""
import subprocess


def run_tests(tests):
    """Runs each function, which fails by an exception. Returns whether one failed."""
    failed = 0
    for test in tests:
        try:
            test()
        except (AssertionError, subprocess.SubprocessError, StopIteration, AttributeError) as error:
            failed += 1
            print(f"FAIL {test.__name__}: {error!r}")
    print(f"{len(tests) - failed} passed, {failed} failed, 0 skipped")
    return failed > 0
