// The tables: means, heat map, single runs, the description of the workloads.

const cell = (text, attributes = {}) => make("td", { text, ...attributes });
const heading = (text, attributes = {}) => make("th", { text, scope: "col", ...attributes });

/** Rows of allocators: geometric means of each suite and of all. */
const meansTable = () => {
  const workloads = shownWorkloads();
  const groups = [...new Set(workloads.map((one) => one.suite))];
  const parts = groups.length > 1 ? [["all", workloads]] : [];
  for (const group of groups) parts.push([group, workloads.filter((one) => one.suite === group)]);
  const time = METRICS[state.time].title;
  const columns = parts.map(([title, list]) => [`${time}, ${title}`, state.time, list]);
  for (const metric of ["peak", "average", "after", "p999", "worst", "calls", "faults"]) {
    // A mean is over the workloads for which the metric was measured on every allocator that
    // completed them.
    const list = workloads.filter((one) => {
      const done = suite.allocators.filter((other) => spread(one, other, "elapsed")?.median);
      return done.length && done.every((other) => spread(one, other, metric)?.median !== undefined);
    });
    if (list.length) columns.push([METRICS[metric].title, metric, list]);
  }
  const rows = shownAllocators().map((allocator) => [
    allocator,
    columns.map(([, metric, list]) => ({
      ...meanOf(list, allocator, metric, state.base),
      of: list.length,
    })),
  ]);
  const lowest = columns.map((_, at) =>
    Math.min(...rows.filter(([, cells]) => cells[at].count === cells[at].of)
      .map(([, cells]) => cells[at].value ?? Infinity)),
  );
  rows.sort(([, a], [, b]) => (a[0].value ?? Infinity) - (b[0].value ?? Infinity));
  const body = rows.map(([allocator, cells]) => {
    const shown = cells.map((one, at) => meanCell(one, lowest[at]));
    return make("tr", {}, allocatorHeading(allocator), ...shown);
  });
  const head = make("tr", {}, heading("allocator"), ...columns.map(([title]) => heading(title)));
  return make("table", { class: "means" }, make("thead", {}, head), make("tbody", {}, ...body));
};

const meanCell = (one, lowest) => {
  const td = make("td", {});
  td.append(make(one.value === lowest ? "b" : "span", { text: times(one.value) }));
  // A mean over fewer workloads than the others is marked.
  if (one.count < one.of) td.append(make("small", { text: ` of ${one.count}/${one.of}` }));
  return td;
};

const allocatorHeading = (allocator) =>
  make(
    "th",
    { scope: "row", title: [allocator.version, ...allocator.settings].filter(Boolean).join(" ") },
    swatch(allocator),
    ` ${allocator.name}${allocator.remark ? ` (${allocator.remark})` : ""}`,
  );

/** The background of a ratio: none at 1, the strongest at 4 and above; blue below 1. */
const heatColour = (value) => {
  const strength = clamp(Math.abs(Math.log2(value)) / 2, 0, 1) * 0.62;
  const [red, green, blue] = value >= 1 ? [209, 73, 12] : [0, 103, 163];
  return `rgb(${red} ${green} ${blue} / ${strength.toFixed(3)})`;
};

const heatTable = () => {
  const rows = [];
  let group = "";
  for (const workload of shownWorkloads()) {
    if (workload.suite !== group) {
      group = workload.suite;
      const colspan = shownAllocators().length + 1;
      const title = make("th", { text: group, colspan, scope: "rowgroup" });
      rows.push(make("tr", { class: "group" }, title));
    }
    rows.push(
      make(
        "tr",
        {},
        make("th", { scope: "row", text: workload.name, title: workload.about }),
        ...shownAllocators().map((one) => heatCell(workload, one)),
      ),
    );
  }
  const names = shownAllocators().map((one) => heading(one.name));
  const head = make("tr", {}, heading("workload"), ...names);
  return make("table", { class: "heat" }, make("thead", {}, head), make("tbody", {}, ...rows));
};

const heatCell = (workload, allocator) => {
  const value = spread(workload, allocator, state.heat);
  if (value?.failed) return cell("failed", { class: "failed", title: value.failed });
  const one = ratio(workload, allocator, state.heat, state.base);
  if (!one) return cell("–");
  const show = METRICS[state.heat].show;
  const title =
    `${workload.name}, ${allocator.name}: ${show(value.median)} ` +
    `(${show(value.least)} to ${show(value.most)})`;
  const text = times(one.median).replace("\u00a0×", "");
  return cell(text, { title, style: `background:${heatColour(one.median)}` });
};

const RUN_COLUMNS = [
  ["elapsed", "elapsed"],
  ["cpu", "processor time"],
  ["peak", "peak memory"],
  ["average", "average memory"],
  ["p999", "p99.9"],
  ["worst", "slowest call"],
  ["after", "memory 1 s after the end"],
  ["calls", "system calls"],
  ["faults", "page faults"],
  ["switches", "context switches"],
];

const measuredCell = (metric, measured) => {
  const value = METRICS[metric].of(measured);
  return cell(value === undefined ? "–" : METRICS[metric].show(value));
};

const runsTable = (workload) => {
  const runs = suite.runs.filter((run) => run.workload === keyOf(workload));
  const rows = runs.map((run) =>
    make(
      "tr",
      {},
      make("th", { scope: "row", text: run.allocator }),
      cell(String(run.round + 1)),
      ...(run.measured
        ? RUN_COLUMNS.map(([metric]) => measuredCell(metric, run.measured))
        : [cell(`failed: ${run.failed}`, { class: "failed", colspan: RUN_COLUMNS.length })]),
      cell(percent(run.others), { title: (run.interference ?? []).join(", ") }),
      cell(String(run.discarded?.length ?? 0)),
    ),
  );
  const columns = RUN_COLUMNS.map(([, title]) => title);
  const titles = ["allocator", "round", ...columns, "others", "repeats"];
  const head = make("tr", {}, ...titles.map((title) => heading(title)));
  return make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows));
};

const describe = (workload) => {
  const line = (label, text) =>
    text ? make("p", {}, make("span", { text: `${label}: ` }), text) : null;
  return make(
    "div",
    { class: "work" },
    make("h3", { text: workload.name }),
    make("p", { text: workload.about }),
    line("Stresses", workload.stresses),
    line("Source", workload.source),
    line("Does not show", workload.not_shown),
  );
};
