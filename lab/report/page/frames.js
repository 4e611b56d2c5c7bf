// Frame and audio budgets: the share of each frame's or buffer's time spent in the allocator.

const RATES = [
  [30, "30 Hz"],
  [60, "60 Hz"],
  [90, "90 Hz"],
  [120, "120 Hz"],
  [144, "144 Hz"],
  [240, "240 Hz"],
];
const BUFFERS = [
  [1, "2 ms"],
  [2, "4 ms"],
  [5, "10 ms"],
]; // length in windows
const SHARES = [0.01, 0.05, 0.1];
const WORST_LISTED = 10;
let frameMarks = null;
const periodSums = { frames: new Map(), windows: new Map() };
let framesPlot = null;
let framesSorted = { column: 1, up: true };

/** The number of frame marks at or before a time; null if the journal has no frames. */
const frameOf = (time) => (frameMarks ? lowerBound(frameMarks, time + 1) : null);

const loadAllFrames = async () => {
  if (facts.frame_count) frameMarks = await loadFrameMarks();
  await Promise.all(
    facts.allocators.map(async (one, index) => {
      const frames = facts.frame_count ? await loadFrames(index) : null;
      if (frames) periodSums.frames.set(index, frames);
      const windows = await loadWindows(index);
      if (windows) periodSums.windows.set(index, windows);
    }),
  );
};

/**
 * The periods that have a budget: frames between marks, or audio buffers of a fixed length. The
 * time before the first mark (loading) is not a frame.
 */
const currentPeriods = () => {
  const isFrames = state.periods === "frames";
  const each = isFrames ? 1 : Math.round(state.budget / facts.window_ns);
  const length = isFrames ? facts.frame_count : Math.ceil(facts.windows / each);
  const begin = isFrames
    ? (period) => frameMarks[period]
    : (period) => period * each * facts.window_ns;
  const end = (period) => (period + 1 < length ? begin(period + 1) : facts.span_ns);
  const first = (time) =>
    isFrames
      ? Math.max(0, lowerBound(frameMarks, time) - 1)
      : clamp(Math.floor(time / (each * facts.window_ns)), 0, length);
  const name = (period) =>
    isFrames
      ? `frame ${(period + 1).toLocaleString("en-US")}`
      : `at ${timestamp(begin(period), 1e8)}`;
  return { isFrames, each, length, begin, end, first, name, sums: periodSums[state.periods] };
};

/** Time inside calls in each period, with the options of the toolbar applied. */
const insideOf = (sums, periods) => {
  const inside = new Float64Array(periods.length);
  const busiest = state.busiest && periods.each === 1;
  for (let period = 0; period < periods.length; period += 1) {
    for (let part = 0; part < periods.each; part += 1) {
      const at = periods.isFrames ? period + 1 : period * periods.each + part;
      if (at >= sums.inside.length) break;
      inside[period] += busiest
        ? sums.busiest[at]
        : sums.inside[at] - (state.interrupted ? 0 : sums.interrupted[at]);
    }
  }
  return inside;
};

const summarizePeriods = (index, inside) => {
  const over = SHARES.map(() => 0);
  let [worst, total] = [0, 0];
  for (let period = 0; period < inside.length; period += 1) {
    total += inside[period];
    SHARES.forEach((share, at) => {
      if (inside[period] > share * state.budget) over[at] += 1;
    });
    if (inside[period] > inside[worst]) worst = period;
  }
  return {
    index,
    inside,
    over: over.map((number) => number / inside.length),
    worst,
    most: inside[worst],
    mean: total / inside.length,
  };
};

const showPeriod = (periods, period) => {
  const [from, to] = [periods.begin(period), periods.end(period)];
  setView(from - (to - from) * 2, to + (to - from) * 2);
  if (periods.isFrames) setLink(`frame-${period + 1}`);
  reveal(byId("calls"));
};

const goButton = (periods, period, text) =>
  make("button", {
    type: "button",
    class: "link",
    text,
    title: "Show this time in the charts above",
    onclick: () => showPeriod(periods, period),
  });

let drawnFrames = null;
const redrawFrameStrip = () => {
  if (drawnFrames) drawFrameStrip(drawnFrames.periods, drawnFrames.rows);
};

const drawFrames = () => {
  const periods = currentPeriods();
  if (!periods.sums.size) return;
  const rows = shown()
    .filter((index) => periods.sums.has(index))
    .map((index) => summarizePeriods(index, insideOf(periods.sums.get(index), periods)));
  drawnFrames = { periods, rows };
  redrawFrameStrip();
  byId("frames-table").replaceChildren(budgetTable(periods, rows));
  byId("worst-frames").replaceChildren(worstTable(periods, rows));
};

const budgetTable = (periods, rows) => {
  const what = periods.isFrames ? "frame" : "buffer";
  const columns = [
    ["allocator", (row) => facts.allocators[row.index].name],
    [`mean per ${what}`, (row) => row.mean],
    ...SHARES.map((share, at) => [`${what}s over ${share * 100} %`, (row) => row.over[at]]),
    [`worst ${what}`, (row) => row.most],
  ];
  const key = columns[framesSorted.column][1];
  rows.sort(
    (a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * (framesSorted.up ? 1 : -1),
  );
  const sortBy = (column) => () => {
    framesSorted = { column, up: framesSorted.column === column ? !framesSorted.up : true };
    drawFrames();
    byId("frames-table").querySelectorAll("thead button")[column].focus();
  };
  const order = (at) =>
    at !== framesSorted.column ? "none" : framesSorted.up ? "ascending" : "descending";
  const head = make(
    "tr",
    {},
    ...columns.map(([name], at) =>
      make(
        "th",
        { scope: "col", "aria-sort": order(at) },
        make("button", { type: "button", text: name, onclick: sortBy(at) }),
      ),
    ),
  );
  const body = rows.map((row) =>
    make(
      "tr",
      {},
      nameCell(row.index),
      make("td", { text: duration(row.mean) }),
      ...row.over.map((share) => make("td", { text: percent(share) })),
      make(
        "td",
        {},
        goButton(periods, row.worst, `${duration(row.most)}, ${periods.name(row.worst)}`),
      ),
    ),
  );
  return make(
    "table",
    { "aria-label": `Time in calls of each ${what}, by allocator` },
    make("thead", {}, head),
    make("tbody", {}, ...body),
  );
};

/**
 * The worst periods of the shown allocators: which allocator took longest and which took least
 * time.
 */
const worstTable = (periods, rows) => {
  const longest = (period) => rows.reduce((a, b) => (b.inside[period] > a.inside[period] ? b : a));
  const shortest = (period) => rows.reduce((a, b) => (b.inside[period] < a.inside[period] ? b : a));
  const candidates = new Set(
    rows.flatMap(({ inside }) =>
      Array.from(inside.keys())
        .filter((period) => inside[period] > 0)
        .sort((a, b) => inside[b] - inside[a])
        .slice(0, WORST_LISTED),
    ),
  );
  const found = [...candidates].map((period) => ({
    period,
    most: longest(period),
    least: shortest(period),
  }));
  found.sort((a, b) => b.most.inside[b.period] - a.most.inside[a.period]);
  const cells = (row, period) => [
    make("td", {}, nameTag(row.index)),
    make("td", { text: duration(row.inside[period]) }),
    make("td", { text: percent(row.inside[period] / state.budget) }),
  ];
  const body = found
    .slice(0, WORST_LISTED)
    .map(({ period, most, least }) =>
      make(
        "tr",
        {},
        make("th", { scope: "row" }, goButton(periods, period, periods.name(period))),
        make("td", { text: timestamp(periods.begin(period), 1e8) }),
        ...cells(most, period),
        ...cells(least, period),
      ),
    );
  const heads = [
    periods.isFrames ? "frame" : "buffer",
    "recorded at",
    "slowest allocator",
    "time in calls",
    "share of the budget",
    "fastest allocator",
    "time in calls",
    "share of the budget",
  ];
  return make(
    "table",
    {},
    make("caption", { text: periods.isFrames ? "Worst frames" : "Worst buffers" }),
    make("thead", {}, make("tr", {}, ...heads.map((text) => make("th", { text, scope: "col" })))),
    make("tbody", {}, ...body),
  );
};

const LANE = 24;
// A bar's colour shows its share of the budget, with the limits of the table's columns.
const SHARE_HUES = [polar(250, 0.07), polar(95, 0.15), polar(62, 0.17), polar(34, 0.2)];
const SHARE_LABELS = ["at most 1 %", "over 1 %", "over 5 %", "over 10 % of the budget"];
const shareShades = () => SHARE_HUES.map((hue) => shade(hue, dark() ? 0.6 : 0.4));

/**
 * One lane for each allocator. A bar is the worst period in its pixel; a full lane is a full
 * budget.
 */
const drawFrameStrip = (periods, rows) => {
  const canvas = byId("frames");
  const tall = `${rows.length * LANE + 36}px`;
  if (canvas.parentElement.style.height !== tall) canvas.parentElement.style.height = tall;
  const { context, width, height, ratio } = fitCanvas(canvas);
  const lanes = [...rows].sort((a, b) => a.index - b.index);
  const margin = nameMargin(
    context,
    lanes.map(({ index }) => index),
    width,
  );
  const plot = (framesPlot = {
    x: margin,
    y: 6,
    width: Math.max(10, width - margin - 10),
    height: height - 34,
  });
  const box = deviceBox(plot, ratio);
  const image = imageOf(box);
  const words = new Uint32Array(image.data.buffer).fill(0);
  const colours = shareShades().map(packed);
  lanes.forEach((row, lane) =>
    writeLane(
      words,
      box,
      lane * LANE * ratio,
      (LANE - 3) * ratio,
      colours,
      worstPeriods(plot, box.width, periods, row),
    ),
  );
  context.putImageData(image, box.x, box.y);
  context.fillStyle = ink().soft;
  context.textAlign = "right";
  context.textBaseline = "middle";
  lanes.forEach((row, lane) =>
    context.fillText(
      clipText(context, facts.allocators[row.index].name, plot.x - 10),
      plot.x - 8,
      plot.y + lane * LANE + LANE / 2 - 1,
    ),
  );
  timeAxis(context, plot, state.view);
  drawCursor(context, plot);
  setLabel(
    canvas,
    `Share of the budget spent in the allocator, one lane for each allocator; each pixel shows ` +
      `its worst ${periods.isFrames ? "frame" : "buffer"}. The tables below have the numbers.`,
  );
};

/** The greatest share of the budget in each of `columns` pixels. */
const worstPeriods = (plot, columns, periods, { inside }) => {
  const worst = new Float64Array(columns);
  const column = (time, most) =>
    clamp(Math.floor(((xOfTime(plot, time) - plot.x) / plot.width) * columns), 0, most);
  for (
    let period = periods.first(state.view.from);
    period < periods.length && periods.begin(period) <= state.view.to;
    period += 1
  ) {
    // A period is at least one pixel wide.
    const from = column(periods.begin(period), columns - 1);
    const end = Math.max(from + 1, column(periods.end(period), columns));
    const share = inside[period] / state.budget;
    for (let x = from; x < end; x += 1) if (share > worst[x]) worst[x] = share;
  }
  return worst;
};

const LEAST_SHARE = 1e-4;
const writeLane = (words, { width, height }, top, tall, colours, worst) => {
  const bottom = Math.min(height, Math.round(top + tall));
  const ground = packedInk("plot");
  words.fill(ground, Math.round(top) * width, bottom * width);
  worst.forEach((share, x) => {
    if (share <= LEAST_SHARE) return;
    const part = clamp(1 - Math.log(share) / Math.log(LEAST_SHARE), 0, 1);
    const colour = colours[(share > SHARES[0]) + (share > SHARES[1]) + (share > SHARES[2])];
    for (let y = bottom - Math.max(1, Math.round(tall * part)); y < bottom; y += 1)
      words[y * width + x] = colour;
  });
};

/** The tooltip of the worst period under the pointer, in the lane of one allocator. */
const showPeriodTip = (event) => {
  const [x, y] = pointerPosition(byId("frames"), event);
  const plot = framesPlot;
  if (!plot || !drawnFrames || x < plot.x || x > plot.x + plot.width) {
    hideTip();
    return;
  }
  const { periods, rows } = drawnFrames;
  const row = [...rows].sort((a, b) => a.index - b.index)[Math.floor((y - plot.y) / LANE)];
  const [from, to] = [timeAt(plot, x), timeAt(plot, x + 1)];
  let worst = periods.first(from);
  if (!row || worst >= periods.length || periods.begin(worst) > to) {
    hideTip();
    return;
  }
  for (let period = worst; period < periods.length && periods.begin(period) < to; period += 1) {
    if (row.inside[period] > row.inside[worst]) worst = period;
  }
  const spent = row.inside[worst];
  showTip(event, [
    `${percent(spent / state.budget)} of the budget`,
    facts.allocators[row.index].name,
    `${duration(spent)} in calls`,
    joined([periods.isFrames && periods.name(worst), `at ${timestamp(periods.begin(worst), 1e8)}`]),
  ]);
};

const frameLegend = () =>
  make(
    "div",
    { class: "cause-legend" },
    ...shareShades().map((colour, at) => {
      const swatch = make("span", { class: "swatch" });
      swatch.style.background = css(colour);
      return make("span", {}, swatch, SHARE_LABELS[at]);
    }),
  );

const setUpFrames = () => {
  if (!periodSums.frames.size && !periodSums.windows.size) return;
  byId("frames-section").hidden = false;
  putText("frames-title", facts.frame_count ? "Frame and audio budget" : "Time budget");
  const note = facts.frame_count
    ? `${count(facts.frame_count)} frames. `
    : "The journal has no frame marks, so equal parts of the time stand for audio buffers. ";
  // This metric leaves such calls out where they are known (lab/report/src/verdict/judge.rs).
  const metric = facts.frame_count
    ? "The metric of frames at the top of the page is the median of all runs, without such calls. "
    : "";
  const preempted = facts.allocators.some((one) => Object.keys(one.undisturbed).length)
    ? "They include calls that were only preempted (no page fault, system call or wait), unless " +
      "you switch these off. " +
      metric
    : "";
  putText(
    "frames-note",
    `${note}A program has a limited time, the budget, for each frame or audio buffer. The chart ` +
      "shows the share of the budget that calls of the allocator took, on a logarithmic scale. " +
      "Each bar shows the worst frame or buffer in its time interval. A bar that fills its row " +
      "means that the calls took the whole budget. The chart and the tables show the median run " +
      `of each allocator. ${preempted}One bad frame in one run proves little.`,
  );
  const options = [
    ...(facts.frame_count ? RATES.map(([hertz, label]) => [`frames ${1e9 / hertz}`, label]) : []),
    ...(periodSums.windows.size
      ? BUFFERS.map(([each, label]) => [`windows ${each * facts.window_ns}`, `${label} buffer`])
      : []),
  ];
  const select = (value) => {
    const [kind, budget] = value.split(" ");
    set({ periods: kind, budget: Number(budget) });
  };
  byId("frames-toolbar").append(
    choice("Budget", options, () => `${state.periods} ${state.budget}`, select),
    toggle(
      "Include calls that were only preempted",
      () => state.interrupted,
      (interrupted) => set({ interrupted }),
    ),
  );
  if (facts.lanes.length > 1 && facts.frame_count) {
    byId("frames-toolbar").append(
      toggle(
        "Busiest thread only",
        () => state.busiest,
        (busiest) => set({ busiest }),
      ),
    );
  }
  const drawFrameLegend = () => byId("frames-legend").replaceChildren(frameLegend());
  watch(["theme"], drawFrameLegend);
  drawFrameLegend();
  watch(["periods", "budget", "interrupted", "busiest", "shown", "theme", "size"], drawFrames);
  watch(["view", "cursor"], redrawFrameStrip, byId("frames"));
  listenStrip(byId("frames"), () => framesPlot);
  byId("frames").addEventListener("pointermove", showPeriodTip);
};
