// The sentences above the charts, and the facts of the measurement below them.

// So many slow calls of a run are kept one by one (lab/replay/src/digest.rs).
const MOST_OUTLIERS = 20000;

const callsNote = () => {
  if (!facts.columns) {
    return (
      "The raw rows of this comparison were not kept, so single calls cannot be drawn; " +
      "the figures below are complete."
    );
  }
  const drawn = facts.allocators.filter((one) => one.drawn_run);
  const cut = drawn.some((one) => one.outlier_count >= MOST_OUTLIERS);
  const touched = window.matchMedia("(pointer: coarse)").matches;
  const marked = cut ? `each of the ${count(MOST_OUTLIERS)} slowest` : "each call above p99.9";
  return (
    `All ${drawn[0].calls.toLocaleString("en-US")} calls of each allocator's median run are counted here, ` +
    "none sampled. Across: the moment in the program. Up: how long the call took. Dots: the slowest calls; " +
    `${marked} tells its size, thread and cause when ${touched ? "touched" : "pointed at"}. The ring is around the ` +
    "slowest of the run that is drawn; the figures beside the names are medians over all runs. " +
    (touched
      ? "A tap keeps a call. Two fingers zoom, one moves sideways, Show all goes back."
      : "A click keeps a call. Drag to zoom, double-click for all; Ctrl + wheel or + and − zoom, arrows pan.")
  );
};

const setUpNotes = () => {
  byId("calls-note").textContent = callsNote();
  byId("percentiles-note").textContent =
    "Of the operation chosen above. Each step to the right is ten times " +
    "rarer, up to the worst call of all. " +
    "Lines are medians over runs, shading their range, upright lines the 95 % intervals. " +
    "The dashed grey line is the floor: the same replay with no allocator at all.";
  byId("memory-note").textContent =
    "Resident memory that each allocator held in its drawn run, and as a grey area " +
    "the bytes that the program had asked for and not yet freed.";
  byId("sizes-note").textContent =
    "All calls of the chosen operation by the size of their block (across) and how " +
    "long they took (up).";
  byId("causes-note").textContent =
    "Calls above p99.9 of their operation in each allocator's drawn run, " +
    "by what was seen to happen during them.";
  byId("table-note").textContent =
    "Median over runs; beneath it the 95 % interval of the typical run, or in " +
    "italics only the range of runs. Bold: the lowest, and all that cannot be told from it when compared round by " +
    "round. A dash: fewer than ten calls lie above that percentile. A click on a heading sorts.";
};

const byName = (counts) =>
  joined(Object.entries(counts).map(([name, calls]) => `${name} ${count(calls)}`));

const clockWords = ({ name, ticks_per_ns: rate, step_ns: step, empty_pair: pair }) => {
  const words = `${name}, ${rate.toPrecision(4)} ticks/ns, counts in steps of ${duration(step)}`;
  if (!pair.length) return words;
  const [typical, rare, rarest] = pair.map(duration);
  return (
    `${words}; an empty pair of readings takes ${typical} (p50), ${rare} (p99), ${rarest} (p99.9), ` +
    "which every latency here includes"
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
        `${count(journal.cross_thread_frees)} frees by another thread than the allocating one`,
      ]),
    ],
    [
      "Live at most",
      `${bytes(journal.peak_live_bytes)} in ${count(journal.peak_live_objects)} objects; ` +
        `${bytes(journal.total_bytes)} asked for in all`,
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
        settings.serial ? "all on one thread" : "real threads",
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
    ["Clock", clockWords(clock)],
    ["Command", settings.command.join(" ")],
    ["Measured", joined([facts.started, facts.keel_version && `keel ${facts.keel_version}`])],
  ].filter(([, text]) => text);
};

const setUpFacts = () => {
  const row = ([name, text]) => [make("dt", { text: name }), make("dd", { text })];
  byId("journal").textContent = facts.journal.name;
  byId("facts-list").append(...factRows().flatMap(row));
  byId("footer").textContent =
    `Made by keel ${facts.keel_version}. This file holds all of its data and loads nothing.`;
  byId("memory-section").hidden = !facts.allocators.some((one) => one.memory.length);
};
