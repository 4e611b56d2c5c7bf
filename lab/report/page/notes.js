// The notes above the charts, and the facts of the measurement at the end of the page.

// The number of slow calls that are kept for each run (lab/replay/src/digest.rs).
const MOST_OUTLIERS = 20000;

const callsNote = () => {
  if (!facts.columns) {
    return "Single calls were not kept, so they cannot be drawn. The figures below are complete.";
  }
  const drawn = facts.allocators.filter((one) => one.drawn_run);
  const limited = drawn.some((one) => one.outlier_count >= MOST_OUTLIERS);
  const coarse = window.matchMedia("(pointer: coarse)").matches;
  const marked = limited
    ? `one of the ${count(MOST_OUTLIERS)} slowest calls`
    : "a call above p99.9";
  return (
    `All ${drawn[0].calls.toLocaleString("en-US")} calls of each allocator's median run; ` +
    "no sampling. Horizontal axis: time in the program. Vertical axis: latency. Dots mark the " +
    "slowest calls, the ring the slowest one in view. The figures beside the names are medians " +
    `over all runs. ${coarse ? "Tap" : "Point at"} ${marked} to see its size, thread and cause. ` +
    (coarse
      ? "Pinch to zoom, swipe sideways to pan; Show all resets the view."
      : "Click it to keep its details on the page. Drag to zoom in, double-click to show all. " +
        "Ctrl + wheel, + and − zoom; the arrow keys pan.")
  );
};

const setUpNotes = () => {
  byId("calls-note").textContent = callsNote();
  byId("percentiles-note").textContent =
    "Latency of the selected operation. Each step to the right is ten times rarer; the last " +
    "point is the worst call. Lines are medians over runs, shaded areas the range over runs, " +
    "vertical lines 95 % intervals. The dashed grey line is the same replay without an " +
    "allocator: the overhead of the measurement.";
  byId("memory-note").textContent =
    "Resident memory of each allocator in its drawn run. The grey area shows the program's live " +
    "bytes: allocated and not yet freed.";
  byId("sizes-note").textContent =
    "All calls of the selected operation. Horizontal axis: block size. Vertical axis: latency.";
  byId("causes-note").textContent =
    "Calls above p99.9 of their operation in each allocator's drawn run, by the cause that was " +
    "observed during the call.";
  byId("table-note").textContent =
    "Medians over runs. The second line is the 95 % interval of the geometric mean over runs, " +
    "or, in italics, the range over runs. Bold: the lowest figure and all figures without a " +
    "significant difference from it. A dash: fewer than ten calls are above the percentile. " +
    "Click a heading to sort.";
};

const byName = (counts) =>
  joined(Object.entries(counts).map(([name, calls]) => `${name} ${count(calls)}`));

const clockText = ({ name, ticks_per_ns: rate, step_ns: step, empty_pair: pair }) => {
  const text = `${name}, ${rate.toPrecision(4)} ticks/ns, resolution ${duration(step)}`;
  if (!pair.length) return text;
  const [typical, rare, rarest] = pair.map(duration);
  return (
    `${text}; two consecutive readings take ${typical} (p50), ${rare} (p99), ${rarest} (p99.9), ` +
    "which is included in every latency"
  );
};

const factRows = () => {
  const { machine, settings, journal, clock } = facts;
  const threads = `${journal.threads} ${journal.threads === 1 ? "thread" : "threads"}`;
  return [
    ["Journal", joined([journal.name, journal.program !== journal.name && journal.program])],
    ["Operations", byName(journal.operations)],
    ["Not replayed", byName(journal.skipped)],
    [
      "Recorded",
      joined([
        duration(journal.duration_ns),
        threads,
        `${count(journal.cross_thread_frees)} cross-thread frees`,
      ]),
    ],
    [
      "Peak live memory",
      `${bytes(journal.peak_live_bytes)} in ${count(journal.peak_live_objects)} objects; ` +
        `${bytes(journal.total_bytes)} allocated in total`,
    ],
    [
      "Replayed",
      joined([
        `pace ${settings.pace}`,
        `touch ${settings.touch}${settings.touch_timed ? ", timed" : ""}`,
        `${
          settings.max_runs > settings.runs
            ? `${settings.runs} to ${settings.max_runs}`
            : settings.runs
        } runs each, interleaved`,
        settings.serial ? "all on one thread" : "one thread for each recorded thread",
      ]),
    ],
    [
      "Machine",
      joined([
        machine.cpu,
        `${machine.cpus} CPUs`,
        bytes(machine.memory_bytes),
        machine.kernel,
        machine.libc,
        machine.huge_pages && `huge pages ${machine.huge_pages}`,
        machine.governor,
        machine.hypervisor && `under ${machine.hypervisor}`,
      ]),
    ],
    ["Clock", clockText(clock)],
    ["Command", settings.command.join(" ")],
    ["Measured", joined([facts.started, facts.keel_version && `keel ${facts.keel_version}`])],
  ].filter(([, text]) => text);
};

const setUpFacts = () => {
  const row = ([name, text]) => [make("dt", { text: name }), make("dd", { text })];
  byId("journal").textContent = facts.journal.name;
  byId("facts-list").append(...factRows().flatMap(row));
  byId("footer").textContent =
    `Made by keel ${facts.keel_version}. This file contains all of its data and loads nothing.`;
  byId("memory-section").hidden = !facts.allocators.some((one) => one.memory.length);
};
