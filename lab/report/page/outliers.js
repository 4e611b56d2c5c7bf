// The causes of the slow calls, and a table of the slowest ones.

const SLOWEST_SHOWN = 15;

const causeTotals = (outliers) => {
  const totals = CAUSES.map(() => 0);
  for (let at = 0; at < outliers.length; at += 1) totals[causeIndex(outliers.cause[at])] += 1;
  return totals;
};

const causeBar = (index, totals) => {
  const all = totals.reduce((a, b) => a + b, 0);
  const parts = totals
    .map((total, cause) => {
      const title = `${CAUSES[cause].label}: ${count(total)} (${percent(total / all)})`;
      const part = make("span", { class: "part", title });
      part.style.flexGrow = total;
      part.style.background = css(shade(CAUSES[cause].hue, dark() ? 0.62 : 0.5));
      return part;
    })
    .filter((_, cause) => totals[cause]);
  const label = totals
    .map((total, cause) => [total, CAUSES[cause].label])
    .filter(([total]) => total)
    .map(([total, text]) => `${percent(total / all)} ${text}`)
    .join(", ");
  return make(
    "div",
    { class: "cause-row" },
    nameTag(index),
    make("div", { class: "bar", role: "img", "aria-label": label }, ...parts),
    make("span", { class: "figure", text: pluralize(all, "call", "calls") }),
  );
};

const causeLegend = () =>
  make(
    "div",
    { class: "cause-legend" },
    ...CAUSES.map((cause) => {
      const swatch = make("span", { class: "swatch" });
      swatch.style.background = css(shade(cause.hue, dark() ? 0.62 : 0.5));
      return make("span", {}, swatch, cause.label);
    }),
  );

const drawCauses = async () => {
  const indices = shown().filter((index) => facts.allocators[index].outlier_count);
  byId("causes-section").hidden = !indices.length;
  if (!indices.length) return;
  const loaded = await Promise.all(
    indices.map(async (index) => [index, await loadOutliers(index)]),
  );
  await loadStacks();
  const bars = loaded.map(([index, outliers]) => causeBar(index, causeTotals(outliers)));
  byId("causes").replaceChildren(causeLegend(), ...bars);
  byId("slowest").replaceChildren(slowestTable(loaded));
};

const slowestTable = (loaded) => {
  const rows = loaded.flatMap(([index, outliers]) => {
    const chosen = outliers.slowestFirst.filter((at) => passesStack(outliers, at));
    return Array.from(chosen.slice(0, SLOWEST_SHOWN), (at) => ({ index, outliers, at }));
  });
  rows.sort((a, b) => b.outliers.latency[b.at] - a.outliers.latency[a.at]);
  const frames = frameMarks !== null;
  const columns = [
    "allocator",
    "latency",
    "operation",
    "size",
    "thread",
    "time",
    ...(frames ? ["frame"] : []),
    "attributed to",
    "cause",
    ...(stacks ? ["called in"] : []),
  ];
  const body = rows
    .slice(0, SLOWEST_SHOWN)
    .map(({ index, outliers, at }) =>
      make(
        "tr",
        {},
        nameCell(index),
        make("td", { text: duration(outliers.latency[at]) }),
        make("td", { text: OPERATION_NAMES[outliers.kind[at]] }),
        make("td", { text: outliers.size[at] ? bytes(outliers.size[at]) : "–" }),
        make("td", { text: outliers.thread[at] }),
        make(
          "td",
          {},
          make("button", {
            type: "button",
            class: "link",
            text: timestamp(outliers.time[at], 1e8),
            title: "Show this time in the charts above",
            onclick: () => showCall(index, outliers, at),
          }),
        ),
        frames ? make("td", { text: frameOf(outliers.time[at]).toLocaleString("en-US") }) : null,
        make("td", { class: "words", text: verdictOf(outliers, at).short }),
        make("td", { class: "words", text: causeOf(outliers, at) }),
        stacks ? make("td", { class: "words", text: siteText(outliers, at) || "–" }) : null,
      ),
    );
  const head = columns.map((name) =>
    make("th", {
      text: name,
      scope: "col",
      class: ["cause", "attributed to", "called in"].includes(name) ? "words" : null,
    }),
  );
  return make(
    "table",
    { "aria-label": "Slowest calls" },
    make("thead", {}, make("tr", {}, ...head)),
    make("tbody", {}, ...body),
  );
};

/** The slow calls of a frame, of every operation, longest first. */
const callsOfFrame = (outliers, frame) => {
  const from = frameMarks[frame - 1] ?? 0;
  const to = frameMarks[frame] ?? Infinity;
  return Array.from(outliers.slowestFirst).filter(
    (at) => outliers.time[at] >= from && outliers.time[at] < to,
  );
};

/**
 * Shows a call in the charts: selects its operation, zooms to 1 % of the recording and opens its
 * details.
 */
const showCall = async (index, outliers, at) => {
  const shown = new Set([...state.shown, index]);
  // The flame graph may have selected the calls of another stack.
  const stack = passesStack(outliers, at) ? state.stack : 0;
  set({ operation: OPERATION_NAMES[outliers.kind[at]], marks: true, shown, stack });
  const half = facts.span_ns / 200;
  setView(outliers.time[at] - half, outliers.time[at] + half);
  const panel = panels.get(index);
  if (panel) panel.pointed = at;
  await pin(index, outliers, at);
  // The details push the charts down, so the page scrolls after they are shown.
  reveal(byId("detail"));
};
