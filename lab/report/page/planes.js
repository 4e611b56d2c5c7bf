// Heat maps without a time axis: latency by block size, and lifetime by block size.

const PLANE = { left: 50, right: 8, top: 6, bottom: 24 };
const SIZE_AXIS = [0, 24]; // log2 of bytes

/** The cells of a plane as a dense image; `fold` rows of the plane become one row of the image. */
const planeImage = ({ at, counts }, rowsInColumn, [lowRow, highRow], fold) => {
  const steps = (SIZE_AXIS[1] - SIZE_AXIS[0]) * 4 + 1;
  const height = Math.ceil((highRow - lowRow) / fold);
  const cells = new Float64Array(steps * height);
  let [highest, unknown] = [1, 0];
  at.forEach((cell, index) => {
    const step = Math.floor(cell / rowsInColumn);
    if (step === 0) {
      unknown += counts[index];
      return;
    }
    const row = clamp(Math.floor(((cell % rowsInColumn) - lowRow) / fold), 0, height - 1);
    const place = (height - 1 - row) * steps + clamp(step - 1, 0, steps - 1);
    cells[place] += counts[index];
    highest = Math.max(highest, cells[place]);
  });
  return { cells, steps, height, highest, unknown };
};

const paintPlane = (context, plot, image) => {
  const pixels = new ImageData(image.steps, image.height);
  const into = new Uint32Array(pixels.data.buffer);
  const ramp = rampOf("size");
  const scale = (SHADES - 1) / Math.log2(image.highest + 1);
  image.cells.forEach((calls, at) => {
    if (!calls) return;
    const hue = hueOfStep((at % image.steps) + 1);
    into[at] = ramp[hue * SHADES + Math.min(SHADES - 1, Math.round(Math.log2(calls) * scale))];
  });
  const canvas = new OffscreenCanvas(image.steps, image.height);
  canvas.getContext("2d").putImageData(pixels, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(canvas, plot.x, plot.y, plot.width, plot.height);
};

const sizeAxis = (context, plot) => {
  context.textAlign = "center";
  context.textBaseline = "top";
  for (let log = 0; log <= SIZE_AXIS[1]; log += plot.width < 420 ? 8 : 4) {
    const x = plot.x + (plot.width * (log + 0.5 / 4)) / (SIZE_AXIS[1] + 0.25);
    context.fillStyle = ink().line;
    context.fillRect(Math.round(x), plot.y, 1, plot.height + 4);
    context.fillStyle = ink().soft;
    context.fillText(
      bytes(2 ** log),
      clamp(x, plot.x + 8, plot.x + plot.width - 18),
      plot.y + plot.height + 6,
    );
  }
};

const planeFrame = (canvas) => {
  const { context, width, height } = fitCanvas(canvas);
  const plot = {
    x: PLANE.left,
    y: PLANE.top,
    width: Math.max(10, width - PLANE.left - PLANE.right),
    height: height - PLANE.top - PLANE.bottom,
  };
  context.fillStyle = ink().plot;
  context.fillRect(plot.x, plot.y, plot.width, plot.height);
  return { context, plot };
};

const planeBoxes = new Map();
const planeBox = (index) => {
  if (!planeBoxes.has(index)) {
    const canvas = make("canvas", { role: "img" });
    const figure = make(
      "figure",
      { class: "panel" },
      make(
        "figcaption",
        {},
        make("span", { class: "swatch" }),
        make("b", { text: facts.allocators[index].name }),
        make("span", { class: "stats" }),
      ),
      make("div", { class: "plane" }, canvas),
    );
    canvas.addEventListener("pointermove", (event) => showPlaneCell(event, planeBoxes.get(index)));
    canvas.addEventListener("pointerleave", hideTip);
    planeBoxes.set(index, { figure, canvas });
  }
  return planeBoxes.get(index);
};

/** Draws latency by block size, one heat map for each allocator. */
const drawPlanes = async () => {
  const loaded = (
    await Promise.all(
      shown().map(async (index) => [index, await loadPlane(index, state.operation)]),
    )
  ).filter(([, plane]) => plane);
  byId("sizes-section").hidden = !loaded.length;
  byId("planes").replaceChildren(...loaded.map(([index]) => planeBox(index).figure));
  for (const [index, plane] of loaded) {
    const box = planeBox(index);
    const { context, plot } = planeFrame(box.canvas);
    const yOf = (ns) => plot.y + plot.height * (1 - (rowOfLatency(ns) - ROWS[0]) / rowCount);
    latencyAxis(context, plot, latencyOfRow(ROWS[0]), latencyOfRow(ROWS[1]), yOf);
    sizeAxis(context, plot);
    const image = planeImage(plane, facts.latency_rows, [ROWS[0], ROWS[1] + 1], 2);
    paintPlane(context, plot, image);
    Object.assign(box, { image, plot });
    box.figure.querySelector(".swatch").style.background = styleOf(index).colour;
    box.figure.querySelector(".stats").textContent = image.unknown
      ? `${count(image.unknown)} of unknown size`
      : "";
    box.canvas.setAttribute(
      "aria-label",
      `${facts.allocators[index].name}: latency of ${state.operation} by block size`,
    );
  }
};

const showPlaneCell = (event, { canvas, image, plot }) => {
  const [x, y] = pointerPosition(canvas, event);
  const step = Math.floor(((x - plot.x) / plot.width) * image.steps);
  const row = Math.floor(((y - plot.y) / plot.height) * image.height);
  const calls =
    step >= 0 && step < image.steps && row >= 0 ? image.cells[row * image.steps + step] : 0;
  if (!calls) {
    hideTip();
    return;
  }
  const low = latencyOfRow(ROWS[0] + (image.height - 1 - row) * 2);
  showTip(event, [
    `${calls.toLocaleString("en-US")} ${calls === 1 ? "call" : "calls"}`,
    `about ${bytes(2 ** (step / 4))}`,
    `${duration(low)} to ${duration(low * 2 ** (2 / facts.rows_per_octave))}`,
  ]);
};

/**
 * Draws lifetime by block size. It is a property of the program, the same under every allocator.
 */
const drawLifetimes = async () => {
  const plane = await loadLifetimes();
  byId("lifetimes-section").hidden = !plane;
  if (!plane) return;
  const octave = facts.lifetime_steps_per_octave;
  const high = Math.ceil(Math.log2(facts.span_ns)) * octave;
  const canvas = byId("lifetimes");
  const { context, plot } = planeFrame(canvas);
  const low = 5 * octave; // 32 ns
  const yOf = (ns) => plot.y + plot.height * (1 - (Math.log2(ns) * octave - low) / (high - low));
  latencyAxis(context, plot, 2 ** (low / octave), 2 ** (high / octave), yOf);
  sizeAxis(context, plot);
  paintPlane(context, plot, planeImage(plane, facts.lifetime_steps, [low, high], 1));
  const shares = new Float64Array(facts.lifetime_steps);
  plane.at.forEach((cell, at) => {
    shares[cell % facts.lifetime_steps] += plane.counts[at];
  });
  const [freed, kept] = facts.lifetimes;
  const within = (part) => {
    let sum = 0;
    const step = shares.findIndex((calls) => (sum += calls) >= freed * part);
    return duration(2 ** ((step + 1) / octave));
  };
  putText(
    "lifetimes-note",
    "Horizontal axis: block size. Vertical axis: lifetime, the time from allocation to free. " +
      `${count(freed)} blocks were freed: half of them within ${within(0.5)}, and 90 % within ` +
      `${within(0.9)}. ${count(kept)} blocks were never freed. Lifetimes are those of the ` +
      "recorded program, so they are the same with every allocator.",
  );
  canvas.setAttribute("aria-label", byId("lifetimes-note").textContent);
};
