# needs: python3
# debian: python3
# about: JSON, regular expressions, sorting, pickle, threads and subprocesses, without pools
# stresses: one small block for each object
# not shown: python with its default pools, which ask malloc far less often
# The pools of the interpreter are switched off: each object is a malloc.
source "$SUPPORT"
cat >work.py <<'PYTHON'
import collections, hashlib, json, os, pickle, random, re, subprocess, sys, threading, zlib

assert not os.environ.get("PRELOADED") or os.environ["PRELOADED"] in open("/proc/self/maps").read()
random.seed(7)

def document(depth):
    if depth == 0:
        return random.choice([random.random(), random.randrange(10**9), "text " * random.randrange(40), None, True])
    return {f"key {i} {random.randrange(1000)}": document(depth - 1) for i in range(6)}

text = json.dumps([document(4) for _ in range(12)], sort_keys=True)
assert json.dumps(json.loads(text), sort_keys=True) == text
print("json", len(text), hashlib.sha256(text.encode()).hexdigest())
words = re.findall(r"[a-z]+|\d+(?:\.\d+)?", text)
print("re", len(words), collections.Counter(words).most_common(3), len(re.sub(r"(\d)\1", r"<\1>", text)))
big = [i * i for i in range(1_000_000)]
big.sort(key=lambda v: v % 9973)
print("lists", sum(big[::1000]), sum(len(str(v)) for v in big[:100000]))
print("pickle", hashlib.sha256(pickle.dumps([str(v) for v in big[:200000]], 4)).hexdigest())
blob = os.urandom(0).join(b"%d," % v for v in big[:300000])
assert zlib.decompress(zlib.compress(blob, 6)) == blob

results = [None] * 8
def work(n):
    r = random.Random(n)
    table = {}
    for i in range(20000):
        table[r.randrange(5000)] = "x" * r.randrange(300)
        if i % 3 == 0:
            table.pop(r.randrange(5000), None)
    results[n] = (len(table), sum(map(len, table.values())))
for _ in range(2):
    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in threads: t.start()
    for t in threads: t.join()
print("threads", results)
out = [subprocess.run([sys.executable, "-c", f"print(sum(range({n})))"], capture_output=True, text=True).stdout for n in range(5)]
print("subprocess", "".join(out).split())
print("sum", sum(int(hashlib.md5(str(i).encode()).hexdigest()[:4], 16) for i in range(50000)))
PYTHON
# work:
source "$SUPPORT"
PYTHONMALLOC=malloc PYTHONHASHSEED=1 python3 work.py
# The interpreter's own tests if they are installed; their output varies, their result must not.
if python3 -c 'import test.test_json, test.test_thread' 2>/dev/null; then
    for module in test_json test_list test_dict test_zlib test_thread; do
        if python3 -m test "$module" >"$module.log" 2>&1; then echo "$module passed"; else echo "$module failed"; fi
    done
fi
