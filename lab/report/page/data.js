// The facts and the blocks of the page. A block is inflated when it is first asked for, and kept.

const facts = JSON.parse(byId("facts").textContent);
const OPERATION_NAMES = ["malloc", "free", "calloc", "realloc", "aligned"];
const CAUSE = { interrupted: 1, fault: 2, syscall: 4, unknown: 8 };

const fromBase64 = (text) => {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const result = new Uint8Array(binary.length);
  for (let index = 0; index < binary.length; index += 1) result[index] = binary.charCodeAt(index);
  return result;
};

const inflate = async (id) => {
  const packed = fromBase64(byId(id).textContent);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
};

/** Reads what lab/report/src/encode.rs wrote. */
class Reader {
  constructor(bytesRead) { this.bytes = bytesRead; this.at = 0; }

  varint() {
    let value = this.bytes[this.at++];
    if (value < 128) return value;
    value &= 127;
    for (let scale = 128; ; scale *= 128) {
      const byte = this.bytes[this.at++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  }

  varints(into) { for (let index = 0; index < into.length; index += 1) into[index] = this.varint(); return into; }

  raw(length) { const from = this.at; this.at += length; return this.bytes.subarray(from, this.at); }
}

const kept = new Map();
const once = (key, load) => {
  if (!kept.has(key)) kept.set(key, load());
  return kept.get(key);
};

/** Sparse columns: cells of column c are starts[c] .. starts[c + 1], by rising row. */
const loadTiles = (index, operation) => {
  const tile = facts.allocators[index].tiles[operation];
  if (!tile) return Promise.resolve(null);
  return once(tile.block, async () => {
    const reader = new Reader(await inflate(tile.block));
    const starts = new Uint32Array(facts.columns + 1);
    for (let column = 0; column < facts.columns; column += 1) starts[column + 1] = starts[column] + reader.varint();
    const rows = new Uint16Array(tile.cells);
    for (let column = 0; column < facts.columns; column += 1) {
      let row = 0;
      for (let cell = starts[column]; cell < starts[column + 1]; cell += 1) rows[cell] = row += reader.varint();
    }
    const counts = reader.varints(new Uint32Array(tile.cells));
    const sizes = Float32Array.from(reader.raw(tile.cells));
    const kernel = reader.varints(new Uint32Array(tile.cells));
    const interrupted = reader.varints(new Uint32Array(tile.cells));
    return new Pyramid({ columns: facts.columns, starts, rows, counts, sizes, kernel, interrupted });
  });
};

/** Slow calls by rising time. */
const loadOutliers = (index) => {
  const length = facts.allocators[index].outlier_count;
  if (!length) return Promise.resolve(null);
  return once(`outliers-${index}`, async () => {
    const reader = new Reader(await inflate(`outliers-${index}`));
    const time = reader.varints(new Float64Array(length));
    for (let at = 1; at < length; at += 1) time[at] += time[at - 1];
    const kind = reader.raw(length);
    const size = reader.varints(new Float64Array(length));
    const thread = reader.varints(new Uint32Array(length));
    const latency = reader.varints(new Float64Array(length));
    for (let at = 0; at < length; at += 1) latency[at] /= facts.clock.ticks_per_ns;
    const slowestFirst = Uint32Array.from(latency.keys()).sort((a, b) => latency[b] - latency[a]);
    return { length, time, kind, size, thread, latency, slowestFirst, cause: reader.raw(length) };
  });
};

const loadFrameMarks = () => once("frame-marks", async () => {
  const marks = new Reader(await inflate("frame-marks")).varints(new Float64Array(facts.frame_count));
  for (let at = 1; at < marks.length; at += 1) marks[at] += marks[at - 1];
  return marks;
});

/** Time inside calls in each frame; frame 0 is what came before the first mark. */
const loadFrames = (index) => once(`frames-${index}`, async () => {
  if (!facts.allocators[index].drawn_run) return null;
  const reader = new Reader(await inflate(`frames-${index}`));
  const inside = reader.varints(new Float64Array(facts.frame_count + 1));
  return { inside, interrupted: reader.varints(new Float64Array(facts.frame_count + 1)) };
});

/** What is known of why a call was slow, in words. */
const causeWords = (cause) => {
  const kernel = [cause & CAUSE.fault ? "page fault" : "", cause & CAUSE.syscall ? "system call" : ""].filter(Boolean);
  if (cause & CAUSE.interrupted) return ["interrupted (preempted, or asleep at a lock)", ...kernel].join(" and ");
  if (kernel.length) return kernel.join(" and ");
  return cause & CAUSE.unknown ? "not known whether interrupted" : "the allocator's own work";
};
