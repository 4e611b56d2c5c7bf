// The small multiples: every call of each allocator over time and latency, on axes that they all share.

const ROWS = [Math.max(0, facts.row_range[0] - 3), facts.row_range[1] + 4];
const PANEL = { left: 50, right: 8, top: 6, bottom: 24 };
const latencyOfRow = (row) => 2 ** (row / facts.rows_per_octave);
const rowOfLatency = (ns) => Math.log2(Math.max(ns, 1)) * facts.rows_per_octave;

const panels = new Map();

const panelTitle = (one) => {
  return make("figcaption", {}, make("span", { class: "swatch" }), make("b", { text: one.name }),
    make("span", { class: "version", text: one.floor ? "no allocator: the floor of the instrument" : one.version }),
    make("span", { class: "stats" }));
};

const makePanel = (index) => {
  const canvas = make("canvas", { tabindex: 0, role: "img", class: "density" });
  const over = make("canvas", { class: "over", "aria-hidden": "true" });
  const title = panelTitle(facts.allocators[index]);
  const figure = make("figure", { class: "panel" }, title, make("div", { class: "stack" }, canvas, over));
  const panel = { index, figure, title, canvas, over, tiles: null, outliers: null, grid: null, plot: null };
  listen(panel);
  return panel;
};

const plotOf = (width, height) => ({
  x: PANEL.left, y: PANEL.top, width: Math.max(10, width - PANEL.left - PANEL.right),
  height: height - PANEL.top - PANEL.bottom,
});
const timeAt = (plot, x) =>
  state.view.from + clamp((x - plot.x) / plot.width, 0, 1) * (state.view.to - state.view.from);
const xOfTime = (plot, time) => plot.x + (time - state.view.from) / (state.view.to - state.view.from) * plot.width;
const yOfLatency = (plot, ns) =>
  plot.y + plot.height * (1 - clamp((rowOfLatency(ns) - ROWS[0]) / (ROWS[1] + 1 - ROWS[0]), 0, 1));
const latencyAt = (plot, y) =>
  latencyOfRow(ROWS[0] + (1 - (y - plot.y) / plot.height) * (ROWS[1] + 1 - ROWS[0]));

/** Adds up the visible cells of a panel. */
const measurePanel = (panel) => {
  const ratio = window.devicePixelRatio || 1;
  panel.plot = plotOf(panel.canvas.clientWidth, panel.canvas.clientHeight);
  panel.grid = null;
  if (!panel.tiles) return 0;
  const share = (state.view.to - state.view.from) / facts.span_ns;
  const level = panel.tiles.level(share, Math.max(64, panel.plot.width * ratio));
  const groups = Math.max(1, Math.ceil((ROWS[1] - ROWS[0] + 1) / (panel.plot.height * ratio)));
  panel.grid = gridOf(level, state.view, ROWS, groups);
  panel.grid.columns = level.columns;
  panel.grid.groups = groups;
  return panel.grid.highest;
};

/** Index of the hue of a cell of the grid. */
const hueOfCell = (grid, at) => {
  if (state.colour === "size") return hueOfStep(grid.sizes[at] / grid.counts[at]);
  if (grid.interrupted[at] * 2 > grid.counts[at]) return 2;
  return grid.kernel[at] * 2 > grid.counts[at] ? 1 : 0;
};

/** A cell with nothing around it: one pixel of it would hardly be seen. */
const alone = ({ counts, width }, at) =>
  !(counts[at - 1] || counts[at + 1] || counts[at - width] || counts[at + width]);

const thicken = (pixels, { width }, at, pixel) => {
  const right = (at + 1) % width !== 0;
  if (right) pixels[at + 1] = pixel;
  if (at >= width) pixels[at - width] = pixel;
  if (right && at >= width) pixels[at - width + 1] = pixel;
};

/** How many rows a row's value stands for: a clock that counts in large steps leaves the rows between them empty. */
const reachOfRows = (grid) => Array.from({ length: grid.height }, (_, row) => {
  const low = latencyOfRow(ROWS[0] + row * grid.groups);
  const next = (Math.ceil(low / facts.clock.step_ns - 1e-6) + 1) * facts.clock.step_ns;
  const nextRow = Math.floor((rowOfLatency(next) + 1e-6 - ROWS[0]) / grid.groups);
  return clamp(nextRow - row, 1, grid.height - row);
});

const paintGrid = (grid, highest) => {
  const image = new ImageData(grid.width, grid.height);
  const pixels = new Uint32Array(image.data.buffer);
  const ramp = rampOf(state.colour);
  const reach = reachOfRows(grid);
  const scale = (SHADES - 1) / Math.log2(Math.max(highest, 1) + 1);
  for (let at = 0; at < pixels.length; at += 1) {
    if (grid.counts[at] === 0) continue;
    const strength = Math.min(SHADES - 1, Math.round(Math.log2(grid.counts[at]) * scale));
    const pixel = ramp[hueOfCell(grid, at) * SHADES + strength];
    pixels[at] = pixel;
    const tall = reach[grid.height - 1 - Math.floor(at / grid.width)];
    for (let up = 1; up < tall; up += 1) pixels[at - up * grid.width] = pixel;
    if (tall === 1 && alone(grid, at)) thicken(pixels, grid, at, pixel);
  }
  const canvas = new OffscreenCanvas(grid.width, grid.height);
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
};

const drawPanel = (panel, highest) => {
  const { context, height, width } = fit(panel.canvas);
  panel.plot = plotOf(width, height);
  const { plot, grid } = panel;
  context.fillStyle = ink().plot;
  context.fillRect(plot.x, plot.y, plot.width, plot.height);
  latencyAxis(context, plot, latencyOfRow(ROWS[0]), latencyOfRow(ROWS[1]), (ns) => yOfLatency(plot, ns));
  timeAxis(context, plot, state.view);
  context.save();
  context.beginPath();
  context.rect(plot.x, plot.y, plot.width, plot.height);
  context.clip();
  if (grid) {
    const left = xOfTime(plot, grid.first / grid.columns * facts.span_ns);
    const right = xOfTime(plot, (grid.first + grid.width) / grid.columns * facts.span_ns);
    const top = plot.y + plot.height - plot.height * grid.height * grid.groups / (ROWS[1] + 1 - ROWS[0]);
    context.imageSmoothingEnabled = false;
    context.drawImage(paintGrid(grid, highest), left, top, right - left, plot.y + plot.height - top);
  }
  if (state.marks) drawMarks(context, panel);
  context.restore();
  describe(panel);
  drawOver(panel);
};

/** The slow calls in view, one mark each. */
const visibleMarks = (panel) => {
  const { outliers } = panel;
  if (!outliers) return [];
  const kind = OPERATION_NAMES.indexOf(state.operation);
  const marks = [];
  for (let at = lowerBound(outliers.time, state.view.from); at < outliers.length; at += 1) {
    if (outliers.time[at] > state.view.to) break;
    if (outliers.kind[at] === kind) marks.push(at);
  }
  return marks;
};

const lowerBound = (sorted, value) => {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1; else high = middle;
  }
  return low;
};

const markColour = (outliers, at) => {
  const strength = dark() ? 0.72 : 0.62;
  if (state.colour === "cause") return css(shade(CAUSES[causeIndex(outliers.cause[at])].hue, strength));
  const hue = hueOfStep(stepOfSize(outliers.size[at]));
  return css(shade(hue === HUES ? [0, 0] : sizeHue(hue / (HUES - 1)), strength));
};

// More dots than this would cover what they stand on; the others are cells still, and answer when pointed at.
const MOST_DOTS = 400;

/** The slowest of the marks in view, slowest first. */
const dotsOf = (panel) => {
  if (panel.marks.length <= MOST_DOTS) {
    return [...panel.marks].sort((a, b) => panel.outliers.latency[b] - panel.outliers.latency[a]);
  }
  const { outliers } = panel;
  const kind = OPERATION_NAMES.indexOf(state.operation);
  const dots = [];
  for (const at of outliers.slowestFirst) {
    const time = outliers.time[at];
    if (outliers.kind[at] !== kind || time < state.view.from || time > state.view.to) continue;
    dots.push(at);
    if (dots.length === MOST_DOTS) break;
  }
  return dots;
};

const drawMarks = (context, panel) => {
  panel.marks = visibleMarks(panel);
  const dots = dotsOf(panel);
  const radius = dots.length < 150 ? 2.6 : 2;
  for (const at of dots) {
    const x = xOfTime(panel.plot, panel.outliers.time[at]);
    const y = yOfLatency(panel.plot, panel.outliers.latency[at]);
    context.fillStyle = markColour(panel.outliers, at);
    context.beginPath();
    context.arc(x, y, radius, 0, 7);
    context.fill();
  }
  if (dots.length) labelWorst(context, panel, dots[0]);
};

const labelWorst = (context, panel, at) => {
  const x = xOfTime(panel.plot, panel.outliers.time[at]);
  const y = yOfLatency(panel.plot, panel.outliers.latency[at]);
  context.strokeStyle = context.fillStyle = ink().text;
  context.lineWidth = 1.2;
  context.beginPath();
  context.arc(x, y, 5, 0, 7);
  context.stroke();
  context.textBaseline = "middle";
  const toLeft = x > panel.plot.x + panel.plot.width - 70;
  context.textAlign = toLeft ? "right" : "left";
  context.fillText(duration(panel.outliers.latency[at]), x + (toLeft ? -9 : 9), Math.max(y, panel.plot.y + 7));
};

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
  const parts = [["p50", "p50"], ["p999", "p99.9"]].filter(([name]) => summary.percentiles[name])
    .map(([name, label]) => `${label} ${duration(summary.percentiles[name][0])}`);
  parts.push(`worst ${duration(summary.worst[0])}`);
  stats.textContent = parts.join("  ·  ");
  const calls = panel.grid
    ? `${Math.round(panel.grid.calls).toLocaleString("en-US")} calls in view` : "no raw rows kept";
  const { from, to } = state.view;
  panel.canvas.setAttribute("aria-label", `${one.name}, ${state.operation}: ${calls}, ${parts.join(", ")}. ` +
    `Time ${moment(from, to - from)} to ${moment(to, to - from)}.`);
  panel.canvas.dataset.calls = panel.grid ? panel.grid.calls : 0;
};

/** What moves with the pointer: the shared cursor, the brush, the mark pointed at. */
const drawOver = (panel) => {
  if (!panel.plot) return;
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
  if (panel.pointed !== undefined && panel.outliers) {
    context.strokeStyle = ink().text;
    context.lineWidth = 1.5;
    context.beginPath();
    context.arc(xOfTime(plot, panel.outliers.time[panel.pointed]),
      yOfLatency(plot, panel.outliers.latency[panel.pointed]), 6, 0, 7);
    context.stroke();
  }
};

/** The mark nearest to a point, at most 14 pixels away. */
const nearestMark = (panel, x, y) => {
  let [found, best] = [undefined, 14 * 14];
  if (!state.marks) return found;
  for (const at of panel.marks ?? []) {
    const distance = (xOfTime(panel.plot, panel.outliers.time[at]) - x) ** 2
      + (yOfLatency(panel.plot, panel.outliers.latency[at]) - y) ** 2;
    if (distance < best) [found, best] = [at, distance];
  }
  return found;
};

const markWords = (name, outliers, at, frame) => {
  const lines = [`${duration(outliers.latency[at])} in ${OPERATION_NAMES[outliers.kind[at]]}`,
    `${outliers.size[at] ? bytes(outliers.size[at]) : "size unknown"} · thread ${outliers.thread[at]}`,
    `at ${moment(outliers.time[at], 1e6)}${frame === null ? "" : ` · frame ${frame.toLocaleString("en-US")}`}`,
    causeWords(outliers.cause[at])];
  if (name) lines.splice(1, 0, name);
  return lines;
};

/** What lies under a point of the drawing that is no mark. */
const cellWords = (panel, x, y) => {
  const { grid, plot } = panel;
  if (!grid) return null;
  const column = Math.floor(timeAt(plot, x) / facts.span_ns * grid.columns) - grid.first;
  const row = Math.floor((Math.log2(latencyAt(plot, y)) * facts.rows_per_octave - ROWS[0]) / grid.groups);
  const at = (grid.height - 1 - row) * grid.width + column;
  if (column < 0 || column >= grid.width || row < 0 || !grid.counts[at]) return null;
  const low = latencyOfRow(ROWS[0] + row * grid.groups);
  const step = grid.sizes[at] / grid.counts[at];
  const calls = Math.round(grid.counts[at]);
  return [`${calls.toLocaleString("en-US")} ${calls === 1 ? "call" : "calls"}`,
    `${duration(low)} to ${duration(low * 2 ** (grid.groups / facts.rows_per_octave))}`,
    `at ${moment(timeAt(plot, x), state.view.to - state.view.from)}`,
    step < 0.5 ? "size unknown" : `about ${bytes(2 ** ((step - 1) / 4))} each`];
};

let loading = 0;
/** Draws all panels: what is not decoded yet follows when it is. */
const drawPanels = async () => {
  const ticket = ++loading;
  arrangePanels();
  const visible = shown().map((index) => panels.get(index));
  await Promise.all(visible.map(async (panel) => {
    [panel.tiles, panel.outliers] =
      await Promise.all([loadTiles(panel.index, state.operation), loadOutliers(panel.index)]);
  }));
  if (ticket !== loading) return;
  redrawPanels();
  document.documentElement.dataset.readyMs ??= performance.now();
  document.documentElement.dataset.ready = "true";
};

/** Draws with what is decoded: for each frame of a gesture. */
const redrawPanels = () => {
  const visible = shown().map((index) => panels.get(index)).filter(Boolean);
  const highest = Math.max(1, ...visible.map(measurePanel));
  visible.forEach((panel) => drawPanel(panel, highest));
};

const arrangePanels = () => {
  const box = byId("panels");
  const wanted = shown();
  for (const index of wanted) if (!panels.has(index)) panels.set(index, makePanel(index));
  box.replaceChildren(...wanted.map((index) => panels.get(index).figure));
  box.classList.toggle("single", wanted.length === 1);
  const rows = ROWS[1] - ROWS[0] + 1;
  box.style.setProperty("--plot-height", `${clamp(rows, 190, 300) + PANEL.top + PANEL.bottom}px`);
};

/** Calls of the operation over the whole time, and the window that is shown. */
const drawOverview = async () => {
  const canvas = byId("overview");
  const index = shown().find((one) => facts.allocators[one].tiles[state.operation]);
  const tiles = index === undefined ? null : await loadTiles(index, state.operation);
  const { context, width, height } = fit(canvas);
  const plot = { x: PANEL.left, y: 4, width: width - PANEL.left - PANEL.right, height: height - 8 };
  context.fillStyle = ink().plot;
  context.fillRect(plot.x, plot.y, plot.width, plot.height);
  if (tiles) {
    const totals = columnTotals(tiles.level(1, plot.width));
    const most = Math.log2(totals.reduce((a, b) => Math.max(a, b), 1) + 1);
    context.fillStyle = ink().soft;
    totals.forEach((calls, column) => {
      const tall = Math.log2(calls + 1) / most * plot.height;
      const x = plot.x + column / totals.length * plot.width;
      context.fillRect(x, plot.y + plot.height - tall, plot.width / totals.length + 0.3, tall);
    });
  }
  const from = plot.x + state.view.from / facts.span_ns * plot.width;
  const to = plot.x + state.view.to / facts.span_ns * plot.width;
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
