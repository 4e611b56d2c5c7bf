// What is shown, and who redraws when that changes.

const contenders = facts.allocators.flatMap((one, index) =>
  one.floor || !one.runs ? [] : [index],
);

const state = {
  operation: facts.verdict.operation, // of which the verdict speaks
  colour: "size",
  marks: true,
  shown: new Set(contenders.length ? contenders : facts.allocators.map((_, index) => index)),
  view: { from: 0, to: facts.span_ns },
  cursor: null, // moment under the pointer, in all time charts
  difference: null, // indices of two allocators, the first less the second
  pair: null, // indices of two allocators, side by side in a table
  overhead: false, // memory: what is resident beyond the live bytes
  pieces: facts.frame_count ? "frames" : "windows",
  budget: facts.frame_count ? 1e9 / 60 : 2e6,
  busiest: false, // in frames, only the thread that spent most in calls
  interrupted: true,
  calm: false, // figures without the calls that the system interrupted
};

// Charts that a reader can see now. Gestures redraw these alone, frame by frame; the others follow when hands rest.
const inSight = new Set();
const sight = new IntersectionObserver((entries) =>
  entries.forEach((entry) => inSight[entry.isIntersecting ? "add" : "delete"](entry.target)),
);
const GESTURE_KEYS = new Set(["view", "cursor"]);
const REST_MS = 80;

const watchers = [];
/** Calls `draw` at the next frame after one of `keys` has changed; `element` is where it draws. */
const watch = (keys, draw, element = null) => {
  watchers.push({ keys, draw, element, due: false });
  if (element) sight.observe(element);
};

// What a gesture put off, by who asked for it. The page's root has `data-moving` until all of it is done.
const putOff = new Map();
let rest = 0;
/** Draws once hands rest; the same `key` once only. */
const later = (key, draw) => {
  putOff.set(key, draw);
  document.documentElement.toggleAttribute("data-moving", true);
  clearTimeout(rest);
  rest = setTimeout(catchUp, REST_MS);
};

/** One task at a time, so that a hand that moves again waits for no more than that one. */
const catchUp = () => {
  for (const [key, draw] of putOff) {
    putOff.delete(key);
    draw();
    break;
  }
  if (putOff.size) rest = setTimeout(catchUp, 0);
  else document.documentElement.toggleAttribute("data-moving", false);
};

let scheduled = false;
const flush = () => {
  scheduled = false;
  for (const watcher of watchers) {
    if (!watcher.due) continue;
    const gesture = watcher.due === "gesture";
    watcher.due = false;
    if (gesture && watcher.element && !inSight.has(watcher.element)) {
      later(watcher, () => watcher.draw(false));
    } else {
      putOff.delete(watcher);
      watcher.draw(gesture);
    }
  }
};

const touch = (keys) => {
  const gesture = keys.every((key) => GESTURE_KEYS.has(key));
  for (const watcher of watchers) {
    if (keys.some((key) => watcher.keys.includes(key)))
      watcher.due = gesture ? watcher.due || "gesture" : "now";
  }
  if (!scheduled) {
    scheduled = true;
    requestAnimationFrame(flush);
  }
};

const set = (changes) => {
  Object.assign(state, changes);
  touch(Object.keys(changes));
};

/** Shows from..to of the journal, at least a microsecond and never outside. */
const look = (from, to) => {
  const span = clamp(to - from, Math.min(1000, facts.span_ns), facts.span_ns);
  const start = clamp((from + to - span) / 2, 0, facts.span_ns - span);
  set({ view: { from: start, to: start + span } });
};
const zoom = (factor, about = (state.view.from + state.view.to) / 2) =>
  look(about - (about - state.view.from) * factor, about + (state.view.to - about) * factor);
const pan = (share) => {
  const by = clamp(
    (state.view.to - state.view.from) * share,
    -state.view.from,
    facts.span_ns - state.view.to,
  );
  look(state.view.from + by, state.view.to + by);
};
const lookAtAll = () => look(0, facts.span_ns);
const shown = () => [...state.shown].sort((a, b) => a - b);
