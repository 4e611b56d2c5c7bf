"""Writes and reads JSON with many small objects: a program for programs.py."""

import json

WORDS = [f"w{number}" for number in range(2000)]

total = 0
for factor in range(60):
    document = {
        word: {"n": [index * factor for index in range(20)], "s": word * 3} for word in WORDS
    }
    total += len(json.dumps(json.loads(json.dumps(document))))
print(total)
