// The charts, as SVG.

const draw = (tag, attributes = {}, ...children) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") element.textContent = value;
    else if (value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter(Boolean));
  return element;
};

const TICKS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 1e4, 1e5, 1e6];
const FINE_TICKS = [0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 4, 5, 6, 8];
const tickLabel = (value) => `${value.toLocaleString("en")}\u00a0×`;

/** The mark of an allocator around a point, `size` pixels from its middle. */
const markOf = (allocator, x, y, size) => {
  const fill = colourOf(allocator);
  const [half, wide] = [size * 0.92, size * 1.25];
  const polygon = (...points) => draw("polygon", { points: points.join(" "), fill });
  const corner = (dx, dy) => `${x + dx},${y + dy}`;
  return {
    circle: () => draw("circle", { cx: x, cy: y, r: size, fill }),
    square: () => polygon(...[[-1, -1], [1, -1], [1, 1], [-1, 1]].map(([dx, dy]) =>
      corner(dx * half, dy * half))),
    diamond: () => polygon(corner(0, -wide), corner(wide, 0), corner(0, wide), corner(-wide, 0)),
    triangle: () => polygon(corner(0, -wide), corner(wide, size), corner(-wide, size)),
  }[lookOf(allocator).shape]();
};
/** The mark as an element of text. */
const swatch = (allocator) =>
  draw(
    "svg",
    { class: "mark", viewBox: "0 0 14 14", width: 12, height: 12, "aria-hidden": "true" },
    markOf(allocator, 7, 7, 5),
  );

/** A logarithmic axis from `low` to `high` on the pixels `from` to `to`. */
const logAxis = (low, high, from, to) => {
  const [start, length] = [Math.log(low), Math.log(high / low) || 1];
  return (value) => from + ((Math.log(clamp(value, low, high)) - start) / length) * (to - from);
};

/** A line for each workload: a dot for each allocator's median ratio, a bar from least to most. */
const strips = (container, metric) => {
  const width = Math.max(container.clientWidth, 280);
  const narrow = width < 600;
  const failures = (workload) =>
    shownAllocators().filter((one) => spread(workload, one, metric)?.failed);
  const rows = [];
  let group = "";
  const measured = shownWorkloads().filter((workload) =>
    shownAllocators().some((one) => spread(workload, one, metric)?.median !== undefined),
  );
  // Failures have a column of their own, at the right.
  const margin = measured.some((one) => failures(one).length) ? 78 : 26;
  const [left, right, row] = [narrow ? 118 : 190, width - margin, 21];
  if (!measured.length) {
    container.replaceChildren(make("p", { text: "Not measured for these workloads." }));
    return;
  }
  for (const workload of measured) {
    if (workload.suite !== group) rows.push({ group: (group = workload.suite) });
    rows.push({ workload });
  }
  const ratios = rows.map(({ workload }) =>
    workload
      ? shownAllocators().map((one) => [one, ratio(workload, one, metric, state.base)])
      : [],
  );
  const values = ratios.flat().flatMap(([, one]) => (one ? [one.least, one.most] : []));
  const low = Math.min(0.9, ...values) * 0.97;
  const high = Math.max(1.5, ...values) * 1.03;
  const x = logAxis(low, high, left, right);
  const height = 30 + rows.length * row + 6;
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img" });
  svg.setAttribute(
    "aria-label",
    `${METRICS[metric].title} of each workload as a multiple of ${baseName()}`,
  );
  let labelled = -Infinity;
  const steps = high / low > 4 ? TICKS : FINE_TICKS;
  for (const tick of steps.filter((one) => one >= low && one <= high)) {
    const [at, text] = [x(tick), tickLabel(tick)];
    const line = { x1: at, x2: at, y1: 22, y2: height };
    svg.append(draw("line", { class: tick === 1 ? "base" : "grid", ...line }));
    // The base is always labelled; other labels keep their distance.
    if (tick !== 1 && (at - labelled < 40 || Math.abs(at - x(1)) < 40)) continue;
    labelled = at;
    svg.append(draw("text", { class: "axis", x: at, y: 14, "text-anchor": "middle", text }));
  }
  rows.forEach(({ group: title, workload }, index) => {
    const y = 30 + index * row + row / 2;
    if (title) {
      svg.append(draw("text", { class: "group", x: 0, y: y + 4, text: title }));
      return;
    }
    const name = draw("text", { x: 0, y: y + 4 });
    name.textContent = shorten(workload.name, narrow ? 17 : 28);
    name.append(draw("title", { text: workload.about }));
    svg.append(name, draw("line", { class: "grid", x1: left, x2: right, y1: y, y2: y }));
    for (const [allocator, one] of ratios[index]) {
      svg.append(...mark(workload, allocator, metric, one, x, y));
    }
    const failed = failures(workload);
    if (failed.length) {
      const at = { x: width - 4, y: y + 4, "text-anchor": "end" };
      const label = draw("text", { class: "failed", ...at, text: `${failed.length} failed` });
      label.append(draw("title", { text: failed.map((one) => one.name).join(", ") }));
      svg.append(label);
    }
  });
  container.replaceChildren(svg);
};

const shorten = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

const mark = (workload, allocator, metric, one, x, y) => {
  if (!one) return [];
  const colour = colourOf(allocator);
  const value = spread(workload, allocator, metric);
  const show = METRICS[metric].show;
  const text =
    `${workload.name}, ${allocator.name}: ${times(one.median)} (${show(value.median)}, ` +
    `${show(value.least)} to ${show(value.most)})`;
  const range = draw("line", {
    ...{ x1: x(one.least), x2: x(one.most), y1: y, y2: y, stroke: colour },
    ...{ "stroke-width": 3, opacity: 0.4 },
  });
  const dot = markOf(allocator, x(one.median), y, 4.5);
  dot.append(draw("title", { text }));
  return [range, dot];
};

/** The workloads on which every shown allocator has a time and a peak. */
const commonWorkloads = () =>
  shownWorkloads().filter((workload) =>
    shownAllocators().every((one) =>
      [state.time, "peak"].every((metric) => ratio(workload, one, metric, state.base)),
    ),
  );

/** Points that no other point beats in both coordinates. */
const paretoFront = (points) =>
  points.filter(
    (one) =>
      !points.some(
        (other) =>
          other.x <= one.x && other.y <= one.y && (other.x < one.x || other.y < one.y),
      ),
  );

const scatterPoints = () => {
  const workloads = commonWorkloads();
  return shownAllocators().flatMap((allocator) => {
    const x = meanOf(workloads, allocator, state.time, state.base).value;
    const y = meanOf(workloads, allocator, "peak", state.base).value;
    return x && y ? [{ allocator, x, y }] : [];
  });
};

const scatter = (container) => {
  const width = Math.min(Math.max(container.clientWidth, 280), 860);
  const height = Math.min(460, width * 0.8);
  const points = scatterPoints();
  if (!points.length) {
    const text = "No workload has a time and a peak memory on every shown allocator.";
    container.replaceChildren(make("p", { text }));
    return;
  }
  const range = (pick) => {
    const values = points.map(pick);
    return [Math.min(...values) * 0.95, Math.max(...values, Math.min(...values) * 1.2) * 1.06];
  };
  const [x, y] = [
    logAxis(...range((one) => one.x), 52, width - 70),
    logAxis(...range((one) => one.y), height - 42, 28),
  ];
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img" });
  svg.setAttribute("aria-label", "Mean time and mean peak memory of each allocator");
  scatterGrid(svg, x, y, range, width, height);
  const front = paretoFront(points).sort((a, b) => a.x - b.x);
  const path = front.map((one, index) =>
    index === 0 ? `M${x(one.x)} ${y(one.y)}` : `H${x(one.x)}V${y(one.y)}`,
  );
  svg.append(draw("path", { class: "front", d: path.join("") }));
  placed(points, x, y, width).forEach((one) => {
    const text = `${one.allocator.name}: time ${times(one.x)}, memory ${times(one.y)}`;
    const dot = markOf(one.allocator, x(one.x), y(one.y), 6);
    dot.append(draw("title", { text }));
    svg.append(
      dot,
      draw("text", {
        ...{ x: one.at.x, y: one.at.y, "text-anchor": one.at.anchor, text: one.allocator.name },
        class: front.includes(one) ? "label on-front" : "label",
      }),
    );
  });
  container.replaceChildren(svg);
};

/** The points with places for their labels, none of which covers another one. */
const placed = (points, x, y, width) => {
  const taken = [];
  return points.map((one) => {
    const [cx, cy, length] = [x(one.x), y(one.y), one.allocator.name.length * 7];
    const places = [
      [10, 4],
      [-10, 4],
      [10, 18],
      [10, -10],
      [-10, 18],
      [-10, -10],
      [10, 32],
      [-10, 32],
    ].map(([dx, dy]) => {
      const start = dx > 0 ? cx + dx : cx + dx - length;
      return { x: cx + dx, y: cy + dy, anchor: dx > 0 ? "start" : "end", start, length };
    });
    const isFree = (place) =>
      place.start >= 0 &&
      place.start + length <= width &&
      !taken.some(
        (other) =>
          Math.abs(other.y - place.y) < 14 &&
          place.start < other.start + other.length &&
          other.start < place.start + length,
      );
    const at = places.find(isFree) ?? places[0];
    taken.push(at);
    return Object.assign(one, { at });
  });
};

const scatterGrid = (svg, x, y, range, width, height) => {
  const ticks = (pick) => {
    const [low, high] = range(pick);
    const steps = high / low > 4 ? TICKS : FINE_TICKS;
    return steps.filter((one) => one >= low && one <= high);
  };
  // Labels keep their distance.
  const last = { x: -Infinity, y: Infinity };
  const label = (at, anchor, tick) =>
    draw("text", { class: "axis", ...at, "text-anchor": anchor, text: tickLabel(tick) });
  for (const tick of ticks((one) => one.x)) {
    const at = x(tick);
    svg.append(draw("line", { class: "grid", x1: at, x2: at, y1: 20, y2: height - 36 }));
    if (at - last.x < 44) continue;
    last.x = at;
    svg.append(label({ x: at, y: height - 20 }, "middle", tick));
  }
  for (const tick of ticks((one) => one.y)) {
    const at = y(tick);
    svg.append(draw("line", { class: "grid", x1: 46, x2: width - 60, y1: at, y2: at }));
    if (last.y - at < 15) continue;
    last.y = at;
    svg.append(label({ x: 40, y: at + 4 }, "end", tick));
  }
  svg.append(
    draw("text", {
      ...{ class: "axis", x: (width - 20) / 2, y: height - 3, "text-anchor": "middle" },
      text: `mean ${METRICS[state.time].title} →`,
    }),
    draw("text", { class: "axis", x: 0, y: 8, text: "mean peak memory ↑" }),
  );
};
