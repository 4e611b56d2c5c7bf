// The percentile plot. Each further nine (90 %, 99 %, 99.9 %) has the same width, so that the tail
// is visible.

const percentilePlot = { plot: null, reach: 1, low: 1, high: 10 };

const curveIndices = () =>
  [
    ...shown(),
    ...facts.allocators.flatMap((one, index) =>
      one.floor && !state.shown.has(index) ? [index] : [],
    ),
  ].filter((index) => summaryOf(index));

/** An allocator's summaries, with or without calls that were only preempted. */
const figuresOf = (one) =>
  state.excludeInterrupted && Object.keys(one.undisturbed).length
    ? one.undisturbed
    : one.operations;
const summaryOf = (index) => figuresOf(facts.allocators[index])[state.operation];

const measurePercentiles = (context, width, height) => {
  const view = percentilePlot;
  const indices = curveIndices();
  view.plot = {
    x: 54,
    y: 10,
    width: Math.max(10, width - 54 - nameMargin(context, indices, width)),
    height: height - 44,
  };
  const points = Math.max(2, ...indices.map((index) => summaryOf(index).curve[0].length));
  view.reach = (points - 1) / facts.curve_points_per_nine + 0.25;
  view.low = Math.max(
    1,
    Math.min(...indices.map((index) => summaryOf(index).curve[1][0] || 1)) * 0.85,
  );
  view.high = Math.max(10, ...indices.map((index) => summaryOf(index).worst[2])) * 1.2;
};

const percentileX = (nines) =>
  percentilePlot.plot.x + (nines / percentilePlot.reach) * percentilePlot.plot.width;
const percentileY = (ns) => {
  const { plot, low, high } = percentilePlot;
  return plot.y + plot.height * (1 - Math.log(clamp(ns, low, high) / low) / Math.log(high / low));
};

const ninesAxis = (context) => {
  const { plot, reach } = percentilePlot;
  context.textAlign = "center";
  context.textBaseline = "top";
  let end = -Infinity;
  for (const [nines, label] of facts.nines) {
    if (nines > reach) break;
    const x = Math.round(percentileX(nines));
    context.fillStyle = ink().line;
    context.fillRect(x, plot.y, 1, plot.height + 4);
    const half = context.measureText(label).width / 2;
    if (x - half < end + 8) continue;
    end = x + half;
    context.fillStyle = ink().soft;
    context.fillText(label, x, plot.y + plot.height + 7);
  }
  context.fillStyle = ink().soft;
  context.fillText(
    "worst",
    percentileX(reach),
    plot.y + plot.height + (percentileX(reach) < end + 24 ? 20 : 7),
  );
};

/** The points of a curve; the last one is the worst call. */
const curvePoints = (summary, which) => {
  const points = summary.curve[which].map((ns, index) => [
    percentileX(index / facts.curve_points_per_nine),
    percentileY(ns),
  ]);
  points.push([percentileX(percentilePlot.reach), percentileY(summary.worst[which])]);
  return points;
};

const trace = (context, points) =>
  points.forEach(([x, y], index) => (index ? context.lineTo(x, y) : context.moveTo(x, y)));

/**
 * Draws the 95 % intervals of the table's percentiles as vertical lines, shifted by `aside` pixels.
 */
const drawIntervals = (context, index, aside) => {
  context.fillStyle = styleOf(index).colour;
  context.globalAlpha = 0.6;
  for (const { column, nines } of facts.percentiles) {
    const spread = summaryOf(index).percentiles[column] ?? [];
    if (spread.length < 5) continue;
    const [low, high] = [percentileY(spread[3]), percentileY(spread[4])];
    context.fillRect(percentileX(nines) + aside - 0.6, high, 1.2, low - high);
  }
  context.globalAlpha = 1;
};

const drawCurve = (context, index) => {
  const { colour, dash, width } = styleOf(index);
  const summary = summaryOf(index);
  if (facts.allocators[index].runs > 1) {
    context.globalAlpha = 0.14;
    context.fillStyle = colour;
    context.beginPath();
    trace(context, [...curvePoints(summary, 1), ...curvePoints(summary, 2).reverse()]);
    context.fill();
    context.globalAlpha = 1;
  }
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.lineJoin = "round";
  context.setLineDash(dash);
  context.beginPath();
  trace(context, curvePoints(summary, 0));
  context.stroke();
  context.setLineDash([]);
  return { y: percentileY(summary.worst[0]), text: facts.allocators[index].name, colour };
};

const drawPercentiles = () => {
  putText("percentiles-title", `Latency percentiles: ${state.operation}`);
  const canvas = byId("percentiles");
  const { context, width, height } = fitCanvas(canvas);
  const indices = curveIndices();
  if (!indices.length) return;
  measurePercentiles(context, width, height);
  const { plot, low, high } = percentilePlot;
  context.fillStyle = ink().plot;
  context.fillRect(plot.x, plot.y, plot.width, plot.height);
  latencyAxis(context, plot, low, high, percentileY);
  ninesAxis(context);
  const isKeel = (index) => facts.allocators[index].name === "keel";
  const keelLast = [...indices].sort((a, b) => isKeel(a) - isKeel(b));
  indices.forEach((index, at) =>
    drawIntervals(context, index, (at - (indices.length - 1) / 2) * 3),
  );
  const labels = keelLast.map((index) => drawCurve(context, index));
  endLabels(context, plot, labels);
  if (percentilePlot.cursor !== undefined) {
    context.fillStyle = ink().soft;
    context.fillRect(Math.round(percentileX(percentilePlot.cursor)), plot.y, 1, plot.height);
  }
  canvas.setAttribute(
    "aria-label",
    `Latency percentiles of ${state.operation}. ` +
      indices
        .map((index) => {
          const values = Object.entries(summaryOf(index).percentiles).map(
            ([column, spread]) => `${figureLabel(column)} ${duration(spread[0])}`,
          );
          values.push(`worst ${duration(summaryOf(index).worst[0])}`);
          return `${facts.allocators[index].name}: ${values.join(", ")}`;
        })
        .join(". "),
  );
};

/** `99.93 %` for 3.15 nines. */
const shareText = (nines) => {
  const share = 100 * (1 - 10 ** -nines);
  return `${share.toFixed(clamp(Math.ceil(nines) - 1, 0, 7))} %`;
};

const showPercentiles = (event) => {
  const canvas = byId("percentiles");
  const { plot, reach } = percentilePlot;
  if (!plot) return;
  const point = clamp(
    Math.round(
      ((pointerPosition(canvas, event)[0] - plot.x) / plot.width) *
        reach *
        facts.curve_points_per_nine,
    ),
    0,
    Math.ceil(reach * facts.curve_points_per_nine),
  );
  const nines = point / facts.curve_points_per_nine;
  percentilePlot.cursor = Math.min(nines, reach);
  invalidate(["percentiles"]);
  const rows = curveIndices()
    .map((index) => {
      const summary = summaryOf(index);
      const worst = point >= summary.curve[0].length;
      return [
        worst ? summary.worst[0] : summary.curve[0][point],
        facts.allocators[index].name,
        worst,
      ];
    })
    .sort((a, b) => a[0] - b[0]);
  showTip(event, [
    `${shareText(nines)} of ${state.operation} calls take at most`,
    ...rows.map(([ns, name, worst]) => `${duration(ns)}  ${name}${worst ? " (worst)" : ""}`),
  ]);
};

const listenPercentiles = () => {
  if (facts.allocators.some((one) => Object.keys(one.undisturbed).length)) {
    for (const id of ["percentiles-toolbar", "table-toolbar"]) {
      byId(id).append(
        toggle(
          "Exclude calls that were only preempted",
          () => state.excludeInterrupted,
          (excludeInterrupted) => set({ excludeInterrupted }),
        ),
      );
    }
  }
  const canvas = byId("percentiles");
  canvas.addEventListener("pointermove", showPercentiles);
  canvas.addEventListener("pointerleave", () => {
    percentilePlot.cursor = undefined;
    hideTip();
    invalidate(["percentiles"]);
  });
};
