// The frame budget: what share of a frame's time went into the allocator, frame by frame.

const BUDGETS = [[30, "30 Hz"], [60, "60 Hz"], [90, "90 Hz"], [120, "120 Hz"], [144, "144 Hz"], [240, "240 Hz"]];
const SHARES = [0.01, 0.05, 0.1];
let frameMarks = null;
let frameSums = new Map();
let framesPlot = null;

/** The number of frame marks at or before a moment; null where the journal has no frames. */
const frameOf = (time) => (frameMarks ? lowerBound(frameMarks, time + 1) : null);

const loadAllFrames = async () => {
  if (!facts.frame_count) return;
  frameMarks = await loadFrameMarks();
  await Promise.all(facts.allocators.map(async (one, index) => {
    const sums = await loadFrames(index);
    if (sums) frameSums.set(index, sums);
  }));
};

/** Time inside calls in a frame, with or without the calls that the system interrupted. */
const insideFrame = (sums, frame) => sums.inside[frame] - (state.interrupted ? 0 : sums.interrupted[frame]);

/** Frame 0 is the time before the first mark: loading, and no frame. */
const judgeFrames = (index) => {
  const sums = frameSums.get(index);
  const over = SHARES.map(() => 0);
  let worst = 1;
  let total = 0;
  for (let frame = 1; frame <= facts.frame_count; frame += 1) {
    const inside = insideFrame(sums, frame);
    total += inside;
    SHARES.forEach((share, at) => { if (inside > share * state.budget) over[at] += 1; });
    if (inside > insideFrame(sums, worst)) worst = frame;
  }
  const shares = over.map((frames) => frames / facts.frame_count);
  return { index, over: shares, worst, most: insideFrame(sums, worst), mean: total / facts.frame_count };
};

const lookAtFrame = (frame) => {
  const from = frameMarks[frame - 1];
  const to = frameMarks[frame] ?? facts.span_ns;
  look(from - (to - from) * 2, to + (to - from) * 2);
  byId("calls").scrollIntoView({ behavior: "smooth" });
};

const drawFrames = () => {
  if (!frameSums.size) return;
  drawFrameStrip();
  const rows = shown().filter((index) => frameSums.has(index)).map(judgeFrames).sort((a, b) => a.mean - b.mean);
  const head = make("tr", {}, make("th", { text: "allocator", scope: "col" }),
    make("th", { text: "mean a frame", scope: "col" }),
    ...SHARES.map((share) => make("th", { text: `frames over ${share * 100} %`, scope: "col" })),
    make("th", { text: "worst frame", scope: "col" }));
  const body = rows.map((row) => make("tr", {}, nameCell(row.index), make("td", { text: duration(row.mean) }),
    ...row.over.map((share) => make("td", { text: percent(share) })),
    make("td", {}, make("button", {
      type: "button", class: "link", onclick: () => lookAtFrame(row.worst),
      title: "Show this frame in the charts above",
      text: `${duration(row.most)} in frame ${row.worst.toLocaleString("en-US")}`,
    }))));
  byId("frames-table").replaceChildren(make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
};

/** For each pixel the worst frame in it, as a share of the budget. */
const drawFrameStrip = () => {
  const canvas = byId("frames");
  const { context, width, height } = fit(canvas);
  const plot = framesPlot = { x: 60, y: 8, width: width - 60 - (width < 560 ? 78 : 96), height: height - 36 };
  context.fillStyle = ink().plot;
  context.fillRect(plot.x, plot.y, plot.width, plot.height);
  const [low, high] = [1e-4, 2];
  const yOf = (share) => plot.y + plot.height * (1 - Math.log(clamp(share, low, high) / low) / Math.log(high / low));
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const share of [0.001, 0.01, 0.1, 1]) {
    context.fillStyle = share === 1 ? ink().text : ink().line;
    context.fillRect(plot.x, Math.round(yOf(share)), plot.width, 1);
    context.fillStyle = ink().soft;
    context.fillText(share === 1 ? "budget" : `${share * 100} %`, plot.x - 6, yOf(share));
  }
  timeAxis(context, plot, state.view);
  const labels = shown().filter((index) => frameSums.has(index)).map((index) => traceFrames(context, plot, yOf, index));
  endLabels(context, plot, labels);
  canvas.setAttribute("aria-label", "Share of the frame budget spent in the allocator, worst frame of each pixel. " +
    "The table below has the figures.");
};

const traceFrames = (context, plot, yOf, index) => {
  const { colour, dash, width } = lookOf(index);
  const sums = frameSums.get(index);
  const peaks = new Float64Array(Math.ceil(plot.width) + 1);
  const first = Math.max(1, lowerBound(frameMarks, state.view.from));
  for (let frame = first; frame <= facts.frame_count && frameMarks[frame - 1] <= state.view.to; frame += 1) {
    const x = Math.floor(clamp(xOfTime(plot, frameMarks[frame - 1]) - plot.x, 0, plot.width));
    peaks[x] = Math.max(peaks[x], insideFrame(sums, frame) / state.budget);
  }
  context.strokeStyle = colour;
  context.lineWidth = width * 0.75;
  context.setLineDash(dash);
  context.lineJoin = "round";
  context.beginPath();
  let [begun, last] = [false, 0];
  peaks.forEach((share, x) => {
    if (share === 0) return;
    context[begun ? "lineTo" : "moveTo"](plot.x + x + 0.5, yOf(share));
    [begun, last] = [true, share];
  });
  context.stroke();
  context.setLineDash([]);
  return { y: yOf(last), text: facts.allocators[index].name, colour };
};

const setUpFrames = () => {
  if (!facts.frame_count || !frameSums.size) return;
  byId("frames-section").hidden = false;
  byId("frames-note").textContent = `${count(facts.frame_count)} frames. How much of a frame's budget went into ` +
    "malloc, free and their kin, all threads added up. The line at the top is the whole budget.";
  const budgets = BUDGETS.map(([hertz, label]) => [1e9 / hertz, label]);
  byId("frames-toolbar").append(
    choice("Frame rate", budgets, () => state.budget, (budget) => set({ budget })),
    toggle("Count interrupted calls", () => state.interrupted, (interrupted) => set({ interrupted })));
  watch(["budget", "interrupted", "shown", "view", "theme"], drawFrames);
  byId("frames").addEventListener("keydown", timeKeys);
  byId("frames").addEventListener("dblclick", lookAtAll);
  byId("frames").addEventListener("wheel", timeWheel(byId("frames"), () => framesPlot), { passive: false });
};
