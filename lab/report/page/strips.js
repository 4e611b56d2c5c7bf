// Charts below the panels that share their time axis: lateness, and operations by thread.

let latenessPlot = null;
let lanesPlot = null;
let lanesMarks = [];

/** Installs the keys, wheel and double click that every time chart has. */
const listenStrip = (canvas, plotOfCanvas) => {
  canvas.addEventListener("keydown", timeKeys);
  canvas.addEventListener("dblclick", showAll);
  canvas.addEventListener("wheel", timeWheel(canvas, plotOfCanvas), { passive: false });
  canvas.addEventListener("pointermove", (event) => {
    const plot = plotOfCanvas();
    if (plot) setCursor(timeAt(plot, pointerPosition(canvas, event)[0]));
  });
  canvas.addEventListener("pointerleave", () => {
    hideTip();
    setCursor(null);
  });
};

const drawCursor = (context, plot) => {
  if (state.cursor === null || state.cursor < state.view.from || state.cursor > state.view.to)
    return;
  context.fillStyle = ink().soft;
  context.fillRect(Math.round(xOfTime(plot, state.cursor)), plot.y, 1, plot.height);
};

/** Draws a line through the maximum of each pixel. Pixels without a value are skipped. */
const tracePeaks = (context, plot, peaks, yOf, index) => {
  const { colour, dash, width } = styleOf(index);
  context.strokeStyle = colour;
  context.lineWidth = width * 0.75;
  context.setLineDash(dash);
  context.lineJoin = "round";
  context.beginPath();
  let [begun, last] = [false, 0];
  peaks.forEach((value, x) => {
    if (value === 0) return;
    context[begun ? "lineTo" : "moveTo"](plot.x + x + 0.5, yOf(value));
    [begun, last] = [true, value];
  });
  context.stroke();
  context.setLineDash([]);
  return { y: yOf(last), text: facts.allocators[index].name, colour };
};

/** Draws how much later than scheduled the calls began. */
const drawLateness = async () => {
  byId("lateness-section").hidden = !facts.lateness;
  if (!facts.lateness) return;
  const loaded = (
    await Promise.all(shown().map(async (index) => [index, await loadLateness(index)]))
  ).filter(([, late]) => late);
  const canvas = byId("lateness");
  const { context, width, height } = fitCanvas(canvas);
  const plot = (latenessPlot = {
    x: 60,
    y: 8,
    width: Math.max(10, width - 60 - nameMargin(context, shown(), width)),
    height: height - 36,
  });
  const latest = (late) => (late.latest ??= late.greatest.reduce((a, b) => Math.max(a, b), 0));
  const high = Math.max(1e4, ...loaded.map(([, late]) => latest(late)));
  const low = 100;
  const yOf = (ns) =>
    plot.y + plot.height * (1 - Math.log(clamp(ns, low, high) / low) / Math.log(high / low));
  context.fillStyle = ink().plot;
  context.fillRect(plot.x, plot.y, plot.width, plot.height);
  latencyAxis(context, plot, low, high, yOf);
  timeAxis(context, plot, state.view);
  drawCursor(context, plot);
  const labels = loaded.map(([index, late]) => {
    const peaks = new Float64Array(Math.ceil(plot.width) + 1);
    late.greatest.forEach((ns, column) => {
      const time = ((column + 0.5) / LATENESS_COLUMNS) * facts.span_ns;
      if (time < state.view.from || time > state.view.to) return;
      const x = Math.floor(xOfTime(plot, time) - plot.x);
      peaks[x] = Math.max(peaks[x], ns);
    });
    return tracePeaks(context, plot, peaks, yOf, index);
  });
  endLabels(context, plot, labels);
  const most = loaded.map(
    ([index, late]) => `${facts.allocators[index].name} ${duration(latest(late))}`,
  );
  setLabel(canvas, `Greatest lateness of a call over time. Overall maximum: ${most.join(", ")}`);
};

const LANE_HEIGHT = 26;
const WORST_IN_LANE = 40;

/** Draws the operations of each thread over time and the slowest calls of the shown allocators. */
const drawLanes = async () => {
  byId("threads-section").hidden = !facts.columns || facts.lanes.length < 2;
  if (byId("threads-section").hidden) return;
  const lanes = await loadLanes();
  const outliers = await Promise.all(
    shown().map(async (index) => [index, await loadOutliers(index)]),
  );
  const canvas = byId("lanes");
  const tall = `${facts.lanes.length * LANE_HEIGHT + 40}px`;
  if (canvas.parentElement.style.height !== tall) canvas.parentElement.style.height = tall;
  const { context, width, height } = fitCanvas(canvas);
  const plot = (lanesPlot = { x: 96, y: 6, width: Math.max(10, width - 106), height: height - 34 });
  timeAxis(context, plot, state.view);
  drawLaneBars(context, plot, lanes);
  lanesMarks = state.marks
    ? outliers.flatMap(([index, calls]) => laneMarks(plot, index, calls))
    : [];
  for (const { index, x, y } of lanesMarks) {
    context.fillStyle = styleOf(index).colour;
    context.beginPath();
    context.arc(x, y, 2.4, 0, 7);
    context.fill();
  }
  drawCursor(context, plot);
  const totals = facts.lanes.map(
    (lane, at) => `${laneName(at)}: ${lane.operations.toLocaleString("en-US")}`,
  );
  setLabel(canvas, `Operations of each thread over time. ${totals.join(", ")}`);
};

const drawLaneBars = (context, plot, lanes) => {
  lanes.most ??= Math.max(...lanes.map((lane) => lane.reduce((a, b) => Math.max(a, b), 0)));
  const most = Math.log2(2 + lanes.most);
  lanes.forEach((counts, lane) => {
    const y = plot.y + lane * LANE_HEIGHT;
    context.fillStyle = ink().plot;
    context.fillRect(plot.x, y, plot.width, LANE_HEIGHT - 4);
    context.fillStyle = css(shade(laneHue(lane), 0.45));
    eachLaneBar(plot, counts, (x, wide, calls) => {
      const tall = (Math.log2(calls + 1) / most) * (LANE_HEIGHT - 6);
      context.fillRect(x, y + LANE_HEIGHT - 4 - tall, wide, tall);
    });
    context.fillStyle = ink().soft;
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillText(laneName(lane), plot.x - 8, y + LANE_HEIGHT / 2 - 2);
  });
};

const eachLaneBar = (plot, counts, each) => {
  const span = facts.span_ns / counts.length;
  const pixels = new Float64Array(Math.ceil(plot.width) + 1);
  const wide = Math.max(1, xOfTime(plot, state.view.from + span) - plot.x);
  const first = clamp(Math.floor(state.view.from / span), 0, counts.length);
  for (let column = first; column < counts.length && column * span <= state.view.to; column += 1) {
    const x = Math.floor(clamp(xOfTime(plot, column * span) - plot.x, 0, plot.width));
    pixels[x] += counts[column];
  }
  pixels.forEach((calls, x) => {
    if (calls) each(plot.x + x, Math.min(wide, plot.width - x), calls);
  });
};

/** The marks of an allocator's slowest calls in view. */
const laneMarks = (plot, index, outliers) => {
  const marks = [];
  if (!outliers) return marks;
  for (const at of outliers.slowestFirst) {
    const time = outliers.time[at];
    if (time < state.view.from || time > state.view.to) continue;
    const y = plot.y + laneOf(outliers.thread[at]) * LANE_HEIGHT + 6;
    marks.push({ index, outliers, at, x: xOfTime(plot, time), y });
    if (marks.length === WORST_IN_LANE) break;
  }
  return marks;
};

/** The tooltip of the slow call under the pointer. */
const showLaneMark = (event) => {
  const [x, y] = pointerPosition(byId("lanes"), event);
  const far = (mark) => Math.hypot(mark.x - x, mark.y - y);
  const near = lanesMarks.filter((mark) => far(mark) < 9).sort((a, b) => far(a) - far(b))[0];
  if (!near) {
    hideTip();
    return;
  }
  const { index, outliers, at } = near;
  showTip(event, markLines(facts.allocators[index].name, outliers, at, frameOf(outliers.time[at])));
};

const setUpStrips = () => {
  putText(
    "lateness-note",
    "A call is late if it began after the time when it was due. The chart shows the greatest " +
      "lateness at each time. A slow call, or a busy machine, delays the calls that follow.",
  );
  putText(
    "threads-note",
    "The number of operations of each thread over time, on a logarithmic scale. Dots show the " +
      `${WORST_IN_LANE} slowest calls of each selected allocator in the visible time range, in ` +
      "the colour of the allocator.",
  );
  listenStrip(byId("lateness"), () => latenessPlot);
  listenStrip(byId("lanes"), () => lanesPlot);
  byId("lanes").addEventListener("pointermove", showLaneMark);
};
