// Pointer and keyboard input on the time charts: drag to zoom, pinch, wheel, arrow keys. A vertical
// swipe with one finger scrolls the page.

const pointerPosition = (canvas, event) => {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};

/** Keys of every time chart. Returns whether the key was used. */
const timeKeys = (event) => {
  const act = {
    ArrowLeft: () => pan(-0.15),
    ArrowRight: () => pan(0.15),
    "+": () => zoom(0.5),
    "=": () => zoom(0.5),
    "-": () => zoom(2),
    0: showAll,
    Home: showAll,
    Escape: showAll,
  }[event.key];
  if (!act || event.ctrlKey || event.metaKey || event.altKey) return false;
  event.preventDefault();
  act();
  return true;
};

/** Ctrl + wheel zooms; Shift + wheel and sideways scrolling pan; a plain wheel scrolls the page. */
const timeWheel = (canvas, plotOfCanvas) => (event) => {
  const plot = plotOfCanvas();
  if (!plot) return;
  if (event.ctrlKey || event.metaKey) {
    event.preventDefault();
    zoom(
      2 ** (clamp(event.deltaY, -120, 120) / 120),
      timeAt(plot, pointerPosition(canvas, event)[0]),
    );
  } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    event.preventDefault();
    pan((event.shiftKey ? event.deltaX + event.deltaY : event.deltaX) / plot.width);
  }
};

const setCursor = (time) => {
  if (time !== state.cursor) set({ cursor: time });
};

const pointAt = async (panel, event) => {
  const [x, y] = pointerPosition(panel.canvas, event);
  const { plot } = panel;
  if (!plot || x < plot.x || x > plot.x + plot.width || y > plot.y + plot.height) {
    leave(panel);
    return;
  }
  panel.pointed = nearestMark(panel, x, y);
  setCursor(timeAt(plot, x));
  drawOverlay(panel);
  if (panel.pointed === undefined) {
    const words = cellLines(panel, x, y);
    if (words) showTip(event, words);
    else hideTip();
    return;
  }
  showTip(
    event,
    markLines("", panel.outliers, panel.pointed, frameOf(panel.outliers.time[panel.pointed])),
  );
};

const leave = (panel) => {
  panel.pointed = undefined;
  hideTip();
  setCursor(null);
  drawOverlay(panel);
};

/** Pinch: the times under the two fingers stay under them. */
const pinch = (panel, pointers) => {
  const now = [...pointers.values()].map((pointer) => pointer.x);
  const { plot } = panel;
  const start = (panel.pinch ??= { times: now.map((x) => timeAt(plot, x)) });
  const [left, right] = now[0] < now[1] ? [0, 1] : [1, 0];
  const spanPerPixel =
    (start.times[right] - start.times[left]) / Math.max(8, now[right] - now[left]);
  if (spanPerPixel <= 0) return;
  const from = start.times[left] - (now[left] - plot.x) * spanPerPixel;
  setView(from, from + spanPerPixel * plot.width);
};

const listen = (panel) => {
  const { canvas } = panel;
  const pointers = new Map();
  const end = (event) => {
    const pointer = pointers.get(event.pointerId);
    pointers.delete(event.pointerId);
    if (pointer && !pointer.moved && event.type === "pointerup")
      pinAt(panel, ...pointerPosition(canvas, event));
    if (pointers.size < 2) panel.pinch = undefined;
    if (!panel.brush) return;
    const [from, to] = [Math.min(...panel.brush), Math.max(...panel.brush)];
    panel.brush = undefined;
    if (to - from > 5) setView(timeAt(panel.plot, from), timeAt(panel.plot, to));
    drawOverlay(panel);
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !panel.plot) return;
    const [x] = pointerPosition(canvas, event);
    pointers.set(event.pointerId, { x, from: x, moved: false });
    canvas.setPointerCapture(event.pointerId);
    if (event.pointerType === "mouse") panel.brush = [x, x];
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x] = pointerPosition(canvas, event);
    const pointer = pointers.get(event.pointerId);
    if (pointer && Math.abs(x - pointer.from) > 4) pointer.moved = true;
    if (pointer && event.pointerType !== "mouse") {
      const before = pointer.x;
      pointer.x = x;
      if (pointers.size === 2) pinch(panel, pointers);
      else pan((before - x) / panel.plot.width);
      return;
    }
    if (panel.brush) {
      panel.brush[1] = clamp(x, panel.plot.x, panel.plot.x + panel.plot.width);
      hideTip();
      drawOverlay(panel);
      return;
    }
    pointAt(panel, event);
  });
  canvas.addEventListener("pointerup", end);
  canvas.addEventListener("pointercancel", end);
  canvas.addEventListener("pointerleave", () => leave(panel));
  canvas.addEventListener("dblclick", showAll);
  canvas.addEventListener(
    "wheel",
    timeWheel(canvas, () => panel.plot),
    { passive: false },
  );
  canvas.addEventListener("keydown", (event) => {
    if (!timeKeys(event)) markKeys(panel, event);
  });
  canvas.addEventListener("blur", () => leave(panel));
};

/** n and p go to the next and previous slow call in view; Enter opens its details. */
const markKeys = (panel, event) => {
  if (event.key === "Enter" && panel.pointed !== undefined)
    pin(panel.index, panel.outliers, panel.pointed);
  const step = { n: 1, p: -1 }[event.key];
  if (!step || !panel.marks?.length) return;
  event.preventDefault();
  const now = panel.marks.indexOf(panel.pointed);
  const next =
    now < 0
      ? step > 0
        ? 0
        : panel.marks.length - 1
      : clamp(now + step, 0, panel.marks.length - 1);
  panel.pointed = panel.marks[next];
  drawOverlay(panel);
  const box = panel.canvas.getBoundingClientRect();
  const { outliers, pointed } = panel;
  showTip(
    {
      clientX: box.left + xOfTime(panel.plot, outliers.time[pointed]),
      clientY: box.top + yOfLatency(panel.plot, outliers.latency[pointed]),
    },
    markLines("", outliers, pointed, frameOf(outliers.time[pointed])),
  );
};

/** The overview: dragging the window pans; dragging elsewhere selects a new window. */
const listenOverview = () => {
  const canvas = byId("overview");
  let drag = null;
  const time = (event) => {
    const width = canvas.clientWidth - PANEL.left - PANEL.right;
    return clamp((pointerPosition(canvas, event)[0] - PANEL.left) / width, 0, 1) * facts.span_ns;
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    const at = time(event);
    const whole = state.view.to - state.view.from >= facts.span_ns * 0.999;
    const inside = !whole && at >= state.view.from && at <= state.view.to;
    drag = { at, inside, from: state.view.from, to: state.view.to };
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const now = time(event);
    if (drag.inside) {
      const by = clamp(now - drag.at, -drag.from, facts.span_ns - drag.to);
      setView(drag.from + by, drag.to + by);
    } else if (Math.abs(now - drag.at) > facts.span_ns * 0.004)
      setView(Math.min(now, drag.at), Math.max(now, drag.at));
  });
  const end = () => {
    drag = null;
  };
  canvas.addEventListener("pointerup", end);
  canvas.addEventListener("pointercancel", end);
  canvas.addEventListener("dblclick", showAll);
  canvas.addEventListener("keydown", timeKeys);
  canvas.setAttribute(
    "aria-label",
    "Calls over the whole recording. Arrow keys pan, plus and minus zoom, 0 shows all.",
  );
};
