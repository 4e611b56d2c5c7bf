// The result tables: medians over runs with their 95 % intervals, sortable by column.

/** An allocator's name with its colour. Names with settings may break after each part. */
const nameTag = (index) => {
  const swatch = make("span", { class: "swatch" });
  swatch.style.background = styleOf(index).colour;
  const parts = facts.allocators[index].name.split(/(?<=[:,])/);
  const text = make("span", {}, ...parts.flatMap((part) => [make("wbr"), part]).slice(1));
  const setting = settingOf(index);
  const title = setting && `${facts.allocators[facts.verdict.base].name} with ${setting}`;
  return make("span", { class: "name", title }, swatch, text);
};
const nameCell = (index) => make("th", { scope: "row" }, nameTag(index));

// Heading, name of the figure in `facts.leaders`, value of the figure.
const LATENCY_COLUMNS = [
  ["calls", null, (summary) => summary.count],
  ["mean", "mean", (summary) => summary.mean],
  ...facts.percentiles.map(({ column, label }) => [
    label,
    column,
    (summary) => summary.percentiles[column],
  ]),
  ["worst", "worst", (summary) => summary.worst],
  ["total", "mean", (summary) => summary.total],
];
const RUN_COLUMNS = [
  ["time per operation", "throughput", duration],
  ["peak memory", "peak", bytes],
  ["page faults", "minor_faults", count],
  ["major faults", "major_faults", count],
  ["elapsed", "elapsed", duration],
  ["CPU", "cpu", duration],
  ["background CPU", "background", duration],
  ["wait for other threads", "waited", duration],
  ["involuntary context switches", "involuntary_switches", count],
];

/** The sort key of a figure. Missing figures sort last. */
const rank = (value) => (value === undefined ? Infinity : Array.isArray(value) ? value[0] : value);

const figureCell = (value, format, runs) => {
  if (value === undefined) {
    return make("td", { class: "none", title: "too few calls for this percentile", text: "–" });
  }
  if (!Array.isArray(value)) return make("td", { text: value.toLocaleString("en-US") });
  const [median, least, most, low, high] = value;
  const cell = make("td", { text: format(median), "data-value": median });
  if (runs < 2) return cell;
  const range =
    least === most
      ? `the same in all ${runs} runs`
      : `${runs} runs: ${format(least)} to ${format(most)}`;
  const known = low !== undefined;
  cell.title = known ? `95 % interval ${format(low)} to ${format(high)}; ${range}` : range;
  const under = known
    ? `${format(low)} – ${format(high)}`
    : least === most
      ? "same in all runs"
      : `${format(least)} – ${format(most)}`;
  cell.append(make("small", { text: under, class: known ? null : "range-only" }));
  return cell;
};

/** The allocators that are among the lowest; empty if all of them are. */
const amongLowest = (rows, { value, figure, operation }) => {
  const leaders =
    (state.excludeInterrupted && operation !== "run" ? facts.calm_leaders : facts.leaders)[
      operation
    ]?.[figure] ?? [];
  const real = rows.filter(
    (row) => !facts.allocators[row.index].floor && Array.isArray(value(row)),
  );
  return new Set(leaders.length < real.length ? leaders : []);
};

const sortable = (title, columns, rows) => {
  const table = make("table", {}, make("caption", { text: title }));
  const best = columns.map((column) => (column.figure ? amongLowest(rows, column) : new Set()));
  let sorted = { column: -1, up: true };
  const body = make("tbody");
  const line = (row) => {
    const one = facts.allocators[row.index];
    const cells = columns.map((column, at) => {
      const cell = figureCell(column.value(row), column.format, one.runs);
      if (best[at].has(row.index)) cell.classList.add("best");
      return cell;
    });
    return make("tr", { class: one.floor ? "floor" : null }, nameCell(row.index), ...cells);
  };
  const fill = () => body.replaceChildren(...rows.map(line));
  const heading = (name, at) =>
    make(
      "th",
      { scope: "col", "aria-sort": "none" },
      make("button", {
        type: "button",
        text: name,
        onclick: (event) => {
          sorted = { column: at, up: sorted.column === at ? !sorted.up : true };
          const key = (row) =>
            at < 0 ? facts.allocators[row.index].name : rank(columns[at].value(row));
          rows.sort(
            (a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * (sorted.up ? 1 : -1),
          );
          table
            .querySelectorAll("thead th")
            .forEach((cell) => cell.setAttribute("aria-sort", "none"));
          event.target.parentElement.setAttribute(
            "aria-sort",
            sorted.up ? "ascending" : "descending",
          );
          fill();
        },
      }),
    );
  const headings = columns.map((column, at) => heading(column.name, at));
  table.append(make("thead", {}, make("tr", {}, heading("allocator", -1), ...headings)), body);
  fill();
  return make("div", { class: "scroll" }, table);
};

const latencyTable = (operation) => {
  const rows = facts.allocators.flatMap((one, index) => {
    const summary = figuresOf(one)[operation];
    return summary ? [{ index, summary }] : [];
  });
  const columns = LATENCY_COLUMNS.map(([name, figure, value]) => ({
    name,
    figure,
    operation,
    value: (row) => value(row.summary),
    format: duration,
  })).filter((column) => rows.some((row) => column.value(row) !== undefined));
  return sortable(operation === "all" ? "all operations" : operation, columns, rows);
};

const drawTables = () => {
  const box = byId("tables");
  const main = facts.operations.filter((name) => name === "malloc" || name === "free");
  const others = facts.operations.filter((name) => !main.includes(name));
  const runs = facts.allocators.flatMap((one, index) => (one.runs ? [{ index }] : []));
  const columns = RUN_COLUMNS.map(([name, figure, format]) => ({
    name,
    figure,
    operation: "run",
    value: (row) => facts.allocators[row.index].figures[figure],
    format,
  })).filter((column) => runs.some((row) => column.value(row)?.[2] > 0));
  const tables = [...main, ...(main.length ? [] : others)].map(latencyTable);
  tables.push(sortable("whole run", columns, runs));
  if (main.length && others.length) {
    tables.push(
      make(
        "details",
        {},
        make("summary", { text: `${list(others)}, and all operations together` }),
        ...others.map(latencyTable),
        latencyTable("all"),
      ),
    );
  }
  box.replaceChildren(...tables);
};
