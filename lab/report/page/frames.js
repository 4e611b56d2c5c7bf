// The budget of frames and of audio buffers: what share of each one's time went into the allocator, and the worst.

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
]; // in windows
const SHARES = [0.01, 0.05, 0.1];
const WORST_LISTED = 10;
let frameMarks = null;
const pieceSums = { frames: new Map(), windows: new Map() };
let framesPlot = null;
let framesSorted = { column: 1, up: true };

/** The number of frame marks at or before a moment; null where the journal has no frames. */
const frameOf = (time) => (frameMarks ? lowerBound(frameMarks, time + 1) : null);

const loadAllFrames = async () => {
  if (facts.frame_count) frameMarks = await loadFrameMarks();
  await Promise.all(
    facts.allocators.map(async (one, index) => {
      const frames = facts.frame_count ? await loadFrames(index) : null;
      if (frames) pieceSums.frames.set(index, frames);
      const windows = await loadWindows(index);
      if (windows) pieceSums.windows.set(index, windows);
    }),
  );
};

/**
 * The pieces of time that are judged: frames between marks, or audio buffers of a fixed length. Frame 0 is the time
 * before the first mark: loading, and no frame.
 */
const pieces = () => {
  const isFrames = state.pieces === "frames";
  const each = isFrames ? 1 : Math.round(state.budget / facts.window_ns);
  const length = isFrames ? facts.frame_count : Math.ceil(facts.windows / each);
  const begin = isFrames ? (piece) => frameMarks[piece] : (piece) => piece * each * facts.window_ns;
  const end = (piece) => (piece + 1 < length ? begin(piece + 1) : facts.span_ns);
  const first = (time) =>
    isFrames
      ? Math.max(0, lowerBound(frameMarks, time) - 1)
      : clamp(Math.floor(time / (each * facts.window_ns)), 0, length);
  const name = (piece) =>
    isFrames ? `frame ${(piece + 1).toLocaleString("en-US")}` : `at ${moment(begin(piece), 1e8)}`;
  return { isFrames, each, length, begin, end, first, name, sums: pieceSums[state.pieces] };
};

/** Time inside calls in a piece, as the switches ask for it. */
const insideOf = (sums, cut) => {
  const inside = new Float64Array(cut.length);
  const busiest = state.busiest && cut.each === 1;
  for (let piece = 0; piece < cut.length; piece += 1) {
    for (let part = 0; part < cut.each; part += 1) {
      const at = cut.isFrames ? piece + 1 : piece * cut.each + part;
      if (at >= sums.inside.length) break;
      inside[piece] += busiest
        ? sums.busiest[at]
        : sums.inside[at] - (state.interrupted ? 0 : sums.interrupted[at]);
    }
  }
  return inside;
};

const judgePieces = (index, inside) => {
  const over = SHARES.map(() => 0);
  let [worst, total] = [0, 0];
  for (let piece = 0; piece < inside.length; piece += 1) {
    total += inside[piece];
    SHARES.forEach((share, at) => {
      if (inside[piece] > share * state.budget) over[at] += 1;
    });
    if (inside[piece] > inside[worst]) worst = piece;
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

const lookAtPiece = (cut, piece) => {
  const [from, to] = [cut.begin(piece), cut.end(piece)];
  look(from - (to - from) * 2, to + (to - from) * 2);
  byId("calls").scrollIntoView({ behavior: "smooth" });
};

const goButton = (cut, piece, text) =>
  make("button", {
    type: "button",
    class: "link",
    text,
    title: "Show this moment in the charts above",
    onclick: () => lookAtPiece(cut, piece),
  });

let judged = null;
const redrawFrameStrip = () => {
  if (judged) drawFrameStrip(judged.cut, judged.rows);
};

const drawFrames = () => {
  const cut = pieces();
  if (!cut.sums.size) return;
  const rows = shown()
    .filter((index) => cut.sums.has(index))
    .map((index) => judgePieces(index, insideOf(cut.sums.get(index), cut)));
  judged = { cut, rows };
  redrawFrameStrip();
  byId("frames-table").replaceChildren(budgetTable(cut, rows));
  byId("worst-frames").replaceChildren(worstTable(cut, rows));
};

const budgetTable = (cut, rows) => {
  const what = cut.isFrames ? "frame" : "buffer";
  const columns = [
    ["allocator", (row) => facts.allocators[row.index].name],
    [`mean a ${what}`, (row) => row.mean],
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
      make("td", {}, goButton(cut, row.worst, `${duration(row.most)}, ${cut.name(row.worst)}`)),
    ),
  );
  return make(
    "table",
    { "aria-label": `Time in calls of each ${what}, by allocator` },
    make("thead", {}, head),
    make("tbody", {}, ...body),
  );
};

/** The pieces in which some shown allocator took longest: who that was, and who took least. */
const worstTable = (cut, rows) => {
  const longest = (piece) => rows.reduce((a, b) => (b.inside[piece] > a.inside[piece] ? b : a));
  const shortest = (piece) => rows.reduce((a, b) => (b.inside[piece] < a.inside[piece] ? b : a));
  const candidates = new Set(
    rows.flatMap(({ inside }) =>
      Array.from(inside.keys())
        .filter((piece) => inside[piece] > 0)
        .sort((a, b) => inside[b] - inside[a])
        .slice(0, WORST_LISTED),
    ),
  );
  const found = [...candidates].map((piece) => ({
    piece,
    most: longest(piece),
    least: shortest(piece),
  }));
  found.sort((a, b) => b.most.inside[b.piece] - a.most.inside[a.piece]);
  const cells = (row, piece) => [
    make("td", {}, nameTag(row.index)),
    make("td", { text: duration(row.inside[piece]) }),
    make("td", { text: percent(row.inside[piece] / state.budget) }),
  ];
  const body = found
    .slice(0, WORST_LISTED)
    .map(({ piece, most, least }) =>
      make(
        "tr",
        {},
        make("th", { scope: "row" }, goButton(cut, piece, cut.name(piece))),
        make("td", { text: moment(cut.begin(piece), 1e8) }),
        ...cells(most, piece),
        ...cells(least, piece),
      ),
    );
  const heads = [
    cut.isFrames ? "frame" : "buffer",
    "moment",
    "longest",
    "in calls",
    "of the budget",
    "shortest",
    "in calls",
    "of the budget",
  ];
  return make(
    "table",
    {},
    make("caption", { text: cut.isFrames ? "The worst frames" : "The worst buffers" }),
    make("thead", {}, make("tr", {}, ...heads.map((text) => make("th", { text, scope: "col" })))),
    make("tbody", {}, ...body),
  );
};

const LANE = 24;
// What share of the budget a bar says by its colour: the limits of the table's columns.
const SHARE_HUES = [polar(250, 0.07), polar(95, 0.15), polar(62, 0.17), polar(34, 0.2)];
const SHARE_WORDS = ["at most 1 %", "over 1 %", "over 5 %", "over 10 % of the budget"];
const shareShades = () => SHARE_HUES.map((hue) => shade(hue, dark() ? 0.6 : 0.4));

/** A lane an allocator; for each pixel the worst piece in it, as a share of the budget: a whole one fills the lane. */
const drawFrameStrip = (cut, rows) => {
  const canvas = byId("frames");
  const tall = `${rows.length * LANE + 36}px`;
  if (canvas.parentElement.style.height !== tall) canvas.parentElement.style.height = tall;
  const { context, width, height, ratio } = fit(canvas);
  const plot = (framesPlot = {
    x: 96,
    y: 6,
    width: Math.max(10, width - 106),
    height: height - 34,
  });
  const box = deviceBox(plot, ratio);
  const image = imageOf(box);
  const words = new Uint32Array(image.data.buffer).fill(0);
  const colours = shareShades().map(packed);
  const lanes = [...rows].sort((a, b) => a.index - b.index);
  lanes.forEach((row, lane) =>
    writeLane(
      words,
      box,
      lane * LANE * ratio,
      (LANE - 3) * ratio,
      colours,
      worstPieces(plot, box.width, cut, row),
    ),
  );
  context.putImageData(image, box.x, box.y);
  context.fillStyle = ink().soft;
  context.textAlign = "right";
  context.textBaseline = "middle";
  lanes.forEach((row, lane) =>
    context.fillText(
      facts.allocators[row.index].name,
      plot.x - 8,
      plot.y + lane * LANE + LANE / 2 - 1,
    ),
  );
  timeAxis(context, plot, state.view);
  drawCursor(context, plot);
  tell(
    canvas,
    `Share of the budget spent in the allocator, worst ` +
      `${cut.isFrames ? "frame" : "buffer"} of each pixel, a lane an allocator. The tables below have the figures.`,
  );
};

/** The greatest share of the budget in each of so many columns. */
const worstPieces = (plot, columns, cut, { inside }) => {
  const worst = new Float64Array(columns);
  const column = (time, most) =>
    clamp(Math.floor(((xOfTime(plot, time) - plot.x) / plot.width) * columns), 0, most);
  for (
    let piece = cut.first(state.view.from);
    piece < cut.length && cut.begin(piece) <= state.view.to;
    piece += 1
  ) {
    // A piece is as wide as it lasts, and never less than a pixel.
    const from = column(cut.begin(piece), columns - 1);
    const end = Math.max(from + 1, column(cut.end(piece), columns));
    const share = inside[piece] / state.budget;
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

/** The worst piece under the pointer in the lane that it is on. */
const showPiece = (event) => {
  const [x, y] = place(byId("frames"), event);
  const plot = framesPlot;
  if (!plot || !judged || x < plot.x || x > plot.x + plot.width) {
    hideTip();
    return;
  }
  const { cut, rows } = judged;
  const row = [...rows].sort((a, b) => a.index - b.index)[Math.floor((y - plot.y) / LANE)];
  const [from, to] = [timeAt(plot, x), timeAt(plot, x + 1)];
  let worst = cut.first(from);
  if (!row || worst >= cut.length || cut.begin(worst) > to) {
    hideTip();
    return;
  }
  for (let piece = worst; piece < cut.length && cut.begin(piece) < to; piece += 1) {
    if (row.inside[piece] > row.inside[worst]) worst = piece;
  }
  const spent = row.inside[worst];
  showTip(event, [
    `${percent(spent / state.budget)} of the budget`,
    facts.allocators[row.index].name,
    `${duration(spent)} in calls`,
    joined([cut.isFrames && cut.name(worst), `at ${moment(cut.begin(worst), 1e8)}`]),
  ]);
};

const frameLegend = () =>
  make(
    "div",
    { class: "cause-legend" },
    ...shareShades().map((colour, at) => {
      const swatch = make("span", { class: "swatch" });
      swatch.style.background = css(colour);
      return make("span", {}, swatch, SHARE_WORDS[at]);
    }),
  );

const setUpFrames = () => {
  if (!pieceSums.frames.size && !pieceSums.windows.size) return;
  byId("frames-section").hidden = false;
  byId("frames-title").textContent = facts.frame_count ? "Frame and audio budget" : "Audio budget";
  const note = facts.frame_count
    ? `${count(facts.frame_count)} frames. `
    : "The journal has no frame marks. ";
  byId("frames-note").textContent =
    `${note}How much of a frame's, or of an audio buffer's, time went into malloc, ` +
    "free and their kin, by the program's own time. A bar is the worst one of its moment, on a " +
    "logarithmic scale: a whole budget fills the lane.";
  const options = [
    ...(facts.frame_count ? RATES.map(([hertz, label]) => [`frames ${1e9 / hertz}`, label]) : []),
    ...(pieceSums.windows.size
      ? BUFFERS.map(([each, label]) => [`windows ${each * facts.window_ns}`, `${label} buffer`])
      : []),
  ];
  const put = (value) => {
    const [kind, budget] = value.split(" ");
    set({ pieces: kind, budget: Number(budget) });
  };
  byId("frames-toolbar").append(
    choice("Budget", options, () => `${state.pieces} ${state.budget}`, put),
    toggle(
      "Count interrupted calls",
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
  const explain = () => byId("frames-legend").replaceChildren(frameLegend());
  watch(["theme"], explain);
  explain();
  watch(["pieces", "budget", "interrupted", "busiest", "shown", "theme", "size"], drawFrames);
  watch(["view", "cursor"], redrawFrameStrip, byId("frames"));
  listenStrip(byId("frames"), () => framesPlot);
  byId("frames").addEventListener("pointermove", showPiece);
};
