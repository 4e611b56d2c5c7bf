// The state of the page, and the functions that redraw when it changes.

const contenders = facts.allocators.flatMap((one, index) =>
  one.floor || !one.runs ? [] : [index],
);

/** What is set, if a row is the program's allocator with settings: `GLIBC_TUNABLES=...`. */
const settingOf = (index) => facts.verdict.settings.find((one) => one.index === index)?.text;

const state = {
  operation: facts.verdict.operation, // the operation that the verdict judges
  colour: "size",
  marks: true,
  shown: new Set(contenders.length ? contenders : facts.allocators.map((_, index) => index)),
  view: { from: 0, to: facts.span_ns },
  cursor: null, // time under the pointer, shared by all time charts
  difference: null, // indices of two allocators; the second is subtracted from the first
  pair: null, // indices of the two allocators in the table of two
  overhead: false, // memory: resident minus live bytes
  periods: facts.frame_count ? "frames" : "windows",
  budget: facts.frame_count ? 1e9 / 60 : 2e6,
  busiest: false, // frames: only the thread that spent most time in calls
  interrupted: true, // frames: include calls that were only preempted
  siteValue: 0, // call sites: index into SITE_VALUES
  stack: 0, // selected call of the flame graph; 0 for all
  stackValue: "time", // value of the flame graph: a key of STACK_VALUES
  stackAllocator: 0,
  stackRange: true, // flame graph: only the time range in view
  stackSearch: "",
  excludeInterrupted: false, // percentiles and tables: exclude them
};

// Charts that are on the screen. A gesture redraws only these for each frame; the others are
// redrawn after the input pauses.
const onScreen = new Set();
const visibility = new IntersectionObserver((entries) =>
  entries.forEach((entry) => onScreen[entry.isIntersecting ? "add" : "delete"](entry.target)),
);
const GESTURE_KEYS = new Set(["view", "cursor"]);
const PAUSE_MS = 80;

const watchers = [];
/** Calls `draw` at the next frame after one of `keys` changes. `element` is the chart it draws. */
const watch = (keys, draw, element = null) => {
  watchers.push({ keys, draw, element, due: false });
  if (element) visibility.observe(element);
};

// Drawing that a gesture deferred, by key. The root element has `data-moving` until all of it is
// done.
const deferred = new Map();
let pauseTimer = 0;
/** Draws after the input pauses. A second call with the same `key` replaces the first. */
const defer = (key, draw) => {
  deferred.set(key, draw);
  document.documentElement.toggleAttribute("data-moving", true);
  clearTimeout(pauseTimer);
  pauseTimer = setTimeout(runDeferred, PAUSE_MS);
};

/** Runs one task at a time, so that new input waits for at most one. */
const runDeferred = () => {
  for (const [key, draw] of deferred) {
    deferred.delete(key);
    draw();
    break;
  }
  if (deferred.size) pauseTimer = setTimeout(runDeferred, 0);
  else document.documentElement.toggleAttribute("data-moving", false);
};

let scheduled = false;
const flush = () => {
  scheduled = false;
  for (const watcher of watchers) {
    if (!watcher.due) continue;
    const gesture = watcher.due === "gesture";
    watcher.due = false;
    if (gesture && watcher.element && !onScreen.has(watcher.element)) {
      defer(watcher, () => watcher.draw(false));
    } else {
      deferred.delete(watcher);
      watcher.draw(gesture);
    }
  }
};

const invalidate = (keys) => {
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
  invalidate(Object.keys(changes));
};

/** Shows from..to of the journal: at least 1 µs, and within the recording. */
const setView = (from, to) => {
  const span = clamp(to - from, Math.min(1000, facts.span_ns), facts.span_ns);
  const start = clamp((from + to - span) / 2, 0, facts.span_ns - span);
  set({ view: { from: start, to: start + span } });
};
const zoom = (factor, about = (state.view.from + state.view.to) / 2) =>
  setView(about - (about - state.view.from) * factor, about + (state.view.to - about) * factor);
const pan = (share) => {
  const by = clamp(
    (state.view.to - state.view.from) * share,
    -state.view.from,
    facts.span_ns - state.view.to,
  );
  setView(state.view.from + by, state.view.to + by);
};
const showAll = () => setView(0, facts.span_ns);
const shown = () => [...state.shown].sort((a, b) => a - b);
