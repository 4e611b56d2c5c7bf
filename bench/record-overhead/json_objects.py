"""Writes and reads JSON with many small objects: a program for programs.py.

json_objects.py [TIMES]
"""

import json
import sys

WORDS = [f"w{number}" for number in range(2000)]

total = 0
for factor in range(int(sys.argv[1]) if len(sys.argv) > 1 else 60):
    document = {
        word: {"n": [index * factor for index in range(20)], "s": word * 3} for word in WORDS
    }
    total += len(json.dumps(json.loads(json.dumps(document))))
print(total)
