// The marks of slow calls, their tooltips, and the details of one call under every allocator.

/**
 * An allocator's slow calls of one operation through the selected call of the flame graph, by time
 * and by descending latency.
 */
const callsOfKind = (outliers, kind) => {
  if (outliers.ofStack !== state.stack) {
    outliers.ofStack = state.stack;
    outliers.ofKind = new Map();
  }
  if (!outliers.ofKind.has(kind)) {
    const slowestFirst = outliers.slowestFirst.filter(
      (at) => outliers.kind[at] === kind && passesStack(outliers, at),
    );
    outliers.ofKind.set(kind, { byTime: slowestFirst.slice().sort(), slowestFirst });
  }
  return outliers.ofKind.get(kind);
};

/** The slow calls in view, by time. */
const visibleMarks = ({ outliers }) => {
  if (!outliers) return new Uint32Array(0);
  const { byTime } = callsOfKind(outliers, OPERATION_NAMES.indexOf(state.operation));
  const before = (time) => {
    let [low, high] = [0, byTime.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (outliers.time[byTime[middle]] < time) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  let end = before(state.view.to);
  while (end < byTime.length && outliers.time[byTime[end]] === state.view.to) end += 1;
  return byTime.subarray(before(state.view.from), end);
};

const lowerBound = (sorted, value) => {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
};

/** Index into `markShades` of a slow call's colour. */
const markHue = (outliers, at) => {
  if (state.colour === "cause") return causeIndex(outliers.cause[at]);
  return state.colour === "thread"
    ? laneOf(outliers.thread[at])
    : hueOfStep(stepOfSize(outliers.size[at]));
};

const shadesOfMarks = new Map();
/** Pixels of the dots, by hue. */
const markShades = () => {
  const key = `${state.colour}-${dark()}`;
  if (!shadesOfMarks.has(key)) {
    const hues = {
      size: () =>
        Array.from({ length: HUES + 1 }, (_, hue) =>
          hue === HUES ? [0, 0] : sizeHue(hue / (HUES - 1)),
        ),
      cause: () => CAUSES.map((cause) => cause.hue),
      thread: () => facts.lanes.map((_, lane) => laneHue(lane)),
    }[state.colour]();
    shadesOfMarks.set(
      key,
      hues.map((hue) => packed(shade(hue, dark() ? 0.72 : 0.62))),
    );
  }
  return shadesOfMarks.get(key);
};

// More dots than this would hide the cells. The other slow calls are drawn as cells and still
// respond to the pointer.
const MOST_DOTS = 400;

/** The slowest marks in view, by descending latency. */
const slowestInView = ({ marks, outliers }) => {
  if (marks.length <= MOST_DOTS) {
    return Array.from(marks).sort((a, b) => outliers.latency[b] - outliers.latency[a]);
  }
  const slowest = [];
  for (const at of callsOfKind(outliers, OPERATION_NAMES.indexOf(state.operation)).slowestFirst) {
    if (outliers.time[at] < state.view.from || outliers.time[at] > state.view.to) continue;
    slowest.push(at);
    if (slowest.length === MOST_DOTS) break;
  }
  return slowest;
};

/** The dots of a panel for its painter, by descending latency. The first is drawn on top. */
const dotsOf = (panel) => {
  panel.marks = visibleMarks(panel);
  const { outliers, plot } = panel;
  const calls = slowestInView(panel);
  const radius = calls.length < 150 ? 2.6 : 2;
  const dots = calls.map((at) => ({
    at,
    radius,
    x: xOfTime(plot, outliers.time[at]),
    y: yOfLatency(plot, outliers.latency[at]),
    hue: markHue(outliers, at),
  }));
  dots.shades = markShades();
  return dots;
};

/** Radius of the ring around the slowest call, and the radius that includes its line width. */
const RING = 5;
const RING_REACH = 6;

/**
 * Draws a ring around the slowest call in view, and its latency. A ring at the plot's edge is not
 * cut.
 */
const labelWorst = (context, panel, { at, x, y }) => {
  const { plot } = panel;
  context.strokeStyle = context.fillStyle = ink().text;
  context.lineWidth = 1.2;
  context.beginPath();
  context.arc(x, y, RING, 0, 7);
  context.stroke();
  context.textBaseline = "middle";
  const toLeft = x > plot.x + plot.width - 70;
  context.textAlign = toLeft ? "right" : "left";
  context.fillText(
    duration(panel.outliers.latency[at]),
    x + (toLeft ? -9 : 9),
    Math.max(y, plot.y + 7),
  );
};

/** The mark nearest to a point, if one is within 14 pixels. */
const nearestMark = (panel, x, y) => {
  let [found, best] = [undefined, 14 * 14];
  if (!state.marks) return found;
  for (const at of panel.marks ?? []) {
    const distance =
      (xOfTime(panel.plot, panel.outliers.time[at]) - x) ** 2 +
      (yOfLatency(panel.plot, panel.outliers.latency[at]) - y) ** 2;
    if (distance < best) [found, best] = [at, distance];
  }
  return found;
};

const markLines = (name, outliers, at, frame) => {
  const size = outliers.size[at] ? bytes(outliers.size[at]) : "unknown size";
  const inFrame = frame === null ? "" : ` · frame ${frame.toLocaleString("en-US")}`;
  const lines = [
    `${duration(outliers.latency[at])} in ${OPERATION_NAMES[outliers.kind[at]]}`,
    `${size} · thread ${outliers.thread[at]}`,
    `at ${timestamp(outliers.time[at], 1e6)}${inFrame}`,
    causeOf(outliers, at),
  ];
  if (name) lines.splice(1, 0, name);
  const site = siteText(outliers, at);
  if (site) lines.push(`called in ${site}`);
  return lines;
};

/**
 * The latency of the same call under every allocator, fastest first; empty if it was not looked up.
 */
const sameCall = async (index, outliers, at) => {
  const probe = outliers.probe[at];
  if (!probe) return [];
  const drawn = facts.allocators.flatMap((one, index) => (one.median_run ? [index] : []));
  const rows = await Promise.all(
    drawn.map(async (one) => {
      const row = { index: one, ...(await loadProbes(one))[probe - 1] };
      const took = outliers.latency[at];
      // The call may be of another run than the one that is drawn.
      return one === index && row.took !== took ? { ...row, took, nearFloor: false } : row;
    }),
  );
  return rows.sort((a, b) => a.took - b.took);
};

/** The heading of a call's details, with buttons that zoom and close. */
const detailHead = (index, outliers, at, close) => {
  const around = (span) => () =>
    setView(outliers.time[at] - span / 2, outliers.time[at] + span / 2);
  const button = (text, onclick) =>
    make("button", { type: "button", class: "quiet", text, onclick });
  const call = `${duration(outliers.latency[at])} in ${OPERATION_NAMES[outliers.kind[at]]}`;
  return make(
    "div",
    { class: "detail-head" },
    make("h3", { text: `${call}, ${facts.allocators[index].name}` }),
    button("Zoom in", around(facts.span_ns / 100)),
    button("Zoom in further", around(facts.span_ns / 5000)),
    button("Close", close),
  );
};

const detailFacts = (outliers, at) => {
  const fact = (name, value) => [make("dt", { text: name }), make("dd", {}, value)];
  const frame = frameOf(outliers.time[at]);
  const size = outliers.size[at];
  return make(
    "dl",
    { class: "facts" },
    ...fact("Size", size ? `${bytes(size)} (${size.toLocaleString("en-US")} B)` : "unknown"),
    ...fact("Thread", String(outliers.thread[at])),
    ...fact("Time", timestamp(outliers.time[at], 1e5)),
    ...(frame === null ? [] : fact("Frame", frame.toLocaleString("en-US"))),
    ...fact("Cause", causeOf(outliers, at)),
    ...fact("Attribution", verdictOf(outliers, at).sentence),
  );
};

/** The latency of the same call under every allocator, as bars. */
const sameCallBars = (index, rows) => {
  const note = (text) => make("p", { class: "note", text });
  if (!rows.length) {
    return note("The latency with the other allocators is known only for the slowest calls.");
  }
  const longest = Math.max(...rows.map((row) => row.took), 1);
  const bars = rows.map((row) => {
    const bar = make("span", { class: "dash" });
    bar.style.width = `${Math.max(0.6, (100 * Math.log(1 + row.took)) / Math.log(1 + longest))}%`;
    bar.style.background = styleOf(row.index).colour;
    return make(
      "div",
      { class: row.index === index ? "same this" : "same" },
      make("span", { class: "allocator", text: facts.allocators[row.index].name }),
      make("span", { class: "track", "aria-hidden": "true" }, bar),
      make("span", { text: duration(row.took) }),
    );
  });
  const cheap = rows.filter((row) => row.nearFloor && !facts.allocators[row.index].floor);
  const names = list(cheap.map((row) => facts.allocators[row.index].name));
  return make(
    "div",
    { class: "same-call" },
    note("The same call in the median run of each allocator (logarithmic scale):"),
    ...bars,
    cheap.length
      ? note(`With ${names}, at least half of the time was the cost of measuring.`)
      : "",
  );
};

const MATES_SHOWN = 8;

/** The slow calls of the same frame side by side: its mallocs and its frees. */
const frameMates = (index, outliers, at) => {
  const frame = frameOf(outliers.time[at]);
  if (!frame) return "";
  const calls = callsOfFrame(outliers, frame);
  if (calls.length < 2) return "";
  const row = (one) => {
    const name = `${duration(outliers.latency[one])} in ${OPERATION_NAMES[outliers.kind[one]]}`;
    const what = [outliers.size[one] && bytes(outliers.size[one]), siteText(outliers, one)];
    const link = make("button", {
      type: "button",
      class: "link",
      text: name,
      onclick: () => showCall(index, outliers, one),
    });
    return make(
      "li",
      { class: one === at ? "site" : null },
      one === at ? make("span", { text: name }) : link,
      make("small", { text: joined(what) }),
    );
  };
  const more = calls.length > MATES_SHOWN ? ` (the slowest ${MATES_SHOWN} of ${calls.length})` : "";
  return make(
    "div",
    { class: "stack-part frame-mates" },
    make("h4", { text: `Slow calls of frame ${frame.toLocaleString("en-US")}${more}` }),
    make("ul", { class: "calls-of-stack" }, ...calls.slice(0, MATES_SHOWN).map(row)),
  );
};

/** The call stack of the pinned call; empty if it is unknown. */
const stackPart = (outliers, at) => {
  const list = stackList(outliers, at);
  if (!list) return "";
  return make("div", { class: "stack-part" }, make("h4", { text: "Call stack" }), list);
};

let pinned = null;

/** Shows a call's details below the toolbar of the charts. */
const pin = async (index, outliers, at) => {
  pinned = { index, at };
  const box = byId("detail");
  const [rows] = await Promise.all([sameCall(index, outliers, at), loadStacks()]);
  if (pinned?.index !== index || pinned.at !== at) return;
  const close = () => {
    pinned = null;
    box.hidden = true;
    setLink("calls");
  };
  box.replaceChildren();
  fill(
    box,
    detailHead(index, outliers, at, close),
    detailFacts(outliers, at),
    sameCallBars(index, rows),
    frameMates(index, outliers, at),
    stackPart(outliers, at),
  );
  box.hidden = false;
  setLink(linkOfCall(index, at));
};

/** A click or tap without a drag: shows the details of the mark at that point. */
const pinAt = (panel, x, y) => {
  if (!panel.outliers) return;
  const at = nearestMark(panel, x, y);
  if (at !== undefined) pin(panel.index, panel.outliers, at);
};
