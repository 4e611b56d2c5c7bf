// Builds the page of a suite.

const baseName = () => (state.base === "best" ? "the lowest allocator" : state.base);

const readTheme = () => {
  try {
    return localStorage.getItem("keel-theme");
  } catch {
    return null; // some browsers deny access for file:// pages
  }
};
const setTheme = (theme, keep) => {
  document.documentElement.dataset.theme = theme;
  try {
    if (keep) localStorage.setItem("keel-theme", theme);
  } catch {
    /* the theme is applied but not stored */
  }
  const other = theme === "dark" ? "Light" : "Dark";
  byId("theme").textContent = other;
  byId("theme").setAttribute("aria-label", `Switch to the ${other.toLowerCase()} theme`);
};

/** Buttons of which one is selected. */
const choice = (label, options, field) =>
  make(
    "div",
    { class: "choice", role: "group", "aria-label": label },
    ...options.map(([value, text]) =>
      make("button", {
        ...{ type: "button", text, "aria-pressed": String(state[field] === value) },
        onclick: () => change({ [field]: value }),
      }),
    ),
  );

const chip = (allocator) =>
  make(
    "button",
    {
      ...{ type: "button", class: "chip", title: `Show or hide ${allocator.name}` },
      "aria-pressed": String(!state.hidden.has(allocator.name)),
      onclick: () => {
        const hidden = new Set(state.hidden);
        if (!hidden.delete(allocator.name)) hidden.add(allocator.name);
        if (hidden.size < suite.allocators.length) change({ hidden });
      },
    },
    swatch(allocator),
    allocator.name,
  );

const picker = (label, options, value, onchange) => {
  const select = make(
    "select",
    { "aria-label": label, onchange: (event) => onchange(event.target.value) },
    ...options.map(([id, text]) => make("option", { value: id, text, selected: id === value })),
  );
  return make("span", { class: "pick" }, make("label", { text: label }), select);
};

const controls = () => {
  const suites = [...new Set(suite.workloads.map((one) => one.suite))];
  const bases = [["best", "the lowest"], ...suite.allocators.map((one) => [one.name, one.name])];
  const parts = [picker("1 × is", bases, state.base, (base) => change({ base }))];
  const names = [["", "all suites"], ...suites.map((one) => [one, one])];
  if (suites.length > 1) parts.unshift(choice("Suites", names, "suite"));
  parts.push(make("div", { class: "chips" }, ...suite.allocators.map(chip)));
  byId("controls").replaceChildren(...parts);
};

const TIMES = [
  ["elapsed", "elapsed"],
  ["cpu", "processor time"],
];

const MEMORIES = [
  ["peak", "peak"],
  ["average", "average over the run"],
];
const TAILS = [
  ["p999", "p99.9"],
  ["worst", "slowest call"],
];

const AFTER_NOTE =
  "“Memory 1 s after the end” is the resident memory one second after the end of a pattern, in a " +
  "separate process. A value below 1 MiB counts as 1 MiB.";

const timedRuns = () =>
  suite.quick
    ? "Synthetic workloads made such a run in the first round, at a quarter of their size. " +
      "Patterns also made one. Real programs and journals made none. "
    : "Synthetic workloads made such a run in each of the first three rounds, at a quarter of " +
      "their size. Patterns and real programs made one. Journals made none. ";

const notes = () => {
  const number = pluralize(shownWorkloads().length, "workload", "workloads");
  byId("means-note").textContent =
    `Each value is divided by the value of ${baseName()}. A number is the geometric mean of ` +
    `these ratios over ${number}. Lower is better. Bold marks the lowest number among the ` +
    "allocators that completed every workload." +
    (hasMetric("after") ? ` ${AFTER_NOTE}` : "");
  byId("time-note").textContent =
    `A dot is the median of an allocator's runs, divided by the median of ${baseName()}. A bar ` +
    "reaches from the lowest run to the highest. If bars overlap, the order is not certain.";
  byId("memory-note").textContent =
    "Resident memory, shown in the same way. It includes the memory of the program itself. " +
    "“Peak” is that of the largest process. “Average” is the mean over time of the sum of all " +
    "processes.";
  byId("tail-note").textContent =
    "These times are from additional runs, in which each call of the allocator was timed. " +
    timedRuns() +
    "A time includes reading the clock. p99.9: 99.9 % of the calls take at most this time. The " +
    "slowest call also contains interruptions by the machine.";
  byId("scatter-note").textContent =
    `Geometric means over ${pluralize(commonWorkloads().length, "workload", "workloads")}: ` +
    "those that every shown allocator completed. The dashed line connects the allocators for " +
    "which no other allocator is lower in both time and memory (the Pareto front).";
  byId("heat-note").textContent =
    `Each number is a median, divided by the median of ${baseName()}. The colour is strongest ` +
    "at 4 × and above." +
    (state.heat === "after" ? ` ${AFTER_NOTE}` : "");
};

const toolbars = () => {
  byId("time-toolbar").replaceChildren(choice("Time", TIMES, "time"));
  byId("memory-toolbar").replaceChildren(choice("Memory", MEMORIES, "memory"));
  byId("tail-toolbar").replaceChildren(choice("Calls", TAILS, "tail"));
  const present = Object.entries(METRICS).filter(([id]) => hasMetric(id));
  const options = present.map(([id, metric]) => [id, metric.title]);
  byId("heat-toolbar").replaceChildren(choice("Metric", options, "heat"));
};

const runs = () => {
  const options = shownWorkloads().map((one) => [keyOf(one), keyOf(one)]);
  const chosen = shownWorkloads().find((one) => keyOf(one) === state.workload);
  const workload = chosen ?? shownWorkloads()[0];
  if (!workload) return;
  const pick = picker("Workload", options, keyOf(workload), (id) => change({ workload: id }));
  byId("runs-toolbar").replaceChildren(pick);
  byId("runs").replaceChildren(runsTable(workload));
};

const descriptions = () => {
  const suites = [...new Set(shownWorkloads().map((one) => one.suite))];
  const groups = suites.map((name) => {
    const list = shownWorkloads().filter((one) => one.suite === name);
    const summary = make("summary", { text: `${name} (${list.length})` });
    return make("details", {}, summary, ...list.map(describe));
  });
  byId("workloads").replaceChildren(...groups);
};

const cautions = () => {
  const failed = suite.runs.filter((run) => run.failed);
  const places = new Map(failed.map((run) => [`${run.workload} on ${run.allocator}`, run.failed]));
  const items = [...places].map(([place, reason]) => `${place}: ${reason}.`);
  for (const run of suite.runs)
    if (run.incomplete) items.push(`${run.workload} on ${run.allocator}: ${run.incomplete}.`);
  const disturbed = suite.runs.filter((run) => run.interference?.length);
  const repeats = suite.runs.reduce((sum, run) => sum + (run.discarded?.length ?? 0), 0);
  if (disturbed.length) {
    const kinds = [...new Set(disturbed.flatMap((run) => run.interference))].join(", ");
    items.push(
      `The machine disturbed ${disturbed.length} of the ${suite.runs.length} runs in the ` +
        `results (${kinds}). The times of these runs are uncertain.`,
    );
  }
  if (repeats)
    items.push(
      `${pluralize(repeats, "run was", "runs were")} repeated, because the machine disturbed ` +
        `${repeats === 1 ? "it" : "them"}. Of a run and its repeats, only the least disturbed ` +
        "one counts.",
    );
  const rounds = suite.runs.map((run) => run.round);
  if (Math.max(...rounds) < 2)
    items.push("There are fewer than three rounds: small differences are not significant.");
  byId("cautions").replaceChildren(...items.map((text) => make("li", { text })));
};

const setup = () => {
  const { machine } = suite;
  const rounds = new Set(suite.runs.map((run) => run.round)).size;
  const allocators = suite.allocators.map((one) =>
    joined([`${one.name} ${one.version}`.trim(), one.remark, one.settings.join(" ")]),
  );
  const absent = suite.left_out.map((text) => text.split(": ")[0]);
  const entries = [
    ["Processor", `${machine.cpu}, ${pluralize(machine.cpus, "processor", "processors")}`],
    ["Memory", bytes(machine.memory_bytes)],
    ["Kernel", machine.kernel],
    ["C library", machine.libc],
    ["Huge pages", machine.huge_pages || "unknown"],
    ["Governor", machine.governor || "none reported"],
    ["Hypervisor", machine.hypervisor || "none"],
    ["Load before", suite.load_before],
    ["Started", suite.started],
    ["Rounds", `${rounds}. In each round, every workload runs on every allocator, in random ` +
      "order. Each run has its own process"],
    ["Size", suite.quick ? `short form, synthetic workloads at ${suite.scale} of full` : "full"],
    ["Disturbance", "A run is repeated, at most three times, if a processor was slower by " +
      "1.5 %, the hypervisor took 2 % of the time, or other programs took 10 %"],
    ["Noise found", byId("facts-list").dataset.noise],
    ["Time limit", `${suite.limit_seconds} s for each run`],
    ["Allocators", allocators.join("; ")],
    ["How programs call them", "The C library and libraries given by path: directly. Keel and " +
      "the others: through one preloaded library, with a jump for each call."],
    ["Not installed here", absent.join(", ") || "nothing"],
    ["Command", `keel ${suite.command.join(" ")}`],
    ["Keel", suite.keel_version],
  ];
  const pair = ([name, text]) => [make("dt", { text: name }), make("dd", { text })];
  byId("facts-list").replaceChildren(...entries.flatMap(pair));
};

const render = () => {
  controls();
  toolbars();
  notes();
  byId("means").replaceChildren(meansTable());
  strips(byId("time"), state.time);
  strips(byId("memory"), state.memory);
  strips(byId("tail"), state.tail);
  scatter(byId("scatter"));
  byId("heat").replaceChildren(heatTable());
  runs();
};

const change = (next) => {
  Object.assign(state, next);
  render();
  if ("suite" in next) descriptions();
};

const start = () => {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  setTheme(readTheme() ?? (system.matches ? "dark" : "light"), false);
  byId("theme").addEventListener("click", () => {
    setTheme(dark() ? "light" : "dark", true);
    render();
  });
  const { machine } = suite;
  const date = suite.started.slice(0, 10);
  byId("subtitle").textContent = joined(["Benchmark suite", machine.cpu, date]);
  byId("summary").textContent =
    `${pluralize(suite.workloads.length, "workload", "workloads")} on ` +
    `${pluralize(suite.allocators.length, "allocator", "allocators")}, ` +
    `${pluralize(suite.runs.length, "run", "runs")}, on ${machine.cpu} with ` +
    `${pluralize(machine.cpus, "processor", "processors")}.`;
  render();
  cautions();
  descriptions();
  setup();
  byId("footer").textContent =
    `Written by keel ${suite.keel_version}. The page contains all runs and loads nothing.`;
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width) render();
    width = window.innerWidth;
  });
  document.documentElement.dataset.ready = "true";
};
start();
