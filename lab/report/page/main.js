// Puts the page together.

const readTheme = () => {
  try { return localStorage.getItem("keel-theme"); } catch { return null; } // some browsers bar it on file://
};
const setTheme = (theme, keep) => {
  document.documentElement.dataset.theme = theme;
  if (keep) try { localStorage.setItem("keel-theme", theme); } catch { /* shown, only not remembered */ }
  byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", `Switch to the ${theme === "dark" ? "light" : "dark"} theme`);
  forgetInk();
  touch(["theme"]);
};
const setUpTheme = () => {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  setTheme(readTheme() ?? (system.matches ? "dark" : "light"), false);
  system.addEventListener("change", () => { if (!readTheme()) setTheme(system.matches ? "dark" : "light", false); });
  byId("theme").addEventListener("click", () => setTheme(dark() ? "light" : "dark", true));
};

/** One of several, as buttons. */
const choice = (label, options, get, put) => {
  const group = make("div", { class: "choice", role: "group", "aria-label": label });
  const mark = () => group.querySelectorAll("button").forEach((button, at) =>
    button.setAttribute("aria-pressed", String(options[at][0] === get())));
  group.append(...options.map(([value, text]) => make("button", { type: "button", text, "data-value": value, onclick: () => put(value) })));
  watch(["operation", "colour", "budget"], mark);
  mark();
  return group;
};

const toggle = (text, get, put) => {
  const button = make("button", { type: "button", class: "toggle", text, onclick: () => put(!get()) });
  const mark = () => button.setAttribute("aria-pressed", String(get()));
  watch(["marks", "interrupted", "calm"], mark);
  mark();
  return button;
};

const chip = (index) => {
  const one = facts.allocators[index];
  const swatch = make("span", { class: "swatch" });
  const button = make("button", {
    type: "button", class: "chip", "data-allocator": one.name, title: `Show or hide ${one.name}; double click for it alone`,
    onclick: () => {
      const next = new Set(state.shown);
      if (next.has(index)) next.delete(index); else next.add(index);
      if (next.size) set({ shown: next });
    },
    ondblclick: () => set({ shown: new Set([index]) }),
  }, swatch, one.floor ? "null (floor)" : one.name);
  const mark = () => {
    button.setAttribute("aria-pressed", String(state.shown.has(index)));
    swatch.style.background = lookOf(index).colour;
  };
  watch(["shown", "theme"], mark);
  mark();
  return button;
};

const setUpToolbar = () => {
  const reset = make("button", { type: "button", class: "quiet", id: "all", text: "Show all", onclick: lookAtAll });
  watch(["view"], () => { reset.disabled = state.view.to - state.view.from >= facts.span_ns; });
  reset.disabled = true;
  byId("toolbar").append(
    choice("Operation", facts.operations.map((name) => [name, name]), () => state.operation, (operation) => set({ operation })),
    choice("Colour", [["size", "by size"], ["cause", "by cause"]], () => state.colour, (colour) => set({ colour })),
    toggle("Slow calls", () => state.marks, (marks) => set({ marks })),
    make("div", { class: "zooms" }, make("button", { type: "button", class: "quiet", text: "−", "aria-label": "Zoom out", onclick: () => zoom(2) }),
      make("button", { type: "button", class: "quiet", text: "+", "aria-label": "Zoom in", onclick: () => zoom(0.5) }), reset),
    make("div", { class: "chips", role: "group", "aria-label": "Allocators" },
      ...facts.allocators.flatMap((one, index) => (one.runs ? [chip(index)] : []))));
};

const drawLegend = () => {
  const step = (text, hue) => {
    const bar = make("span", { class: "ramp" });
    const stops = Array.from({ length: 9 }, (_, at) => css(shade(hue, at / 8)));
    bar.style.background = `linear-gradient(90deg, ${stops.join(", ")})`;
    return make("span", { class: "key" }, bar, text);
  };
  const keys = state.colour === "size"
    ? [["16 B", 4], ["128 B", 7], ["1 KiB", 10], ["8 KiB", 13], ["64 KiB", 16], ["1 MiB and more", 20]]
      .map(([text, log]) => step(text, sizeHue((log - SIZE_LOW) / (SIZE_HIGH - SIZE_LOW))))
    : CAUSES.slice(0, 3).map((cause) => step(cause.words, cause.hue));
  byId("legend").replaceChildren(make("span", { class: "legend-title", text: "one call → many" }), ...keys);
};

const setUpNotes = () => {
  const drawn = facts.allocators.filter((one) => one.drawn_run);
  const calls = drawn.length ? drawn[0].calls : 0;
  byId("calls-note").textContent = facts.columns
    ? `All ${calls.toLocaleString("en-US")} calls of each allocator's median run are counted here, none sampled. Across: the moment in the program. ` +
      "Up: how long the call took. Dots: the slowest calls; each call above p99.9 tells its size, thread and cause when pointed at. Drag to zoom, double-click for all; Ctrl + wheel or + and − zoom, arrows pan."
    : "The raw rows of this comparison were not kept, so single calls cannot be drawn; the figures below are complete.";
  byId("percentiles-note").textContent = "Each step to the right is ten times rarer, up to the worst call of all. Lines are medians over runs, " +
    "shading their range. The dashed grey line is the floor: the same replay with no allocator at all.";
  byId("memory-note").textContent = "Resident memory that each allocator held in its drawn run, and as a grey area the bytes that the program had asked for and not yet freed.";
  byId("causes-note").textContent = "Calls above p99.9 of their operation in each allocator's drawn run, by what was seen to happen during them.";
  byId("table-note").textContent = "Median over runs, the range beneath. Bold where no other allocator's runs overlap with those of the group in bold. " +
    "A dash: fewer than ten calls lie above that percentile. A click on a heading sorts.";
};

const factRows = () => {
  const { machine, settings, journal, clock } = facts;
  const operations = Object.entries(journal.operations).map(([name, calls]) => `${name} ${count(calls)}`).join(" · ");
  const skipped = Object.entries(journal.skipped).map(([name, calls]) => `${name} ${count(calls)}`).join(" · ");
  return [
    ["Journal", [journal.name, journal.program && journal.program !== journal.name ? journal.program : ""].filter(Boolean).join(" · ")],
    ["Operations", operations], ["Not replayed", skipped],
    ["Recorded", `${duration(journal.duration_ns)} · ${journal.threads} ${journal.threads === 1 ? "thread" : "threads"} · ` +
      `${count(journal.cross_thread_frees)} frees by another thread than the allocating one`],
    ["Live at most", `${bytes(journal.peak_live_bytes)} in ${count(journal.peak_live_objects)} objects; ${bytes(journal.total_bytes)} asked for in all`],
    ["Replayed", [`pace ${settings.pace}`, `touch ${settings.touch}${settings.touch_timed ? ", timed" : ""}`,
      `${settings.runs} runs each, interleaved`, settings.serial ? "all on one thread" : "real threads"].join(" · ")],
    ["Machine", [machine.cpu, `${machine.cpus} CPUs`, bytes(machine.memory_bytes), machine.kernel, machine.libc,
      machine.huge_pages && `huge pages ${machine.huge_pages}`, machine.governor, machine.hypervisor && `under ${machine.hypervisor}`]
      .filter(Boolean).join(" · ")],
    ["Clock", `${clock.name}, ${clock.ticks_per_ns.toPrecision(4)} ticks/ns` + (clock.empty_pair.length
      ? `; counts in steps of ${duration(clock.step_ns)}; an empty pair of readings takes ${duration(clock.empty_pair[0])} (p50), ${duration(clock.empty_pair[1])} (p99), ` +
        `${duration(clock.empty_pair[2])} (p99.9), which every latency here includes` : "")],
    ["Command", settings.command.join(" ")], ["Measured", [facts.started, facts.keel_version && `keel ${facts.keel_version}`].filter(Boolean).join(" · ")],
  ].filter(([, text]) => text);
};

const setUpFacts = () => {
  byId("journal").textContent = facts.journal.name;
  byId("facts-list").append(...factRows().flatMap(([name, text]) => [make("dt", { text: name }), make("dd", { text })]));
  byId("footer").textContent = `Made by keel ${facts.keel_version}. This file holds all of its data and loads nothing.`;
  byId("memory-section").hidden = !facts.allocators.some((one) => one.memory.length);
};

const watchAll = () => {
  const box = byId("calls");
  if (!facts.columns) for (const part of ["toolbar", "panels", "legend"]) byId(part).hidden = part !== "toolbar";
  if (!facts.columns) box.querySelector(".overview").hidden = true;
  if (facts.columns) {
    watch(["operation", "shown", "theme"], drawPanels);
    watch(["view", "colour", "marks", "size"], redrawPanels);
    watch(["operation", "shown", "view", "theme", "size"], drawOverview);
    watch(["cursor"], () => shown().forEach((index) => panels.get(index) && drawOver(panels.get(index))));
    watch(["colour", "theme"], drawLegend);
  }
  watch(["operation", "shown", "theme", "size", "calm", "percentiles"], drawPercentiles);
  watch(["shown", "view", "theme", "size", "cursor"], drawMemory);
  watch(["shown", "theme"], drawCauses);
  watch(["theme", "calm"], drawTables);
  watch(["theme"], drawVerdict);
};

const start = async () => {
  setUpTheme();
  setUpFacts();
  setUpNotes();
  drawLede();
  setUpToolbar();
  watchAll();
  listenOverview();
  listenPercentiles();
  listenMemory();
  touch(["operation", "shown", "theme", "colour", "view"]);
  await loadAllFrames();
  setUpFrames();
  touch(["budget", "shown"]);
  let width = window.innerWidth;
  window.addEventListener("resize", () => { if (window.innerWidth !== width) { width = window.innerWidth; touch(["size"]); } });
  window.addEventListener("beforeprint", () => { setTheme("light", false); flush(); });
  if (!facts.columns) document.documentElement.dataset.ready = "true";
};
start();
