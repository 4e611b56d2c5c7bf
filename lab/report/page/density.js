// The small multiples: every call of each allocator over time and latency, on axes that they all share.

const PANEL = { left: 50, right: 8, top: 6, bottom: 24 };
const DIFFERENCE = "difference";

const panels = new Map();

const panelTitle = (index) => {
  const one = facts.allocators[index];
  const version = one
    ? one.floor
      ? "no allocator: the floor of the instrument"
      : one.version
    : "";
  return make(
    "figcaption",
    {},
    make("span", { class: "swatch" }),
    make("b", { text: one?.name ?? "" }),
    make("span", { class: "version", text: version }),
    make("span", { class: "stats" }),
  );
};

/** A panel of an allocator, or of the difference of two. */
const makePanel = (index) => {
  const canvas = make("canvas", { tabindex: 0, role: "img", class: "density" });
  const over = make("canvas", { class: "over", "aria-hidden": "true" });
  const title = panelTitle(index);
  const figure = make(
    "figure",
    { class: "panel", "data-panel": facts.allocators[index]?.name ?? index },
    title,
    make("div", { class: "stack" }, canvas, over),
  );
  const panel = {
    index,
    figure,
    title,
    canvas,
    over,
    tiles: null,
    outliers: null,
    sheet: null,
    plot: null,
  };
  listen(panel);
  sight.observe(figure);
  return panel;
};

const plotOf = (width, height) => ({
  x: PANEL.left,
  y: PANEL.top,
  width: Math.max(10, width - PANEL.left - PANEL.right),
  height: height - PANEL.top - PANEL.bottom,
});
const timeAt = (plot, x) =>
  state.view.from + clamp((x - plot.x) / plot.width, 0, 1) * (state.view.to - state.view.from);
const xOfTime = (plot, time) =>
  plot.x + ((time - state.view.from) / (state.view.to - state.view.from)) * plot.width;
const yOfLatency = (plot, ns) =>
  plot.y + plot.height * (1 - clamp((rowOfLatency(ns) - ROWS[0]) / rowCount, 0, 1));
const latencyAt = (plot, y) => latencyOfRow(ROWS[0] + (1 - (y - plot.y) / plot.height) * rowCount);

/** The level of a panel's tiles that has about a column to a pixel. */
const levelOf = (tiles, plot) => {
  const share = (state.view.to - state.view.from) / facts.span_ns;
  return tiles.level(share, Math.max(64, plot.width * pixelRatio()));
};

/** Chooses what a panel shows of its sheet; the most calls of a cell in view. */
const measurePanel = (panel) => {
  panel.plot = plotOf(panel.canvas.clientWidth, panel.canvas.clientHeight);
  panel.sheet = panel.level = null;
  if (!panel.tiles) return 0;
  panel.level = levelOf(panel.tiles, panel.plot);
  const groups = Math.max(1, Math.ceil(rowCount / (panel.plot.height * pixelRatio())));
  const columns = columnsInView(panel.level, state.view);
  panel.sheet = panel.sheets.at(panel.level.columns, columns, groups);
  return panel.sheet.highest(...columns);
};

const NO_DOTS = [];

/** What a painter needs to know of a panel. */
const sceneOf = (panel, highest, lines) => {
  const { plot, sheet } = panel;
  const dots = state.marks && panel.outliers ? dotsOf(panel) : NO_DOTS;
  if (dots === NO_DOTS) panel.marks = null;
  const columnOf = (time) => (sheet ? (time / facts.span_ns) * sheet.columns - sheet.first : 0);
  return {
    plot,
    sheet,
    dots,
    lines: lines.map(([y]) => y),
    from: columnOf(state.view.from),
    to: columnOf(state.view.to),
    scale: (SHADES - 1) / Math.log2(Math.max(highest, 1) + 1),
    colour: panel.index === DIFFERENCE ? DIFFERENCE : state.colour,
  };
};

/** Clears the names of times, and where rings reach over the plot's edges: the names of latencies end just there. */
const clearAround = (context, { x, y, width, height }) => {
  const [left, across] = [x - RING_REACH, RING_REACH + width + PANEL.right];
  context.clearRect(left, 0, across, y);
  context.clearRect(left, y, RING_REACH, height);
  context.clearRect(x + width, y, PANEL.right, height);
  context.clearRect(left, y + height, across, PANEL.bottom);
};

/**
 * Draws a panel whole, or for a gesture only what a gesture changes: the plot and the names of times. Either way
 * every pixel is what a fresh drawing has.
 */
const drawPanel = (panel, highest, gesture) => {
  const { plot } = panel;
  const lines = latencyLines(latencyOfRow(ROWS[0]), latencyOfRow(ROWS[1]), (ns) =>
    yOfLatency(plot, ns),
  );
  if (!gesture || !panel.context) {
    panel.context = fit(panel.canvas).context;
    latencyLabels(panel.context, plot, lines);
  } else {
    clearAround(panel.context, plot);
  }
  const { context } = panel;
  timeAxis(context, plot, state.view);
  const scene = sceneOf(panel, highest, lines);
  painter.paint(context, scene);
  if (scene.dots.length) labelWorst(context, panel, scene.dots[0]);
  drawOver(panel);
};

const wordsOfPanel = (panel) =>
  panel.index === DIFFERENCE ? describeDifference(panel) : describe(panel);

/** The panel in words: for those who do not see it, and for its heading. */
const describe = (panel) => {
  const one = facts.allocators[panel.index];
  const summary = one.operations[state.operation];
  const stats = panel.title.querySelector(".stats");
  panel.title.querySelector(".swatch").style.background = lookOf(panel.index).colour;
  if (!summary) {
    stats.textContent = `no ${state.operation}`;
    panel.canvas.setAttribute("aria-label", `${one.name}: no call of ${state.operation}`);
    return;
  }
  const parts = [
    ["p50", `${state.operation} p50`],
    ["p999", "p99.9"],
  ]
    .filter(([name]) => summary.percentiles[name])
    .map(([name, label]) => `${label} ${duration(summary.percentiles[name][0])}`);
  parts.push(`worst ${duration(summary.worst[0])}`);
  stats.textContent = parts.join("  ·  ");
  const inView = panel.level ? callsInView(panel.level, state.view) : 0;
  const calls = panel.level
    ? `${inView.toLocaleString("en-US")} calls in view`
    : "no raw rows kept";
  const { from, to } = state.view;
  panel.canvas.setAttribute(
    "aria-label",
    `${one.name}, ${state.operation}: ${calls}, ${parts.join(", ")}. ` +
      `Time ${moment(from, to - from)} to ${moment(to, to - from)}.`,
  );
  panel.canvas.dataset.calls = inView;
};

const describeDifference = (panel) => {
  const [one, other] = state.difference.map((index) => facts.allocators[index].name);
  panel.title.querySelector("b").textContent = `${one} − ${other}`;
  panel.title.querySelector(".version").textContent =
    `orange: ${one} has more calls there · blue: ${other}`;
  panel.canvas.setAttribute(
    "aria-label",
    `Difference of ${one} and ${other}, ${state.operation}: where each has ` +
      "more calls of a latency than the other at a time.",
  );
};

/** What moves with the pointer: the shared cursor, the brush, the mark pointed at. An empty one costs nothing. */
const drawOver = (panel) => {
  if (!panel.plot) return;
  const { cursor, view } = state;
  const pointed = panel.pointed !== undefined && panel.outliers;
  panel.over.hidden =
    !panel.brush && !pointed && (cursor === null || cursor < view.from || cursor > view.to);
  if (panel.over.hidden) return;
  const { context } = fit(panel.over);
  const { plot } = panel;
  if (state.cursor !== null && state.cursor >= state.view.from && state.cursor <= state.view.to) {
    context.fillStyle = ink().soft;
    context.fillRect(Math.round(xOfTime(plot, state.cursor)), plot.y, 1, plot.height);
  }
  if (panel.brush) {
    const [from, to] = [Math.min(...panel.brush), Math.max(...panel.brush)];
    context.fillStyle = ink().band;
    context.fillRect(from, plot.y, to - from, plot.height);
    context.strokeStyle = ink().accent;
    context.strokeRect(from + 0.5, plot.y + 0.5, to - from - 1, plot.height - 1);
  }
  if (pointed) {
    context.strokeStyle = ink().text;
    context.lineWidth = 1.5;
    context.beginPath();
    context.arc(
      xOfTime(plot, panel.outliers.time[panel.pointed]),
      yOfLatency(plot, panel.outliers.latency[panel.pointed]),
      6,
      0,
      7,
    );
    context.stroke();
  }
};

/** What lies under a point of the drawing that is no mark. */
const cellWords = (panel, x, y) => {
  const { sheet, plot } = panel;
  if (!sheet) return null;
  const column = Math.floor((timeAt(plot, x) / facts.span_ns) * sheet.columns);
  const row =
    ROWS[0] +
    Math.floor((rowOfLatency(latencyAt(plot, y)) - ROWS[0]) / sheet.groups) * sheet.groups;
  const edges = [latencyOfRow(row), latencyOfRow(row + sheet.groups)].map(duration).join(" to ");
  const when = `at ${moment(timeAt(plot, x), state.view.to - state.view.from)}`;
  const calls = (sum) => `${sum.toLocaleString("en-US")} ${sum === 1 ? "call" : "calls"}`;
  const found = (tiles) =>
    cellsAt(levelOf(tiles, plot), clamp(column, 0, sheet.columns - 1), row, row + sheet.groups);
  if (panel.index === DIFFERENCE) {
    const sums = [found(panel.tiles), found(panel.other)].map((sum) => sum?.calls ?? 0);
    if (!sums[0] && !sums[1]) return null;
    return [
      edges,
      ...state.difference.map((index, at) => `${facts.allocators[index].name}: ${calls(sums[at])}`),
      when,
    ];
  }
  const sum = found(panel.tiles);
  if (!sum) return null;
  const step = sum.sizes / sum.calls;
  const lines = [
    calls(sum.calls),
    edges,
    when,
    step < 0.5 ? "size unknown" : `about ${bytes(2 ** ((step - 1) / 4))} each`,
  ];
  if (facts.lanes.length > 1)
    lines.push(`${sum.leads[0] === sum.calls ? "all" : "most"} of ${laneName(sum.lanes[0])}`);
  return lines;
};

const loadPanel = async (panel) => {
  if (panel.index === DIFFERENCE) {
    const [one, other] = await Promise.all(
      state.difference.map((index) => loadTiles(index, state.operation)),
    );
    const key = `${state.operation}:${state.difference}`;
    if (panel.key === key) return;
    Object.assign(panel, { key, tiles: one && other ? one : null, other });
    panel.sheets = new Sheets((first, width, groups) =>
      sheetOfDifference(levelOf(one, panel.plot), levelOf(other, panel.plot), first, width, groups),
    );
    return;
  }
  const [tiles, outliers] = await Promise.all([
    loadTiles(panel.index, state.operation),
    loadOutliers(panel.index),
  ]);
  panel.outliers = outliers;
  if (panel.tiles === tiles && panel.sheets) return;
  panel.tiles = tiles;
  panel.sheets = new Sheets((first, width, groups) =>
    sheetOfLevel(levelOf(tiles, panel.plot), first, width, groups),
  );
};

let loading = 0;
/** Draws all panels: what is not decoded yet follows when it is. */
const drawPanels = async () => {
  const ticket = ++loading;
  arrangePanels();
  await Promise.all(visiblePanels().map(loadPanel));
  if (ticket !== loading) return;
  redrawPanels();
  document.documentElement.dataset.painter = painter.name;
  document.documentElement.dataset.readyMs ??= performance.now();
  document.documentElement.dataset.ready = "true";
  prepareLevels();
};

const wantedPanels = () => (state.difference ? [DIFFERENCE, ...shown()] : shown());
const visiblePanels = () =>
  wantedPanels()
    .map((index) => panels.get(index))
    .filter(Boolean);

/** Chooses what each panel shows of its sheet, those out of sight too: all have one scale of calls. */
const measurePanels = (all) =>
  Math.max(
    1,
    ...all.map((panel) => {
      const most = measurePanel(panel);
      return panel.index === DIFFERENCE ? 1 : most;
    }),
  );

const drawMeasured = (panel, highest, gesture) => {
  const own =
    panel.index === DIFFERENCE && panel.sheet
      ? panel.sheet.highest(...columnsInView(panel.level, state.view))
      : highest;
  drawPanel(panel, Math.max(1, own), gesture);
};

/** Draws with what is decoded. For each frame of a gesture only what is in sight; the rest once hands rest. */
const redrawPanels = (gesture = false) => {
  const all = visiblePanels().filter((panel) => panel.sheets);
  const highest = measurePanels(all);
  const finish = (panel) => {
    if (!gesture || !inSight.has(panel.figure)) drawMeasured(panel, highest, false);
    wordsOfPanel(panel);
  };
  for (const panel of all) {
    putOff.delete(panel);
    if (!gesture) {
      finish(panel);
      continue;
    }
    if (inSight.has(panel.figure)) drawMeasured(panel, highest, true);
    later(panel, () => finish(panel));
  }
};

/** Makes, while nothing else is to be done, what zooming will ask for. */
const prepareLevels = async () => {
  const idle = () => new Promise((done) => (window.requestIdleCallback ?? setTimeout)(done));
  for (const panel of visiblePanels()) {
    for (const level of panel.tiles?.levels ?? []) {
      await idle();
      texelsOf(level);
      callsBefore(level);
    }
  }
};

const arrangePanels = () => {
  const box = byId("panels");
  const wanted = wantedPanels();
  for (const index of wanted) if (!panels.has(index)) panels.set(index, makePanel(index));
  box.replaceChildren(...wanted.map((index) => panels.get(index).figure));
  box.classList.toggle("single", wanted.length === 1);
  box.style.setProperty(
    "--plot-height",
    `${clamp(rowCount, 190, 300) + PANEL.top + PANEL.bottom}px`,
  );
};

/** The bars of the overview as a picture, drawn anew only when they change. */
let overviewBars = { key: null, picture: null };
const barsOfOverview = (tiles, plot, key) => {
  if (overviewBars.key === key) return overviewBars.picture;
  const ratio = pixelRatio();
  const [across, down] = [plot.width, plot.height].map((side) =>
    Math.max(1, Math.ceil(side * ratio)),
  );
  const picture = new OffscreenCanvas(across, down);
  const context = picture.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = ink().plot;
  context.fillRect(0, 0, plot.width, plot.height);
  if (tiles) {
    const level = tiles.level(1, plot.width);
    const before = callsBefore(level);
    const totals = Array.from(
      { length: level.columns },
      (_, column) => before[column + 1] - before[column],
    );
    const most = Math.log2(totals.reduce((a, b) => Math.max(a, b), 1) + 1);
    context.fillStyle = ink().soft;
    totals.forEach((calls, column) => {
      const tall = (Math.log2(calls + 1) / most) * plot.height;
      const x = (column / totals.length) * plot.width;
      context.fillRect(x, plot.height - tall, plot.width / totals.length + 0.3, tall);
    });
  }
  overviewBars = { key, picture };
  return picture;
};

/** Calls of the operation over the whole time, and the window that is shown. */
const drawOverview = async () => {
  const canvas = byId("overview");
  const index = shown().find((one) => facts.allocators[one].tiles[state.operation]);
  const tiles = index === undefined ? null : await loadTiles(index, state.operation);
  const { context, width, height, ratio } = fit(canvas);
  const plot = { x: PANEL.left, y: 4, width: width - PANEL.left - PANEL.right, height: height - 8 };
  const key = [index, state.operation, plot.width, plot.height, ratio, dark()].join();
  const picture = barsOfOverview(tiles, plot, key);
  context.drawImage(picture, plot.x, plot.y, picture.width / ratio, picture.height / ratio);
  const from = plot.x + (state.view.from / facts.span_ns) * plot.width;
  const to = plot.x + (state.view.to / facts.span_ns) * plot.width;
  context.fillStyle = ink().band;
  context.fillRect(from, plot.y, Math.max(2, to - from), plot.height);
  context.strokeStyle = ink().accent;
  context.lineWidth = 1.5;
  context.strokeRect(from + 0.5, plot.y + 0.5, Math.max(2, to - from - 1), plot.height - 1);
  context.fillStyle = ink().soft;
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.fillText("calls", plot.x - 6, plot.y + plot.height / 2);
};
