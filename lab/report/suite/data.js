// The suite and its figures. All raw runs are in the page; medians and ratios are computed here.

const suite = JSON.parse(byId("suite").textContent);
/** For colour.js, which draws threads as well. */
const facts = { allocators: suite.allocators, lanes: [] };

const METRICS = {
  elapsed: { title: "elapsed time", show: (s) => duration(s * 1e9), of: (m) => m.elapsed_s },
  cpu: { title: "processor time", show: (s) => duration(s * 1e9), of: (m) => m.cpu_s },
  peak: { title: "peak memory", show: bytes, of: (m) => m.peak_bytes },
  average: { title: "average memory", show: bytes, of: (m) => m.average_bytes },
  p999: { title: "p99.9 of all calls", show: duration, of: (m) => m.p999_ns },
  worst: { title: "slowest call", show: duration, of: (m) => m.worst_ns },
  calls: { title: "system calls", show: count, of: (m) => m.system_calls },
  faults: { title: "page faults", show: count, of: (m) => m.minor_faults + m.major_faults },
  switches: {
    title: "context switches",
    show: count,
    of: (m) => m.voluntary_switches + m.involuntary_switches,
  },
  after: {
    title: "memory 1 s after the end",
    show: bytes,
    // A pattern that retains almost nothing has no meaningful ratio below this size.
    of: (m) => (m.after_bytes === undefined ? undefined : Math.max(m.after_bytes, 1 << 20)),
  },
};

/** Whether the metric was measured in any run. */
const hasMetric = (id) =>
  suite.runs.some((run) => run.measured && METRICS[id].of(run.measured) !== undefined);

const keyOf = (workload) => `${workload.suite}/${workload.name}`;
const runsOf = new Map();
for (const run of suite.runs) {
  const key = `${run.workload}\n${run.allocator}`;
  runsOf.set(key, [...(runsOf.get(key) ?? []), run]);
}
const runsAt = (workload, allocator) => runsOf.get(`${keyOf(workload)}\n${allocator.name}`) ?? [];

const median = (sorted) => {
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
};

/** Median, least and most over the rounds; `failed` instead if a run failed; null without runs. */
const spread = (workload, allocator, metric) => {
  const runs = runsAt(workload, allocator);
  const failed = runs.find((run) => run.failed);
  if (failed) return { failed: failed.failed };
  const values = runs.map((run) => METRICS[metric].of(run.measured));
  const present = values.filter((value) => value !== undefined).sort((a, b) => a - b);
  if (!present.length) return null;
  return { median: median(present), least: present[0], most: present[present.length - 1] };
};

/** The median that counts as 1: of the chosen allocator, or the lowest of all. */
const baseOf = (workload, metric, base) => {
  const counted = suite.allocators.filter((one) => base === "best" || one.name === base);
  const medians = counted.map((one) => spread(workload, one, metric)?.median);
  const positive = medians.filter((value) => value > 0);
  return positive.length ? Math.min(...positive) : null;
};

/** Ratios to the base: null where there is no figure. */
const ratio = (workload, allocator, metric, base) => {
  const [one, unit] = [spread(workload, allocator, metric), baseOf(workload, metric, base)];
  if (!one || one.failed || !unit) return null;
  return { median: one.median / unit, least: one.least / unit, most: one.most / unit };
};

/** Geometric mean of positive numbers; null without numbers. */
const geometricMean = (values) =>
  values.length
    ? Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length)
    : null;

/** The mean ratio of an allocator over workloads, and the number of workloads with a figure. */
const meanOf = (workloads, allocator, metric, base) => {
  const found = workloads.map((one) => ratio(one, allocator, metric, base)).filter(Boolean);
  const positive = found.map((one) => one.median).filter((value) => value > 0);
  return { value: geometricMean(positive), count: positive.length };
};

const times = (value) =>
  value === null ? "–" : `${value.toFixed(value < 9.95 ? 2 : value < 99.5 ? 1 : 0)}\u00a0×`;

const state = {
  ...{ time: "elapsed", memory: "peak", tail: "p999", heat: "elapsed" },
  ...{ base: "best", suite: "", hidden: new Set() },
};
const shownWorkloads = () =>
  suite.workloads.filter((one) => !state.suite || one.suite === state.suite);
const shownAllocators = () => suite.allocators.filter((one) => !state.hidden.has(one.name));

/** For allocators that colour.js does not know: for the light and for the dark theme. */
const MORE_COLOURS = [
  ["#1b1b1b", "#f2f2f2"],
  ["#7a2f6b", "#d59ac9"],
  ["#3a6b1d", "#9ccc7a"],
  ["#30449b", "#9aaaf0"],
  ["#2b5f5f", "#85c9c9"],
  ["#8a3b12", "#e0a184"],
];
const SHAPES = ["circle", "square", "diamond", "triangle"];

/** `mimalloc` of `mimalloc3.so`, `jemalloc` of `jemalloc:MALLOC_CONF=...`. */
const familyOf = (name) => name.split(":")[0].replace(/\.so.*$/, "").replace(/[-_.]?\d+$/, "");

/**
 * Colours and shapes: those of colour.js for the names that it knows; the colour of its family for
 * another version. Allocators of one colour have different shapes.
 */
const LOOKS = (() => {
  const used = new Map();
  let more = 0;
  return suite.allocators.map(({ name }) => {
    const known = KNOWN[name] ?? KNOWN[familyOf(name)];
    const [light, night] = known ?? MORE_COLOURS[more++ % MORE_COLOURS.length];
    const count = used.get(light) ?? 0;
    used.set(light, count + 1);
    return { light, night, shape: SHAPES[count % SHAPES.length] };
  });
})();
const lookOf = (allocator) => LOOKS[suite.allocators.indexOf(allocator)];
const colourOf = (allocator) => lookOf(allocator)[dark() ? "night" : "light"];
