// The flame graph of all call stacks: callers above, the calls within them below. The width of a
// call is its share of the chosen value.

const FLAME_ROW = 21;
// Narrower calls are not drawn.
const LEAST_WIDTH = 0.7;
const MATCHES_LISTED = 8;
const STACK_VALUES = {
  time: "time in calls",
  over: "time over the budget",
  slow: "slow calls",
  faults: "calls with page faults",
  bytes: "requested bytes",
  peak: "live at the peak",
  kept: "never freed",
  churn: "short-lived blocks",
  calls: "calls that allocate",
};
const STACK_FORMATS = { duration, bytes, count };

/** The totals and boxes that are drawn, and the box that the keyboard is at. */
const flame = { totals: null, boxes: [], pointed: null, matches: null, said: "" };

/** The index of the chosen column. */
const stackColumn = (name = state.stackValue) =>
  facts.stacks.columns.findIndex(
    (column) =>
      column.name === name &&
      (column.allocator === null || column.allocator === state.stackAllocator),
  );
const stackText = (column, value) => STACK_FORMATS[facts.stacks.columns[column].unit](value);

/** Each call with its box: the selected one and its callers are as wide as the graph. */
const layOut = (totals, width) => {
  const boxes = callsOfNode(state.stack)
    .reverse()
    .map((node, row) => ({ node, row: row + 1, x: 0, width }));
  boxes.unshift({ node: 0, row: 0, x: 0, width });
  const pending = [boxes[boxes.length - 1]];
  const scale = totals[state.stack] ? width / totals[state.stack] : 0;
  while (pending.length) {
    const { node, row, x } = pending.pop();
    let left = x;
    const inner = stacks.children[node].filter((child) => totals[child] * scale >= LEAST_WIDTH);
    inner.sort((a, b) => totals[b] - totals[a]);
    for (const child of inner) {
      const box = { node: child, row: row + 1, x: left, width: totals[child] * scale };
      left += box.width;
      boxes.push(box);
      pending.push(box);
    }
  }
  return boxes;
};

/** A colour for each module; functions that allocate for their callers are grey. */
const flameColour = (node) => {
  if (!node) return css(oklab(dark() ? 0.3 : 0.9, 0, 0));
  const frame = frameAt(node);
  const own = () => stacks.frames.filter((one) => !one.wrapper).map((one) => one.module);
  stacks.modules ??= [...new Set(own())];
  const hue = LANE_HUES[(stacks.modules.indexOf(frame.module) + 1) % LANE_HUES.length];
  const [a, b] = frame.wrapper ? [0, 0] : polar(hue, dark() ? 0.075 : 0.07);
  return css(oklab(dark() ? 0.38 : 0.87, a, b));
};

const nameOfNode = (node) => (node ? callText(frameAt(node)) : "all call stacks");

const drawBox = (context, box) => {
  const { node, row, x, width } = box;
  const y = row * FLAME_ROW;
  const inner = Math.max(LEAST_WIDTH, width - 1);
  const isMatch = flame.matches?.has(node);
  context.globalAlpha = flame.matches && !isMatch ? 0.45 : 1;
  context.fillStyle = flameColour(node);
  context.fillRect(x, y, inner, FLAME_ROW - 1);
  if (isMatch) {
    context.fillStyle = ink().accent;
    context.fillRect(x, y + FLAME_ROW - 4, inner, 3);
  }
  if (width > 26) {
    context.fillStyle = ink().text;
    context.fillText(clipText(context, nameOfNode(node), width - 10), x + 5, y + 10);
  }
  context.globalAlpha = 1;
};

const drawFlame = () => {
  if (!stacks) return;
  const canvas = byId("flame");
  const column = stackColumn();
  const range = state.stackRange ? partsInView() : [0, facts.stacks.parts];
  const totals = (flame.totals = stackTotals(column, range));
  flame.matches = drawMatches();
  flame.boxes = layOut(totals, canvas.clientWidth);
  const rows = Math.max(...flame.boxes.map((box) => box.row)) + 1;
  canvas.parentElement.style.height = `${rows * FLAME_ROW + 4}px`;
  const { context } = fitCanvas(canvas);
  context.textBaseline = "middle";
  context.textAlign = "left";
  flame.boxes.forEach((box) => drawBox(context, box));
  const pointed = flame.boxes.find((box) => box.node === flame.pointed);
  if (pointed) {
    context.strokeStyle = ink().text;
    context.lineWidth = 2;
    const [y, across] = [pointed.row * FLAME_ROW + 1, Math.max(1, pointed.width - 3)];
    context.strokeRect(pointed.x + 1, y, across, FLAME_ROW - 3);
  }
  byId("stacks-range").textContent = rangeText(range, totals, column);
  setLabel(
    canvas,
    `Flame graph of ${STACK_VALUES[state.stackValue]}: ${flameWords(state.stack)}. Arrow keys ` +
      "move between calls, Enter selects a call, Escape selects all.",
  );
};

const rangeText = ([from, to], totals, column) => {
  const { allocator } = facts.stacks.columns[column];
  const where = allocator === null ? "" : ` with ${facts.allocators[allocator].name}`;
  const title = STACK_VALUES[state.stackValue];
  const what = `${title[0].toUpperCase()}${title.slice(1)}${where}`;
  const { parts } = facts.stacks;
  const time = (part) => timestamp((part / parts) * facts.span_ns, facts.span_ns / parts);
  const when =
    from === 0 && to >= parts ? "the whole recording" : `${time(from)} to ${time(to)}`;
  return `${what}, ${when}: ${stackText(column, totals[0])}.`;
};

/** Name, value and share of a call. */
const flameWords = (node) => {
  const column = stackColumn();
  const value = flame.totals[node];
  const share = flame.totals[0] ? value / flame.totals[0] : 0;
  return `${nameOfNode(node)}: ${stackText(column, value)}, ${percent(share)}`;
};

const boxAt = (event) => {
  const [x, y] = pointerPosition(byId("flame"), event);
  const row = Math.floor(y / FLAME_ROW);
  return flame.boxes.find((box) => box.row === row && x >= box.x && x < box.x + box.width);
};

const showFlameTip = (event) => {
  const box = boxAt(event);
  if (!box) {
    hideTip();
    return;
  }
  const frame = box.node ? frameAt(box.node) : null;
  showTip(event, [
    frame ? frame.name : "all call stacks",
    ...(frame ? [joined([placeOf(frame), frame.module, frame.inlined && "inlined"])] : []),
    flameWords(box.node).slice(nameOfNode(box.node).length + 2),
  ]);
};

/** Moves the keyboard's box: up to the caller, down to the largest call, sideways in the row. */
const flameKeys = (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !stacks) return;
  const now = flame.boxes.find((box) => box.node === flame.pointed) ?? flame.boxes[0];
  const inRow = flame.boxes.filter((box) => box.row === now.row).sort((a, b) => a.x - b.x);
  const beside = (step) => inRow[inRow.indexOf(now) + step];
  const box = {
    ArrowUp: () => flame.boxes.find(({ node }) => now.node && node === stacks.parents[now.node]),
    ArrowDown: () =>
      flame.boxes.find(({ node, row }) => row === now.row + 1 && stacks.parents[node] === now.node),
    ArrowLeft: () => beside(-1),
    ArrowRight: () => beside(1),
  }[event.key];
  if (box) {
    flame.pointed = (box() ?? now).node;
    byId("stacks-status").textContent = flameWords(flame.pointed);
    drawFlame();
  } else if (event.key === "Enter") set({ stack: now.node });
  else if (event.key === "Escape") set({ stack: 0 });
  else return;
  event.preventDefault();
};

const setUpFlameCanvas = () => {
  const canvas = byId("flame");
  canvas.addEventListener("click", (event) => {
    const box = boxAt(event);
    if (box) set({ stack: box.node });
  });
  canvas.addEventListener("pointermove", (event) => {
    if (event.pointerType === "mouse") showFlameTip(event);
  });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("keydown", flameKeys);
  canvas.addEventListener("blur", () => {
    flame.pointed = null;
    drawFlame();
  });
};
