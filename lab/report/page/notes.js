// The notes above the charts, and the facts of the measurement at the end of the page.

// The number of slow calls that are kept for each run (lab/replay/src/digest.rs).
const MOST_OUTLIERS = 20000;

const callsNote = () => {
  if (!facts.columns) {
    return (
      "The results contain no single calls, so these charts are empty. " +
      "The tables are complete."
    );
  }
  const drawn = facts.allocators.filter((one) => one.median_run);
  const limited = drawn.some((one) => one.outlier_count >= MOST_OUTLIERS);
  const coarse = window.matchMedia("(pointer: coarse)").matches;
  const marked = limited
    ? `one of the ${count(MOST_OUTLIERS)} slowest calls`
    : "a call above p99.9";
  return (
    "Each chart shows every call of the selected operation in one run of an allocator. This is " +
    "the median run: the one in the middle if the runs are sorted by their total time in calls. " +
    "Horizontal axis: time in the recording. Vertical axis: latency. Dots show the slowest " +
    "calls. A ring marks the slowest call in the visible time range. The numbers beside the " +
    "names are medians of all runs. " +
    `${coarse ? "Tap" : "Point at"} ${marked} to see its size, thread and cause. ` +
    (coarse
      ? "Pinch to zoom, and swipe sideways to pan. “Show all” resets the view."
      : "Click it to keep its details on the page. Drag to zoom in, and double-click to show " +
        "all. Ctrl + wheel, + and − also zoom. The arrow keys pan.")
  );
};

const setUpNotes = () => {
  putText("calls-note", callsNote());
  putText(
    "percentiles-note",
    "The latency of the selected operation. At 99 %, for example, the chart shows the latency " +
      "that 99 % of the calls do not exceed. The last point is the worst call. A line shows the " +
      "median of the runs. The shaded area reaches from the lowest run to the highest. Vertical " +
      "lines are 95 % intervals. The dashed grey line is the null allocator, which does nothing: " +
      "its times are the cost of measuring.",
  );
  putText(
    "memory-note",
    "The resident memory of each allocator in its median run. The grey area shows live bytes: " +
      "the program has requested them and not yet freed them.",
  );
  putText(
    "sizes-note",
    "All calls of the selected operation. Horizontal axis: block size. Vertical axis: latency.",
  );
  putText(
    "causes-note",
    "The slowest calls of each median run, grouped by what happened during the call. A call is " +
      "slow here if it is above the p99.9 of its operation (malloc, free and so on).",
  );
  putText(
    "table-note",
    "In each cell, the first line is the median of the runs. The second line is the 95 % " +
      "interval of the geometric mean, or, in italics, the lowest and the highest run. Bold " +
      "marks the lowest value, and all values that do not differ significantly from it. A dash " +
      "means that fewer than ten calls are above the percentile. Click a heading to sort.",
  );
};

const byName = (counts) =>
  joined(Object.entries(counts).map(([name, calls]) => `${name} ${count(calls)}`));

const storesText = ([one, many]) =>
  many > 0
    ? " The processor may finish a write after the end of the call. The latency does not include " +
      `this time. If the memory is in no cache, finishing the writes takes ${duration(one)} for ` +
      `one cache line, and ${duration(many)} for 16 lines.`
    : "";

const clockText = (clock) => {
  const { name, ticks_per_ns: rate, step_ns: step, empty_pair: pair } = clock;
  const text = `${name}, ${rate.toPrecision(4)} ticks/ns, resolution ${duration(step)}`;
  if (!pair.length) return text;
  const [typical, rare, rarest] = pair.map(duration);
  return (
    `${text}. Every latency includes the time for reading the clock: the p50 of this time is ` +
    `${typical}, the p99 is ${rare}, and the p99.9 is ${rarest}. The clock advances in steps of ` +
    `${duration(step)}. The percentiles assume that latencies within one step are spread evenly. ` +
    "So a percentile can be a little lower than the time for reading the clock." +
    storesText(clock.stores_in_flight)
  );
};

const factRows = () => {
  const { machine, settings, journal, clock } = facts;
  const { runs, max_runs: most } = settings;
  return [
    ["Journal", joined([journal.name, journal.program !== journal.name && journal.program])],
    ["Operations", byName(journal.operations)],
    ["Not replayed", byName(journal.skipped)],
    [
      "Recorded",
      joined([
        duration(journal.duration_ns),
        pluralize(journal.threads, "thread", "threads"),
        pluralize(journal.cross_thread_frees, "cross-thread free", "cross-thread frees"),
      ]),
    ],
    [
      "Peak live memory",
      `${bytes(journal.peak_live_bytes)} in ` +
        `${pluralize(journal.peak_live_objects, "object", "objects")}; ` +
        `${bytes(journal.total_bytes)} allocated during the recording`,
    ],
    [
      "Replayed",
      joined([
        `pace ${settings.pace}`,
        settings.evict_bytes && `between calls evict=${bytes(settings.evict_bytes)}`,
        `touch ${settings.touch}${settings.touch_timed ? ", timed" : ""}`,
        `${most > runs ? `${runs} to ${most} runs` : pluralize(runs, "run", "runs")} of each ` +
          "allocator, in turn",
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
        machine.huge_pages && `huge pages: ${machine.huge_pages}`,
        machine.governor && `frequency governor: ${machine.governor}`,
        machine.hypervisor && `hypervisor: ${machine.hypervisor}`,
      ]),
    ],
    ["Clock", clockText(clock)],
    ["Command", settings.command.join(" ")],
    ["Measured", joined([facts.started, facts.keel_version && `keel ${facts.keel_version}`])],
  ].filter(([, text]) => text);
};

const setUpFacts = () => {
  const row = ([name, text]) => [make("dt", { text: name }), make("dd", { text })];
  putText("journal", facts.journal.name);
  byId("facts-list").append(...factRows().flatMap(row));
  putText("footer", `Made by keel ${facts.keel_version}. This file contains all of its data.`);
  byId("memory-section").hidden = !facts.allocators.some((one) => one.memory.length);
};
