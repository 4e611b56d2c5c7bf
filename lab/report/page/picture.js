// The picture of the first screen: the latency of the program's allocator beside that of the best
// other one, from the median call to the slowest.

const PICTURE = { width: 560, height: 250, left: 62, right: 120, top: 16, bottom: 34 };
const svgNamespace = "http://www.w3.org/2000/svg";

const makeSvg = (tag, attributes, ...children) => {
  const element = document.createElementNS(svgNamespace, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};

/**
 * The allocators to show: the one that the program used, and the other one that the sentences name,
 * or the fastest one. A row of the same allocator with settings is shown only if they name it.
 */
const picturedAllocators = () => {
  const { base, advice, criteria } = facts.verdict;
  if (base === null || base === undefined) return contenders.slice(0, 2);
  const byTime = criteria.find(({ id }) => id === "time") ?? criteria[0];
  const isOther = (index) => index !== base && settingOf(index) === undefined;
  const fastest = byTime?.rows.map(([index]) => index).find(isOther);
  const other = advice.other ?? advice.uncertain ?? fastest;
  return other === undefined || other === null ? [base] : [base, other];
};

/** The medians of an allocator's percentiles: `[label, ns]`. */
const curveOf = (index) => {
  const found = facts.allocators[index].operations[facts.verdict.operation];
  if (!found) return [];
  const points = facts.percentiles.flatMap(({ column, label }) => {
    const spread = found.percentiles[column];
    return spread ? [[label, spread[0]]] : [];
  });
  return found.worst ? [...points, ["worst", found.worst[0]]] : points;
};

const drawPicture = () => {
  const curves = picturedAllocators().map((index) => ({ index, points: curveOf(index) }));
  const drawn = curves.filter(({ points }) => points.length > 1);
  byId("picture").hidden = !drawn.length;
  if (!drawn.length) return;
  const { width, height, left, right, top, bottom } = PICTURE;
  const values = drawn.flatMap(({ points }) => points.map(([, ns]) => Math.max(ns, 1)));
  const [low, high] = [Math.log10(Math.min(...values)), Math.log10(Math.max(...values))];
  const span = Math.max(high - low, 0.5);
  // Of one of them a percentile may be unknown, because too few calls are above it.
  const isKnown = (label) => drawn.some(({ points }) => points.some(([one]) => one === label));
  const labels = [...facts.percentiles.map(({ label }) => label), "worst"].filter(isKnown);
  const x = (label) =>
    left + ((width - left - right) * labels.indexOf(label)) / Math.max(labels.length - 1, 1);
  const y = (ns) =>
    height - bottom - ((height - top - bottom) * (Math.log10(Math.max(ns, 1)) - low)) / span;
  const text = (content, attributes) =>
    makeSvg("text", { "font-size": 12, fill: "var(--soft)", ...attributes }, bound(content));
  const grid = [];
  for (let power = Math.ceil(low); power <= low + span; power += 1) {
    const at = y(10 ** power);
    grid.push(
      makeSvg("line", { x1: left, x2: width - right, y1: at, y2: at, stroke: "var(--line)" }),
      text(duration(10 ** power), { x: left - 8, y: at + 4, "text-anchor": "end" }),
    );
  }
  const axis = labels.map((label) =>
    text(label, { x: x(label), y: height - 12, "text-anchor": "middle" }),
  );
  // The names do not overlap: each is below the one above it.
  const ends = drawn
    .map(({ index, points }) => ({ index, at: y(points.at(-1)[1]), ns: points.at(-1)[1] }))
    .sort((a, b) => a.at - b.at);
  ends.forEach((end, at) => {
    if (at) end.at = Math.max(end.at, ends[at - 1].at + 32);
  });
  const shift = Math.max(0, ends.at(-1).at + 18 - (height - bottom));
  const lines = drawn.map(({ index, points }) =>
    makeSvg("polyline", {
      points: points.map(([label, ns]) => `${x(label)},${y(ns)}`).join(" "),
      fill: "none",
      stroke: styleOf(index).colour,
      "stroke-width": 2.5,
      "stroke-linejoin": "round",
    }),
  );
  const names = ends.flatMap(({ index, at, ns }) => [
    text(facts.allocators[index].name, {
      x: width - right + 10,
      y: at - shift + 4,
      fill: styleOf(index).colour,
      "font-weight": 640,
      "font-size": 13,
    }),
    text(`worst ${duration(ns)}`, { x: width - right + 10, y: at - shift + 18 }),
  ]);
  const title = `Latency of ${facts.verdict.operation}: ${list(
    drawn.map(({ index }) => facts.allocators[index].name),
  )}`;
  const picture = makeSvg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title },
    ...grid,
    ...axis,
    ...lines,
    ...names,
  );
  const caption = make("figcaption", {
    class: "floor-note",
    text: `${title} (medians of the runs, logarithmic). Lower is better.`,
  });
  byId("picture").replaceChildren(picture, caption);
};
