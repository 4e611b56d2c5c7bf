// Canvases, axes, labels and the tooltip, shared by all charts.

const cssVariable = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();
let inkCache = null;
/** The theme's colours for canvases, read once for each theme. */
const ink = () => {
  inkCache ??= {
    text: cssVariable("--ink"),
    soft: cssVariable("--soft"),
    line: cssVariable("--line"),
    plot: cssVariable("--plot"),
    accent: cssVariable("--accent"),
    band: cssVariable("--band"),
  };
  return inkCache;
};
const clearInk = () => {
  inkCache = null;
};
/** One of these colours (#rrggbb) as a pixel. */
const packedInk = (name) =>
  packed([1, 3, 5].map((at) => parseInt(ink()[name].slice(at, at + 2), 16)));

const FONT = "11px system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif";

/** Device pixels in a CSS pixel; at least 2 in print. */
const pixelRatio = () => {
  const screen = window.devicePixelRatio || 1;
  return document.documentElement.hasAttribute("data-print") ? Math.max(2, screen) : screen;
};

/** Resizes a canvas to its box in device pixels. The context then uses CSS pixels. */
const fitCanvas = (canvas) => {
  const ratio = pixelRatio();
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== across || canvas.height !== down) {
    canvas.width = across;
    canvas.height = down;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = FONT;
  return { context, width, height, ratio };
};

/** About `wanted` ticks in from..to, at multiples of 1, 2 or 5 times a power of ten. */
const niceTicks = (from, to, wanted) => {
  const rough = (to - from) / Math.max(wanted, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step =
    [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? 10 * power;
  const ticks = [];
  for (let tick = Math.ceil(from / step) * step; tick <= to + step * 1e-9; tick += step)
    ticks.push(tick);
  return ticks;
};

/** About `wanted` ticks in 0..to, at multiples of a power of two. */
const byteTicks = (to, wanted) => {
  let step = 2 ** Math.ceil(Math.log2(Math.max(to, 1) / wanted));
  if (to / step < wanted * 0.6) step /= 2;
  return Array.from({ length: Math.floor(to / step) + 1 }, (_, index) => index * step);
};

let timeTicks = { key: null, ticks: [] };
/** Position and label of each tick of time. Cached, because all panels of a frame share them. */
const ticksOf = (context, plot, view) => {
  const key = `${view.from}:${view.to}:${plot.x}:${plot.width}`;
  if (timeTicks.key === key) return timeTicks.ticks;
  const span = view.to - view.from;
  const times = niceTicks(view.from, view.to, plot.width / 90);
  const ticks = times.map((tick) => {
    const x = plot.x + ((tick - view.from) / span) * plot.width;
    const label = timestamp(tick, times.length > 1 ? (times[1] - times[0]) * 100 : span);
    const half = context.measureText(label).width / 2;
    return { x: Math.round(x), label, middle: clamp(x, plot.x + half, plot.x + plot.width - half) };
  });
  timeTicks = { key, ticks };
  return ticks;
};

const timeAxis = (context, plot, view) => {
  context.textAlign = "center";
  context.textBaseline = "top";
  for (const { x, label, middle } of ticksOf(context, plot, view)) {
    context.fillStyle = ink().line;
    context.fillRect(x, plot.y + plot.height, 1, 4);
    context.fillStyle = ink().soft;
    context.fillText(label, middle, plot.y + plot.height + 6);
  }
};

/** `[y, ns]` of each decade of latency; `yOf` maps ns to y. */
const latencyLines = (low, high, yOf) => {
  const first = Math.ceil(Math.log10(low));
  const decades = Math.max(0, Math.floor(Math.log10(high)) - first + 1);
  return Array.from({ length: decades }, (_, at) => [
    Math.round(yOf(10 ** (first + at))),
    10 ** (first + at),
  ]);
};

const latencyLabels = (context, plot, lines) => {
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.fillStyle = ink().soft;
  for (const [y, ns] of lines) {
    context.fillText(duration(ns), plot.x - 6, clamp(y, plot.y + 5, plot.y + plot.height - 5));
  }
};

/** Draws a labelled grid line for each decade of latency. */
const latencyAxis = (context, plot, low, high, yOf) => {
  const lines = latencyLines(low, high, yOf);
  context.fillStyle = ink().line;
  for (const [y] of lines) context.fillRect(plot.x, y, plot.width, 1);
  latencyLabels(context, plot, lines);
};

/** Moves labels apart until none overlap. Their order is kept. */
const spreadLabels = (labels, gap, low, high) => {
  labels.sort((one, other) => one.y - other.y);
  labels.forEach((label, index) => {
    label.at = Math.max(label.y, index ? labels[index - 1].at + gap : low);
  });
  for (let index = labels.length - 1; index >= 0; index -= 1) {
    const limit = index === labels.length - 1 ? high : labels[index + 1].at - gap;
    labels[index].at = Math.min(labels[index].at, limit);
  }
  return labels;
};

/** `text`, cut with an ellipsis if it is wider than `width`. */
const clipText = (context, text, width) => {
  if (context.measureText(text).width <= width) return text;
  let length = text.length;
  while (length > 1 && context.measureText(`${text.slice(0, length)}…`).width > width) length -= 1;
  return `${text.slice(0, length)}…`;
};

/** The margin beside a chart that fits the names of allocators, at most a third of the chart. */
const nameMargin = (context, indices, width) => {
  const names = indices.map((index) => facts.allocators[index].name);
  const widest = Math.max(0, ...names.map((name) => context.measureText(name).width));
  return clamp(widest + 20, width < 560 ? 78 : 96, width / 3);
};

/** Draws labels at the right of the plot, each with a line to the end of its curve. */
const endLabels = (context, plot, labels) => {
  context.textAlign = "left";
  context.textBaseline = "middle";
  const x = plot.x + plot.width;
  for (const label of spreadLabels(labels, 13, plot.y + 6, plot.y + plot.height - 6)) {
    context.strokeStyle = context.fillStyle = label.colour;
    context.lineWidth = 1;
    context.setLineDash([]);
    context.beginPath();
    context.moveTo(label.x ?? x, label.y);
    context.lineTo(x + 4, label.y);
    context.lineTo(x + 10, label.at);
    context.stroke();
    const room = context.canvas.clientWidth - x - 14;
    context.fillText(clipText(context, label.text, room), x + 13, label.at + 0.5);
  }
};

const tip = byId("tip");
/** Shows a tooltip near the pointer. The first line is its heading. */
const showTip = (event, lines) => {
  tip.replaceChildren(...lines.map((line, index) => make(index ? "div" : "b", {}, line)));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left =
    event.clientX + 16 + box.width > window.innerWidth
      ? event.clientX - box.width - 14
      : event.clientX + 14;
  tip.style.left = `${clamp(left, 6, Math.max(6, window.innerWidth - box.width - 6))}px`;
  const lowest = Math.max(6, window.innerHeight - box.height - 6);
  tip.style.top = `${clamp(event.clientY + 14, 6, lowest)}px`;
};
const hideTip = () => {
  tip.hidden = true;
};
