#!/usr/bin/env python3
"""start.py LIBRARY: tests the page faults that it adds to a shell that starts and ends."""

import os
import sys


def faults(environment):
    counts = []
    for _ in range(30):  # addresses are random
        os.posix_spawn("/bin/sh", ["sh", "-c", ":"], environment)
        counts.append(os.wait3(0)[2].ru_minflt)
    return min(counts)


more = faults({"LD_PRELOAD": sys.argv[1]}) - faults({})
print(more)  # 22 to 24 with glibc 2.36; 44 if code and variables are in no order
sys.exit(not 0 < more <= 30)
