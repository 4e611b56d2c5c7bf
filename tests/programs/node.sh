# needs: node
# debian: nodejs
# about: JavaScript with worker threads, zlib, JSON and file reads
# stresses: buffers and the engine's own data, in several threads
# not shown: JavaScript's objects: they are in the engine's heap
source "$SUPPORT"
cat >work.js <<'JAVASCRIPT'
const fs = require("fs"), zlib = require("zlib"), crypto = require("crypto");
const { Worker, isMainThread, parentPort, workerData } = require("worker_threads");
const hash = (data) => crypto.createHash("sha256").update(data).digest("hex");
function numbers(seed) {
  let x = seed;
  return () => (x = (Math.imul(x, 1103515245) + 12345) & 0x7fffffff);
}
function work(seed) {
  const next = numbers(seed);
  const buffers = [];
  for (let i = 0; i < 20000; i++) {
    buffers[next() % 500] = Buffer.alloc(next() % 9000, next() % 256);
  }
  const joined = Buffer.concat(buffers.filter(Boolean));
  const packed = zlib.deflateSync(joined, { level: 6 });
  if (!zlib.inflateSync(packed).equals(joined)) throw new Error("zlib");
  const tree = {};
  for (let i = 0; i < 30000; i++) tree["key" + (next() % 9000)] = { i, list: [i, "v".repeat(next() % 50)] };
  const text = JSON.stringify(tree);
  if (JSON.stringify(JSON.parse(text)) !== text) throw new Error("json");
  return [hash(joined), packed.length, hash(text)].join(" ");
}
if (!isMainThread) {
  parentPort.postMessage(work(workerData));
} else {
  const keel = process.env.PRELOADED;
  if (keel && !fs.readFileSync("/proc/self/maps", "utf8").includes(keel)) throw new Error("not under " + keel);
  const jobs = [1, 2, 3, 4].map((seed) => new Promise((resolve, reject) => {
    const worker = new Worker(__filename, { workerData: seed });
    worker.on("message", resolve);
    worker.on("error", reject);
  }));
  Promise.all(jobs).then(async (results) => {
    results.concat(work(5)).forEach((line) => console.log(line));
    fs.writeFileSync("file", "line\n".repeat(200000));
    const reads = await Promise.all(Array.from({ length: 20 }, () => fs.promises.readFile("file")));
    console.log(reads.length, hash(Buffer.concat(reads)));
    const big = Array.from({ length: 300000 }, (_, i) => "item " + ((i * 7919) % 300007)).sort();
    console.log(big[0], big[150000], big[299999], hash(big.join()));
  });
}
JAVASCRIPT
# work:
source "$SUPPORT"
node work.js
