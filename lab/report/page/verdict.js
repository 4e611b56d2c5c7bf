// The opening: the criteria as strips of medians and ranges. The words were weighed in lab/report/src/verdict.rs.

const criterionRow = (criterion, [index, [median, low, high]], scale) => {
  const format = criterion.unit === "bytes" ? bytes : duration;
  const range = make("span", { class: "range" });
  range.style.left = `${scale(low)}%`;
  range.style.width = `${Math.max(0, scale(high) - scale(low))}%`;
  const dot = make("span", { class: "dot" });
  dot.style.left = `${scale(median)}%`;
  range.style.background = dot.style.background = lookOf(index).colour;
  const best = criterion.best.includes(index) && criterion.best.length < criterion.rows.length;
  return make("div", { class: best ? "strip best" : "strip", title: `${format(low)} to ${format(high)} over runs` },
    make("span", { class: "who", text: facts.allocators[index].name }),
    make("span", { class: "track", "aria-hidden": "true" }, range, dot),
    make("span", { class: "value", text: format(median) }));
};

/** Logarithmic where values are far apart, else from zero. */
const stripScale = (criterion) => {
  const lows = criterion.rows.map(([, spread]) => spread[1]);
  const highs = criterion.rows.map(([, spread]) => spread[2]);
  if (criterion.floor && criterion.unit === "ns") lows.push(criterion.floor[0]);
  const [low, high] = [Math.min(...lows), Math.max(...highs)];
  if (high / Math.max(low, 1e-9) > 8 && low > 0) {
    return (value) => 3 + 94 * Math.log(clamp(value, low, high) / low) / Math.log(high / low);
  }
  return (value) => 97 * value / Math.max(high, 1e-9);
};

const drawVerdict = () => {
  byId("criteria").replaceChildren(...facts.verdict.criteria.map((criterion) => {
    const scale = stripScale(criterion);
    const format = criterion.unit === "bytes" ? bytes : duration;
    const floor = criterion.floor && criterion.unit === "ns"
      ? make("p", { class: "floor-note", text: `no allocator at all: ${format(criterion.floor[0])}` }) : null;
    return make("article", { class: "criterion" }, make("h3", { text: criterion.title }),
      make("p", { class: "meaning", text: criterion.meaning }),
      ...criterion.rows.map((row) => criterionRow(criterion, row, scale)), floor,
      make("p", { class: "sentence", text: criterion.sentence }));
  }));
  byId("cautions").replaceChildren(...facts.verdict.cautions.map((text) => make("li", { text })));
};

// A compiler's command line would fill the whole page; the notes at its end have it in full.
const programName = (command) => {
  const [path, ...rest] = command.split(" ");
  const text = [path.split("/").pop(), ...rest].join(" ");
  return text.length > 48 ? `${text.slice(0, 47)}…` : text;
};

const drawLede = () => {
  const total = Object.values(facts.journal.operations).reduce((a, b) => a + b, 0);
  const runs = Math.max(...facts.allocators.map((one) => one.runs));
  const names = contenders.map((index) => facts.allocators[index].name);
  const program = programName(facts.journal.program || facts.journal.name);
  byId("lede").textContent = `${count(total)} operations of ${program} ` +
    `replayed on ${names.length === 1 ? names[0] : `${names.length} allocators`}, ` +
    `${runs === 1 ? "once" : `${runs} times`} each, pace ${facts.settings.pace || "unknown"}. ` +
    "Dots are medians over runs, bars their whole range.";
};

/** The worst hitch of all contenders, in a sentence, and the way to it. */
const drawHitch = async () => {
  const loaded = await Promise.all(contenders.map(async (index) => [index, await loadOutliers(index)]));
  const slowest = ([index, outliers]) => (outliers ? [{ index, outliers, at: outliers.slowestFirst[0] }] : []);
  const worst = loaded.flatMap(slowest)
    .sort((a, b) => b.outliers.latency[b.at] - a.outliers.latency[a.at])[0];
  byId("hitch").hidden = !worst;
  if (!worst) return;
  const { index, outliers, at } = worst;
  const frame = frameOf(outliers.time[at]);
  byId("hitch").replaceChildren(make("b", { text: "The worst hitch: " }),
    `${duration(outliers.latency[at])} in one ${OPERATION_NAMES[outliers.kind[at]]}` +
    `${outliers.size[at] ? ` of ${bytes(outliers.size[at])}` : ""} with ${facts.allocators[index].name}, at ` +
    `${moment(outliers.time[at], 1e8)}${frame ? ` in frame ${frame.toLocaleString("en-US")}` : ""}, ` +
    `on thread ${outliers.thread[at]}: ${callCause(outliers, at)}. `,
    make("button", { type: "button", class: "link", text: "Show it", onclick: () => lookAtCall(index, outliers, at) }));
};
