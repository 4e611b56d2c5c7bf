// The opening: the criteria as strips of medians and ranges. The words were weighed in lab/report/src/verdict.rs.

/** The range over runs and the interval, as far as they are known. */
const spreadWords = ([, least, most, low, high], format) => joined([
  least !== most && `runs from ${format(least)} to ${format(most)}`,
  low !== undefined && `95 %: ${format(low)} to ${format(high)}`]);

/** 1.34 times the best (1.29 to 1.40) */
const ratioWords = (ratio, best) => {
  const [value, low, high] = ratio.map((part) => part.toFixed(part < 10 ? 2 : 1));
  return `${value} times ${facts.allocators[best].name}'s (95 %: ${low} to ${high})`;
};

const criterionRow = (criterion, at, scale) => {
  const [index, spread] = criterion.rows[at];
  const [median, least, most, low, high] = spread;
  const format = criterion.unit === "bytes" ? bytes : duration;
  const place = (kind, from, to) => {
    const bar = make("span", { class: kind });
    bar.style.left = `${scale(from)}%`;
    bar.style.width = `${Math.max(0, scale(to) - scale(from))}%`;
    bar.style.background = lookOf(index).colour;
    return bar;
  };
  const dot = place("dot", median, median);
  dot.style.width = null;
  const best = criterion.best.includes(index) && criterion.best.length < criterion.rows.length;
  const ratio = criterion.ratios[at];
  return make("div", { class: best ? "strip best" : "strip",
    title: joined([spreadWords(spread, format), ratio && ratioWords(ratio, criterion.best[0])]) },
    make("span", { class: "who", text: facts.allocators[index].name }),
    make("span", { class: "track", "aria-hidden": "true" },
      low === undefined ? null : place("whisker", low, high), place("range", least, most), dot),
    make("span", { class: "value", text: format(median) }));
};

/** Logarithmic where values are far apart, else from zero. */
const stripScale = (criterion) => {
  const lows = criterion.rows.map(([, spread]) => spread[1]);
  const highs = criterion.rows.map(([, spread]) => spread[2]);
  if (criterion.floor && criterion.unit === "ns") lows.push(criterion.floor[0]);
  const [low, high] = [Math.min(...lows), Math.max(...highs)];
  if (high / Math.max(low, 1e-9) > 8 && low > 0) {
    return (value) => clamp(3 + 94 * Math.log(Math.max(value, 1e-9) / low) / Math.log(high / low), 0, 100);
  }
  return (value) => clamp(92 * value / Math.max(high, 1e-9), 0, 100);
};

const drawVerdict = () => {
  byId("criteria").replaceChildren(...facts.verdict.criteria.map((criterion) => {
    const scale = stripScale(criterion);
    const format = criterion.unit === "bytes" ? bytes : duration;
    const floor = criterion.floor && criterion.unit === "ns"
      ? make("p", { class: "floor-note", text: `no allocator at all: ${format(criterion.floor[0])}` }) : null;
    return make("article", { class: "criterion" }, make("h3", { text: criterion.title }),
      make("p", { class: "meaning", text: criterion.meaning }),
      ...criterion.rows.map((_, at) => criterionRow(criterion, at, scale)), floor,
      make("p", { class: "sentence", text: criterion.sentence }));
  }));
  byId("overall").textContent = facts.verdict.overall;
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
    `Dots are medians over runs${runs > 1 ? ", bars their range, whiskers where the typical run lies (95 %)" : ""}.`;
};

/** A slow call in words, and the way to it. */
const hitchWords = (title, { index, outliers, at }) => {
  const frame = frameOf(outliers.time[at]);
  return [make("b", { text: `${title}: ` }), `${duration(outliers.latency[at])} in one ` +
    `${OPERATION_NAMES[outliers.kind[at]]}${outliers.size[at] ? ` of ${bytes(outliers.size[at])}` : ""} with ` +
    `${facts.allocators[index].name}, at ${moment(outliers.time[at], 1e8)}` +
    `${frame ? ` in frame ${frame.toLocaleString("en-US")}` : ""}, on thread ${outliers.thread[at]}: ` +
    `${callCause(outliers, at)}. `,
  make("button", { type: "button", class: "link", text: "Show it", onclick: () => lookAtCall(index, outliers, at) })];
};

/** The worst hitch of all contenders; if the machine interrupted it, also the worst that it did not. */
const drawHitch = async () => {
  const loaded = await Promise.all(contenders.map(async (index) => [index, await loadOutliers(index)]));
  const slowest = (fits) => loaded.flatMap(([index, outliers]) => {
    const at = outliers?.slowestFirst.find((call) => fits(outliers.cause[call]));
    return at === undefined ? [] : [{ index, outliers, at }];
  }).sort((a, b) => b.outliers.latency[b.at] - a.outliers.latency[a.at])[0];
  const interrupted = (cause) => causeIndex(cause) === 2;
  const [worst, own] = [slowest(() => true), slowest((cause) => !interrupted(cause))];
  byId("hitch").hidden = !worst;
  if (!worst) return;
  const both = own && interrupted(worst.outliers.cause[worst.at]);
  byId("hitch").replaceChildren(make("p", {}, ...hitchWords("The worst hitch", worst)),
    ...(both ? [make("p", {}, ...hitchWords("The worst that nothing interrupted", own))] : []));
};
