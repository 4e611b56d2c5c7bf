// The facts and the binary blocks of the page. A block is inflated on first use and then kept.

// A page may hold several comparisons; the number after # in its address selects one.
const comparisonElements = [...document.querySelectorAll("script.comparison-facts")];
const numberInAddress = () =>
  clamp(
    (/^#(\d+)(?:\/|$)/.exec(location.hash)?.[1] ?? 1) - 1,
    0,
    comparisonElements.length - 1,
  );
const currentComparison = numberInAddress();
const facts = JSON.parse(comparisonElements[currentComparison].textContent);
const OPERATION_NAMES = ["malloc", "free", "calloc", "realloc", "aligned"];
/** The name of a figure on the page: `p99.9` for `p999`. Other figures keep their names. */
const figureLabel = (column) =>
  facts.percentiles.find((one) => one.column === column)?.label ?? column;
/** A ratio, cut where it only means "many times": `1.034`, `>100`, `<0.01`. */
const ratioNumber = (value, digits) => {
  const { widest } = facts.pair_phrases;
  if (value > widest) return `>${widest}`;
  return value < 1 / widest ? `<${1 / widest}` : value.toFixed(digits);
};
// Bits of a cause, as defined in lab/results/src/cause.rs.
const CAUSE = {
  interrupted: 1,
  fault: 2,
  syscall: 4,
  unknown: 8,
  slept: 16,
  interrupt: 32,
  syscallUnknown: 64,
};

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

/** Decodes the streams that lab/report writes: varints and raw bytes. */
class Reader {
  constructor(bytesRead) {
    this.bytes = bytesRead;
    this.at = 0;
  }

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

  varints(into) {
    for (let index = 0; index < into.length; index += 1) into[index] = this.varint();
    return into;
  }

  skipVarints(count) {
    for (let left = count; left > 0; left -= 1) while (this.bytes[this.at++] >= 128);
  }

  raw(length) {
    const from = this.at;
    this.at += length;
    return this.bytes.subarray(from, this.at);
  }
}

const blockOf = (kind, index) => `${kind}-${facts.prefix}${index}`;

const kept = new Map();
const loadOnce = (key, load) => {
  if (!kept.has(key)) kept.set(key, load());
  return kept.get(key);
};

/** Sparse columns: the cells of column c are starts[c] .. starts[c + 1], in ascending row order. */
const loadTiles = (index, operation) => {
  const tile = facts.allocators[index].tiles[operation];
  if (!tile) return Promise.resolve(null);
  return loadOnce(tile.block, async () => {
    const reader = new Reader(await inflate(tile.block));
    const starts = new Uint32Array(facts.columns + 1);
    for (let column = 0; column < facts.columns; column += 1)
      starts[column + 1] = starts[column] + reader.varint();
    const rows = new Uint16Array(tile.cells);
    for (let column = 0; column < facts.columns; column += 1) {
      let row = 0;
      for (let cell = starts[column]; cell < starts[column + 1]; cell += 1)
        rows[cell] = row += reader.varint();
    }
    const counts = reader.varints(new Uint32Array(tile.cells));
    const sizes = Float32Array.from(reader.raw(tile.cells));
    const kernel = reader.varints(new Uint32Array(tile.cells));
    const interrupted = reader.varints(new Uint32Array(tile.cells));
    const lanes = reader.raw(tile.cells);
    const leads = reader.varints(new Uint32Array(tile.cells));
    for (let cell = 0; cell < tile.cells; cell += 1) leads[cell] = counts[cell] - leads[cell];
    return new Pyramid({
      columns: facts.columns,
      starts,
      rows,
      counts,
      sizes,
      kernel,
      interrupted,
      lanes,
      leads,
    });
  });
};

/** Slow calls in order of time. */
const loadOutliers = (index) => {
  const length = facts.allocators[index].outlier_count;
  if (!length) return Promise.resolve(null);
  return loadOnce(`outliers-${index}`, async () => {
    const reader = new Reader(await inflate(blockOf("outliers", index)));
    const time = reader.varints(new Float64Array(length));
    for (let at = 1; at < length; at += 1) time[at] += time[at - 1];
    const kind = reader.raw(length);
    const size = reader.varints(new Float64Array(length));
    const thread = reader.varints(new Uint32Array(length));
    const latency = reader.varints(new Float64Array(length));
    for (let at = 0; at < length; at += 1) latency[at] /= facts.clock.ticks_per_ns;
    const slowestFirst = Uint32Array.from(latency.keys()).sort((a, b) => latency[b] - latency[a]);
    const cause = reader.raw(length);
    const probe = reader.varints(new Uint32Array(length));
    reader.skipVarints(2 * length); // page faults and system calls, which the cause's text contains
    const causeText = reader.varints(new Uint32Array(length));
    const verdict = reader.raw(length);
    // Twice the node of the innermost known call; 1 more if calls within that one are not known.
    const stack = facts.stacks ? reader.varints(new Uint32Array(length)) : null;
    return {
      length,
      time,
      kind,
      size,
      thread,
      latency,
      slowestFirst,
      cause,
      probe,
      causeText,
      verdict,
      stack,
    };
  });
};

const loadFrameMarks = () =>
  loadOnce("frame-marks", async () => {
    const marks = new Reader(await inflate(`${facts.prefix}frame-marks`)).varints(
      new Float64Array(facts.frame_count),
    );
    for (let at = 1; at < marks.length; at += 1) marks[at] += marks[at - 1];
    return marks;
  });

/** Time in calls in each period: of all calls, only preempted ones, those of the busiest thread. */
const loadSums = (kind, index, length) =>
  loadOnce(`${kind}-${index}`, async () => {
    if (!facts.allocators[index].median_run || !length) return null;
    const reader = new Reader(await inflate(blockOf(kind, index)));
    const read = () => reader.varints(new Float64Array(length));
    return { inside: read(), interrupted: read(), busiest: read() };
  });
/** Frame 0 is the time before the first mark. */
const loadFrames = (index) => loadSums("frames", index, facts.frame_count + 1);
const loadWindows = (index) => loadSums("windows", index, facts.windows);

/**
 * The probed calls: their latency in ns, and whether they are near the floor. Every allocator has
 * the same list of calls.
 */
const loadProbes = (index) =>
  loadOnce(`probes-${index}`, async () => {
    if (!facts.allocators[index].median_run) return null;
    const values = new Reader(await inflate(blockOf("probes", index))).varints(
      new Float64Array(facts.probes),
    );
    return Array.from(values, (value) => ({
      took: Math.floor(value / 2) / facts.clock.ticks_per_ns,
      nearFloor: value % 2 === 1,
    }));
  });

/** Maximum and mean lateness in each column. */
const LATENESS_COLUMNS = 2048;
const loadLateness = (index) =>
  loadOnce(`lateness-${index}`, async () => {
    if (!facts.lateness || !facts.allocators[index].median_run) return null;
    const reader = new Reader(await inflate(blockOf("lateness", index)));
    return {
      greatest: reader.varints(new Float64Array(LATENESS_COLUMNS)),
      mean: reader.varints(new Float64Array(LATENESS_COLUMNS)),
    };
  });

/** Operations of each thread in each column. */
const loadLanes = () =>
  loadOnce("lanes", async () => {
    if (!facts.columns) return [];
    const reader = new Reader(await inflate(`${facts.prefix}block-lanes`));
    return facts.lanes.map(() => reader.varints(new Uint32Array(facts.lane_columns)));
  });

/** Cells of a plane: index of each cell and the calls in it. */
const readPlane = (reader, cells) => {
  const at = reader.varints(new Uint32Array(cells));
  for (let cell = 1; cell < cells; cell += 1) at[cell] += at[cell - 1];
  return { at, counts: reader.varints(new Uint32Array(cells)) };
};
const loadPlane = (index, operation) => {
  const plane = facts.allocators[index].planes[operation];
  if (!plane) return Promise.resolve(null);
  return loadOnce(plane.block, async () =>
    readPlane(new Reader(await inflate(plane.block)), plane.cells),
  );
};
const loadLifetimes = () =>
  loadOnce("lifetimes", async () => {
    if (!facts.lifetimes) return null;
    const reader = new Reader(await inflate(`${facts.prefix}block-lifetimes`));
    return readPlane(reader, reader.varint());
  });

/** The causes that were observed during a slow call, in words. */
const causeOf = (outliers, at) => facts.slow_calls.causes[outliers.causeText[at]];

/** The verdict on a slow call: its attribution in short and as a sentence. */
const verdictOf = (outliers, at) => facts.slow_calls.verdicts[outliers.verdict[at]];
