// Resident memory of each allocator over time, and the program's live bytes.

let memoryPlot = null;

/** Index of the first point of a curve after a time. */
const pointAfter = (curve, time) => {
  let [low, high] = [0, curve.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (curve[middle][0] <= time) low = middle + 1;
    else high = middle;
  }
  return low;
};

/** The points in view and one more on each side. */
const within = (curve) =>
  curve.slice(
    Math.max(0, pointAfter(curve, state.view.from) - 1),
    pointAfter(curve, state.view.to) + 1,
  );

/** A curve's value at a time: that of the last sample before it. */
const valueAt = (curve, time) => curve[Math.max(0, pointAfter(curve, time) - 1)]?.[1] ?? 0;

const memoryIndices = () =>
  shown().filter((index) => {
    const { memory, floor } = facts.allocators[index];
    return memory.length && !floor;
  });

const overheads = new Map();
/** Resident bytes of an allocator over time, or resident minus live bytes. */
const memoryCurve = (index) => {
  const { memory } = facts.allocators[index];
  if (!state.overhead) return memory;
  if (!overheads.has(index)) {
    overheads.set(
      index,
      memory.map(([time, value]) => [time, Math.max(0, value - valueAt(facts.live, time))]),
    );
  }
  return overheads.get(index);
};
const highestOf = (curve) =>
  (curve.highest ??= curve.reduce((most, [, value]) => Math.max(most, value), 0));

const drawMemory = () => {
  const canvas = byId("memory");
  const { context, width, height } = fitCanvas(canvas);
  const indices = memoryIndices();
  const plot = (memoryPlot = {
    x: 60,
    y: 10,
    width: Math.max(10, width - 60 - nameMargin(context, indices, width)),
    height: height - 40,
  });
  const most =
    Math.max(
      1,
      state.overhead ? 0 : highestOf(facts.live),
      ...indices.map((index) => highestOf(memoryCurve(index))),
    ) * 1.04;
  const yOf = (value) => plot.y + plot.height * (1 - value / most);
  context.fillStyle = ink().plot;
  context.fillRect(plot.x, plot.y, plot.width, plot.height);
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (const tick of byteTicks(most, 5)) {
    context.fillStyle = ink().line;
    context.fillRect(plot.x, Math.round(yOf(tick)), plot.width, 1);
    context.fillStyle = ink().soft;
    context.fillText(bytes(tick), plot.x - 6, yOf(tick));
  }
  timeAxis(context, plot, state.view);
  context.save();
  context.beginPath();
  context.rect(plot.x, plot.y, plot.width, plot.height);
  context.clip();
  if (!state.overhead) drawLive(context, plot, yOf);
  const labels = indices.map((index) => drawResident(context, plot, yOf, index));
  if (state.cursor !== null) {
    context.fillStyle = ink().soft;
    context.fillRect(Math.round(xOfTime(plot, state.cursor)), plot.y, 1, plot.height);
  }
  context.restore();
  if (facts.live.length && !state.overhead) {
    labels.push({ y: yOf(valueAt(facts.live, state.view.to)), text: "live", colour: ink().soft });
  }
  endLabels(context, plot, labels);
  setLabel(
    canvas,
    "Resident memory over time. Peaks: " +
      indices
        .map(
          (index) =>
            `${facts.allocators[index].name} ${bytes(facts.allocators[index].figures.peak[0])}`,
        )
        .join(", "),
  );
};

const drawLive = (context, plot, yOf) => {
  const curve = within(facts.live);
  if (!curve.length) return;
  context.beginPath();
  context.moveTo(xOfTime(plot, curve[0][0]), yOf(0));
  curve.forEach(([time, value]) => context.lineTo(xOfTime(plot, time), yOf(value)));
  context.lineTo(
    xOfTime(plot, Math.max(curve[curve.length - 1][0], state.view.to)),
    yOf(curve[curve.length - 1][1]),
  );
  context.lineTo(xOfTime(plot, Math.max(curve[curve.length - 1][0], state.view.to)), yOf(0));
  context.fillStyle = ink().line;
  context.fill();
};

const drawResident = (context, plot, yOf, index) => {
  const { colour, dash, width } = styleOf(index);
  const curve = within(memoryCurve(index));
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.setLineDash(dash);
  context.lineJoin = "round";
  context.beginPath();
  curve.forEach(([time, value], at) =>
    context[at ? "lineTo" : "moveTo"](xOfTime(plot, time), yOf(value)),
  );
  if (curve.length) context.lineTo(plot.x + plot.width, yOf(curve[curve.length - 1][1]));
  context.stroke();
  context.setLineDash([]);
  return {
    y: yOf(valueAt(memoryCurve(index), state.view.to)),
    text: facts.allocators[index].name,
    colour,
  };
};

const showMemory = (event) => {
  const [x] = pointerPosition(byId("memory"), event);
  if (!memoryPlot || x < memoryPlot.x || x > memoryPlot.x + memoryPlot.width) {
    hideTip();
    return;
  }
  const time = timeAt(memoryPlot, x);
  setCursor(time);
  const one = (index) => facts.allocators[index];
  const rows = memoryIndices().map((index) => [valueAt(memoryCurve(index), time), one(index).name]);
  if (!state.overhead) rows.push([valueAt(facts.live, time), "live (requested by the program)"]);
  rows.sort((a, b) => b[0] - a[0]);
  showTip(event, [
    `at ${timestamp(time, state.view.to - state.view.from)}`,
    ...rows.map(([value, name]) => `${bytes(value)}  ${name}`),
  ]);
};

const listenMemory = () => {
  const canvas = byId("memory");
  if (facts.live.length) {
    byId("memory-toolbar").append(
      toggle(
        "Overhead only (resident minus live)",
        () => state.overhead,
        (overhead) => set({ overhead }),
      ),
    );
  }
  canvas.addEventListener("pointermove", showMemory);
  canvas.addEventListener("pointerleave", () => {
    hideTip();
    setCursor(null);
  });
  canvas.addEventListener("keydown", timeKeys);
  canvas.addEventListener("dblclick", showAll);
  canvas.addEventListener(
    "wheel",
    timeWheel(canvas, () => memoryPlot),
    { passive: false },
  );
};
