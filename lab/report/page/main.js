// Puts the page together.

const readTheme = () => {
  try {
    return localStorage.getItem("keel-theme");
  } catch {
    return null;
  } // some browsers bar it on file://
};
const setTheme = (theme, keep) => {
  document.documentElement.dataset.theme = theme;
  if (keep)
    try {
      localStorage.setItem("keel-theme", theme);
    } catch {
      /* shown, only not remembered */
    }
  byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
  byId("theme").setAttribute(
    "aria-label",
    `Switch to the ${theme === "dark" ? "light" : "dark"} theme`,
  );
  forgetInk();
  touch(["theme"]);
};
const setUpTheme = () => {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  setTheme(readTheme() ?? (system.matches ? "dark" : "light"), false);
  system.addEventListener("change", () => {
    if (!readTheme()) setTheme(system.matches ? "dark" : "light", false);
  });
  byId("theme").addEventListener("click", () => setTheme(dark() ? "light" : "dark", true));
};

/** One of several, as buttons. */
const choice = (label, options, get, put) => {
  const group = make("div", { class: "choice", role: "group", "aria-label": label });
  const mark = () =>
    group
      .querySelectorAll("button")
      .forEach((button, at) =>
        button.setAttribute("aria-pressed", String(options[at][0] === get())),
      );
  group.append(
    ...options.map(([value, text]) =>
      make("button", { type: "button", text, "data-value": value, onclick: () => put(value) }),
    ),
  );
  watch(["operation", "colour", "budget", "pieces", "folder"], mark);
  mark();
  return group;
};

const toggle = (text, get, put) => {
  const button = make("button", {
    type: "button",
    class: "toggle",
    text,
    onclick: () => put(!get()),
  });
  const mark = () => button.setAttribute("aria-pressed", String(get()));
  watch(["marks", "interrupted", "calm", "busiest", "overhead"], mark);
  mark();
  return button;
};

const chip = (index) => {
  const one = facts.allocators[index];
  const swatch = make("span", { class: "swatch" });
  const button = make(
    "button",
    {
      type: "button",
      class: "chip",
      "data-allocator": one.name,
      title: `Show or hide ${one.name}; double click for it alone`,
      onclick: () => {
        const next = new Set(state.shown);
        if (next.has(index)) next.delete(index);
        else next.add(index);
        if (next.size) set({ shown: next });
      },
      ondblclick: () => set({ shown: new Set([index]) }),
    },
    swatch,
    one.floor ? "null (floor)" : one.name,
  );
  const mark = () => {
    button.setAttribute("aria-pressed", String(state.shown.has(index)));
    swatch.style.background = lookOf(index).colour;
  };
  watch(["shown", "theme"], mark);
  mark();
  return button;
};

/** Two allocators to subtract from each other. */
const differencePicker = () => {
  const names = facts.allocators.flatMap((one, index) =>
    one.drawn_run ? [[index, one.name]] : [],
  );
  const pick = (label, which) =>
    make(
      "select",
      {
        "aria-label": label,
        onchange: (event) => {
          const pair = [...(state.difference ?? [-1, -1])];
          pair[which] = Number(event.target.value);
          // The first choice needs a second: the other end of the list of contenders.
          if (pair[1 - which] < 0)
            pair[1 - which] = contenders.find((index) => index !== pair[which]) ?? -1;
          set({ difference: pair.some((index) => index < 0) || pair[0] === pair[1] ? null : pair });
        },
      },
      make("option", { value: -1, text: "none" }),
      ...names.map(([index, name]) => make("option", { value: index, text: name })),
    );
  const selects = [pick("Difference: more calls of", 0), pick("Difference: than of", 1)];
  const mark = () =>
    selects.forEach((select, which) => {
      select.value = state.difference?.[which] ?? -1;
    });
  watch(["difference"], mark);
  mark();
  return make("span", { class: "pick" }, "Difference", selects[0], "−", selects[1]);
};

const setUpToolbar = () => {
  const quiet = (text, label, onclick) =>
    make("button", { type: "button", class: "quiet", text, "aria-label": label, onclick });
  const operations = facts.operations.map((name) => [name, name]);
  const reset = make("button", {
    type: "button",
    class: "quiet",
    id: "all",
    text: "Show all",
    onclick: lookAtAll,
  });
  watch(["view"], () => {
    const whole = state.view.to - state.view.from >= facts.span_ns;
    if (reset.disabled !== whole) reset.disabled = whole;
  });
  reset.disabled = true;
  byId("toolbar").append(
    choice(
      "Operation",
      operations,
      () => state.operation,
      (operation) => set({ operation }),
    ),
    choice(
      "Colour",
      [
        ["size", "by size"],
        ["cause", "by cause"],
        ...(facts.lanes.length > 1 ? [["thread", "by thread"]] : []),
      ],
      () => state.colour,
      (colour) => set({ colour }),
    ),
    toggle(
      "Slow calls",
      () => state.marks,
      (marks) => set({ marks }),
    ),
    contenders.length > 1 ? differencePicker() : "",
    make(
      "div",
      { class: "zooms" },
      quiet("−", "Zoom out", () => zoom(2)),
      quiet("+", "Zoom in", () => zoom(0.5)),
      reset,
    ),
    make(
      "div",
      { class: "chips", role: "group", "aria-label": "Allocators" },
      ...facts.allocators.flatMap((one, index) => (one.runs ? [chip(index)] : [])),
    ),
  );
};

const drawLegend = () => {
  const step = (text, hue) => {
    const bar = make("span", { class: "ramp" });
    const stops = Array.from({ length: 9 }, (_, at) => css(shade(hue, at / 8)));
    bar.style.background = `linear-gradient(90deg, ${stops.join(", ")})`;
    return make("span", { class: "key" }, bar, text);
  };
  const keys = {
    size: () =>
      [
        ["16 B", 4],
        ["128 B", 7],
        ["1 KiB", 10],
        ["8 KiB", 13],
        ["64 KiB", 16],
        ["1 MiB and more", 20],
      ].map(([text, log]) => step(text, sizeHue((log - SIZE_LOW) / (SIZE_HIGH - SIZE_LOW)))),
    cause: () => CAUSES.slice(0, 3).map((cause) => step(cause.words, cause.hue)),
    thread: () => facts.lanes.map((_, lane) => step(laneName(lane), laneHue(lane))),
  }[state.colour]();
  byId("legend").replaceChildren(
    make("span", { class: "legend-title", text: "one call → many" }),
    ...keys,
  );
};

const watchAll = () => {
  const box = byId("calls");
  if (!facts.columns)
    for (const part of ["toolbar", "panels", "legend"]) byId(part).hidden = part !== "toolbar";
  if (!facts.columns) box.querySelector(".overview").hidden = true;
  if (facts.columns) {
    watch(["operation", "shown", "theme", "difference"], drawPanels);
    watch(["view", "colour", "marks", "size"], redrawPanels);
    watch(["operation", "shown", "view", "theme", "size"], drawOverview, byId("overview"));
    watch(["cursor"], () =>
      visiblePanels()
        .filter((panel) => inSight.has(panel.figure))
        .forEach(drawOver),
    );
    watch(["colour", "theme"], drawLegend);
    watch(["shown", "view", "theme", "size", "cursor", "marks"], drawLanes, byId("lanes"));
    watch(["shown", "operation", "theme", "size"], drawPlanes);
    watch(["theme", "size"], drawLifetimes);
    watch(["shown", "view", "theme", "size", "cursor"], drawLateness, byId("lateness"));
  }
  watch(["operation", "shown", "theme", "size", "calm", "percentiles"], drawPercentiles);
  watch(["shown", "view", "theme", "size", "cursor", "overhead"], drawMemory, byId("memory"));
  watch(["shown", "theme"], drawCauses);
  watch(["theme", "calm"], drawTables);
  watch(["theme"], drawVerdict);
  watch(["theme"], drawGlance);
};

/** Paper is narrow, light and fine: everything is drawn anew for it, and back again afterwards. */
const setUpPaper = () => {
  let theme = "light";
  const draw = (paper) => {
    document.documentElement.toggleAttribute("data-paper", paper);
    setTheme(paper ? "light" : theme, false);
    touch(["size"]);
    flush();
  };
  window.addEventListener("beforeprint", () => {
    theme = document.documentElement.dataset.theme;
    draw(true);
  });
  window.addEventListener("afterprint", () => draw(false));
};

const start = async () => {
  painter = choosePainter();
  setUpTheme();
  setUpFacts();
  setUpFolders();
  setUpNotes();
  drawLede();
  setUpToolbar();
  watchAll();
  listenOverview();
  listenPercentiles();
  listenMemory();
  setUpStrips();
  setUpPairs();
  touch(["operation", "shown", "theme", "colour", "view"]);
  await loadAllFrames();
  setUpFrames();
  drawHitch();
  touch(["budget", "shown"]);
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return; // a phone's address bar changes the height alone
    width = window.innerWidth;
    touch(["size"]);
  });
  setUpPaper();
  if (!facts.columns) document.documentElement.dataset.ready = "true";
};
start();
