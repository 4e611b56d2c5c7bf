// One panel for each allocator: every call by time and latency. All panels share their axes.

const PANEL = { left: 50, right: 8, top: 6, bottom: 24 };
const DIFFERENCE = "difference";

const panels = new Map();

const panelTitle = (index) => {
  const one = facts.allocators[index];
  const version = one
    ? one.floor
      ? "does nothing: its times are the cost of measuring"
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

/** A panel of one allocator, or of the difference of two. */
const makePanel = (index) => {
  const canvas = make("canvas", { tabindex: 0, role: "img", class: "density" });
  const overlay = make("canvas", { class: "overlay", "aria-hidden": "true" });
  const title = panelTitle(index);
  const figure = make(
    "figure",
    { class: "panel", "data-panel": facts.allocators[index]?.name ?? index },
    title,
    make("div", { class: "stack" }, canvas, overlay),
  );
  const panel = {
    index,
    figure,
    title,
    canvas,
    overlay,
    tiles: null,
    outliers: null,
    raster: null,
    plot: null,
  };
  listen(panel);
  visibility.observe(figure);
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

/** The level of a panel's tiles that has about one column for each pixel. */
const levelOf = (tiles, plot) => {
  const share = (state.view.to - state.view.from) / facts.span_ns;
  return tiles.level(share, Math.max(64, plot.width * pixelRatio()));
};

/**
 * Selects the part of the raster that a panel shows. Returns the most calls of any cell in view.
 */
const measurePanel = (panel) => {
  panel.plot = plotOf(panel.canvas.clientWidth, panel.canvas.clientHeight);
  panel.raster = panel.level = null;
  if (!panel.tiles) return 0;
  panel.level = levelOf(panel.tiles, panel.plot);
  const groups = Math.max(1, Math.ceil(rowCount / (panel.plot.height * pixelRatio())));
  const columns = columnsInView(panel.level, state.view);
  panel.raster = panel.rasters.at(panel.level.columns, columns, groups);
  return panel.raster.highest(...columns);
};

const NO_DOTS = [];

/** The input of a painter for one panel. */
const sceneOf = (panel, highest, lines) => {
  const { plot, raster } = panel;
  const dots = state.marks && panel.outliers ? dotsOf(panel) : NO_DOTS;
  if (dots === NO_DOTS) panel.marks = null;
  const columnOf = (time) => (raster ? (time / facts.span_ns) * raster.columns - raster.first : 0);
  return {
    plot,
    raster,
    dots,
    lines: lines.map(([y]) => y),
    from: columnOf(state.view.from),
    to: columnOf(state.view.to),
    scale: (SHADES - 1) / Math.log2(Math.max(highest, 1) + 1),
    colour: panel.index === DIFFERENCE ? DIFFERENCE : state.colour,
  };
};

/**
 * Clears the time labels and the margin that rings may cover. The latency labels are outside of it.
 */
const clearAround = (context, { x, y, width, height }) => {
  const [left, across] = [x - RING_REACH, RING_REACH + width + PANEL.right];
  context.clearRect(left, 0, across, y);
  context.clearRect(left, y, RING_REACH, height);
  context.clearRect(x + width, y, PANEL.right, height);
  context.clearRect(left, y + height, across, PANEL.bottom);
};

/**
 * Draws a panel. During a gesture only the plot and the time labels are redrawn; the result is
 * identical to that of a full redraw.
 */
const drawPanel = (panel, highest, gesture) => {
  const { plot } = panel;
  const lines = latencyLines(latencyOfRow(ROWS[0]), latencyOfRow(ROWS[1]), (ns) =>
    yOfLatency(plot, ns),
  );
  if (!gesture || !panel.context) {
    panel.context = fitCanvas(panel.canvas).context;
    latencyLabels(panel.context, plot, lines);
  } else {
    clearAround(panel.context, plot);
  }
  const { context } = panel;
  timeAxis(context, plot, state.view);
  const scene = sceneOf(panel, highest, lines);
  painter.paint(context, scene);
  if (scene.dots.length) labelWorst(context, panel, scene.dots[0]);
  drawOverlay(panel);
};

const describePanel = (panel) =>
  panel.index === DIFFERENCE ? describeDifference(panel) : describeAllocator(panel);

/** Updates a panel's heading and its description for screen readers. */
const describeAllocator = (panel) => {
  const one = facts.allocators[panel.index];
  const summary = one.operations[state.operation];
  const stats = panel.title.querySelector(".stats");
  panel.title.querySelector(".swatch").style.background = styleOf(panel.index).colour;
  if (!summary) {
    stats.textContent = `no calls of ${state.operation}`;
    panel.canvas.setAttribute("aria-label", `${one.name}: no calls of ${state.operation}`);
    return;
  }
  const parts = ["p50", "p999"]
    .filter((column) => summary.percentiles[column])
    .map((column) => `${figureLabel(column)} ${duration(summary.percentiles[column][0])}`);
  stats.textContent = `${state.operation} ${parts.join("  ·  ")}`;
  const inView = panel.level ? callsInView(panel.level, state.view) : 0;
  const calls = panel.level
    ? `${inView.toLocaleString("en-US")} calls in view`
    : "individual calls were not kept";
  const { from, to } = state.view;
  panel.canvas.setAttribute(
    "aria-label",
    `${one.name}, ${state.operation}: ${calls}, ${parts.join(", ")}. ` +
      `Time ${timestamp(from, to - from)} to ${timestamp(to, to - from)}.`,
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
    `Difference of ${one} and ${other}, ${state.operation}. Orange: ${one} has more calls at ` +
      `this time and latency. Blue: ${other} has more.`,
  );
};

/**
 * Draws the overlay: the shared cursor, the brush and the highlighted mark. Hidden if it is empty.
 */
const drawOverlay = (panel) => {
  if (!panel.plot) return;
  const { cursor, view } = state;
  const pointed = panel.pointed !== undefined && panel.outliers;
  panel.overlay.hidden =
    !panel.brush && !pointed && (cursor === null || cursor < view.from || cursor > view.to);
  if (panel.overlay.hidden) return;
  const { context } = fitCanvas(panel.overlay);
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

/**
 * The thread that made more than half of the calls, if the vote proves it. Each call outside of the
 * lead was cancelled out by one of another lane. Of two lanes, the leading one made half of these.
 */
const makerOf = ({ calls, lanes: [lane], leads: [lead] }) => {
  const isProven = 2 * lead > calls || (facts.lanes.length === 2 && lead > 0);
  if (facts.lanes.length < 2 || !isProven) return null;
  const name = facts.lanes[lane]?.thread == null ? "other threads" : laneName(lane);
  return lead === calls ? `made by ${name}` : `more than half made by ${name}`;
};

/** The tooltip of the cell under the pointer; null if there is none. */
const cellLines = (panel, x, y) => {
  const { raster, plot } = panel;
  if (!raster) return null;
  const column = Math.floor((timeAt(plot, x) / facts.span_ns) * raster.columns);
  const row =
    ROWS[0] +
    Math.floor((rowOfLatency(latencyAt(plot, y)) - ROWS[0]) / raster.groups) * raster.groups;
  const edges = [latencyOfRow(row), latencyOfRow(row + raster.groups)].map(duration).join(" to ");
  const when = `at ${timestamp(timeAt(plot, x), state.view.to - state.view.from)}`;
  const calls = (sum) => `${sum.toLocaleString("en-US")} ${sum === 1 ? "call" : "calls"}`;
  const found = (tiles) =>
    cellsAt(levelOf(tiles, plot), clamp(column, 0, raster.columns - 1), row, row + raster.groups);
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
    step < 0.5 ? "unknown size" : `about ${bytes(2 ** ((step - 1) / 4))} each`,
  ];
  const maker = makerOf(sum);
  return maker ? [...lines, maker] : lines;
};

const loadPanel = async (panel) => {
  if (panel.index === DIFFERENCE) {
    const [one, other] = await Promise.all(
      state.difference.map((index) => loadTiles(index, state.operation)),
    );
    const key = `${state.operation}:${state.difference}`;
    if (panel.key === key) return;
    Object.assign(panel, { key, tiles: one && other ? one : null, other });
    panel.rasters = new RasterCache((first, width, groups) =>
      rasterOfDifference(
        levelOf(one, panel.plot),
        levelOf(other, panel.plot),
        first,
        width,
        groups,
      ),
    );
    return;
  }
  const [tiles, outliers] = await Promise.all([
    loadTiles(panel.index, state.operation),
    loadOutliers(panel.index),
  ]);
  panel.outliers = outliers;
  if (panel.tiles === tiles && panel.rasters) return;
  panel.tiles = tiles;
  panel.rasters = new RasterCache((first, width, groups) =>
    rasterOfLevel(levelOf(tiles, panel.plot), first, width, groups),
  );
};

let loading = 0;
/** Draws all panels as soon as their data is decoded. */
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

/** Measures all panels, including those off the screen, because they share one scale of calls. */
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
    panel.index === DIFFERENCE && panel.raster
      ? panel.raster.highest(...columnsInView(panel.level, state.view))
      : highest;
  drawPanel(panel, Math.max(1, own), gesture);
};

/**
 * Redraws the panels that are decoded. During a gesture, panels off the screen wait until it ends.
 */
const redrawPanels = (gesture = false) => {
  const all = visiblePanels().filter((panel) => panel.rasters);
  const highest = measurePanels(all);
  const finish = (panel) => {
    if (!gesture || !onScreen.has(panel.figure)) drawMeasured(panel, highest, false);
    describePanel(panel);
  };
  for (const panel of all) {
    deferred.delete(panel);
    if (!gesture) {
      finish(panel);
      continue;
    }
    if (onScreen.has(panel.figure)) drawMeasured(panel, highest, true);
    defer(panel, () => finish(panel));
  }
};

/** Prepares in idle time the data that zooming will need. */
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

/** The bars of the overview as an image, redrawn only when they change. */
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

/** Draws the calls over the whole recording and the window that the charts show. */
const drawOverview = async () => {
  const canvas = byId("overview");
  const index = shown().find((one) => facts.allocators[one].tiles[state.operation]);
  const tiles = index === undefined ? null : await loadTiles(index, state.operation);
  const { context, width, height, ratio } = fitCanvas(canvas);
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
