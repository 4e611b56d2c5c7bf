// Builds the page: theme, toolbar, legend, and the order in which the charts start.

const readTheme = () => {
  try {
    return localStorage.getItem("keel-theme");
  } catch {
    return null; // some browsers deny access for file:// pages
  }
};
const setTheme = (theme, keep) => {
  document.documentElement.dataset.theme = theme;
  if (keep)
    try {
      localStorage.setItem("keel-theme", theme);
    } catch {
      /* the theme is applied but not stored */
    }
  putText("theme", theme === "dark" ? "Light" : "Dark");
  byId("theme").setAttribute(
    "aria-label",
    `Switch to the ${theme === "dark" ? "light" : "dark"} theme`,
  );
  clearInk();
  invalidate(["theme"]);
};
const setUpTheme = () => {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  setTheme(readTheme() ?? (system.matches ? "dark" : "light"), false);
  system.addEventListener("change", () => {
    if (!readTheme()) setTheme(system.matches ? "dark" : "light", false);
  });
  byId("theme").addEventListener("click", () => setTheme(dark() ? "light" : "dark", true));
};

/** A group of buttons of which one is selected. */
const choice = (label, options, get, select) => {
  const group = make("div", { class: "choice", role: "group", "aria-label": label });
  const mark = () =>
    group
      .querySelectorAll("button")
      .forEach((button, at) =>
        button.setAttribute("aria-pressed", String(options[at][0] === get())),
      );
  group.append(
    ...options.map(([value, text]) =>
      make("button", { type: "button", text, "data-value": value, onclick: () => select(value) }),
    ),
  );
  watch(["operation", "colour", "budget", "periods", "comparison"], mark);
  mark();
  return group;
};

/** A button that switches an option on and off. */
const toggle = (text, get, change) => {
  const button = make("button", {
    type: "button",
    class: "toggle",
    text,
    onclick: () => change(!get()),
  });
  const mark = () => button.setAttribute("aria-pressed", String(get()));
  const keys = ["marks", "interrupted", "excludeInterrupted", "busiest", "overhead", "stackRange"];
  watch(keys, mark);
  mark();
  return button;
};

/** The button that shows or hides an allocator. */
const chip = (index) => {
  const one = facts.allocators[index];
  const swatch = make("span", { class: "swatch" });
  const button = make(
    "button",
    {
      type: "button",
      class: "chip",
      "data-allocator": one.name,
      title: `Show or hide ${one.name}; double-click to show only it`,
      onclick: () => {
        const next = new Set(state.shown);
        if (next.has(index)) next.delete(index);
        else next.add(index);
        if (next.size) set({ shown: next });
      },
      ondblclick: () => set({ shown: new Set([index]) }),
    },
    swatch,
    one.floor ? "null allocator" : one.name,
  );
  const mark = () => {
    button.setAttribute("aria-pressed", String(state.shown.has(index)));
    swatch.style.background = styleOf(index).colour;
  };
  watch(["shown", "theme"], mark);
  mark();
  return button;
};

/** Selects two allocators for the difference panel. */
const differencePicker = () => {
  const names = facts.allocators.flatMap((one, index) =>
    one.median_run ? [[index, one.name]] : [],
  );
  const pick = (label, which) =>
    make(
      "select",
      {
        "aria-label": label,
        onchange: (event) => {
          const pair = [...(state.difference ?? [-1, -1])];
          pair[which] = Number(event.target.value);
          // The first selection needs a second: use the first other allocator.
          if (pair[1 - which] < 0)
            pair[1 - which] = contenders.find((index) => index !== pair[which]) ?? -1;
          set({ difference: pair.some((index) => index < 0) || pair[0] === pair[1] ? null : pair });
        },
      },
      make("option", { value: -1, text: "none" }),
      ...names.map(([index, name]) => make("option", { value: index, text: name })),
    );
  const selects = [pick("Difference: first allocator", 0), pick("Difference: second allocator", 1)];
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
    onclick: showAll,
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
        ["1 MiB or more", 20],
      ].map(([text, log]) => step(text, sizeHue((log - SIZE_LOW) / (SIZE_HIGH - SIZE_LOW)))),
    cause: () => CAUSES.slice(0, 3).map((cause) => step(cause.label, cause.hue)),
    thread: () => facts.lanes.map((_, lane) => step(laneName(lane), laneHue(lane))),
  }[state.colour]();
  byId("legend").replaceChildren(
    make("span", { class: "legend-title", text: "one call → many calls" }),
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
    watch(["view", "colour", "marks", "size", "stack"], redrawPanels);
    watch(["operation", "shown", "view", "theme", "size"], drawOverview, byId("overview"));
    watch(["cursor"], () =>
      visiblePanels()
        .filter((panel) => onScreen.has(panel.figure))
        .forEach(drawOverlay),
    );
    watch(["colour", "theme"], drawLegend);
    watch(["shown", "view", "theme", "size", "cursor", "marks"], drawLanes, byId("lanes"));
    watch(["shown", "operation", "theme", "size"], drawPlanes);
    watch(["theme", "size"], drawLifetimes);
    watch(["shown", "view", "theme", "size", "cursor"], drawLateness, byId("lateness"));
  }
  watch(
    ["operation", "shown", "theme", "size", "excludeInterrupted", "percentiles"],
    drawPercentiles,
  );
  watch(["shown", "view", "theme", "size", "cursor", "overhead"], drawMemory, byId("memory"));
  watch(["shown", "theme", "stack"], drawCauses);
  watch(["theme", "excludeInterrupted"], drawTables);
  watch(["theme"], drawVerdict);
  watch(["theme"], drawGlance);
  watch(["theme"], drawPicture);
};

/** Redraws the charts for print (light theme, width of the paper) and back again afterwards. */
const setUpPrinting = () => {
  let theme = "light";
  const draw = (print) => {
    document.documentElement.toggleAttribute("data-print", print);
    setTheme(print ? "light" : theme, false);
    invalidate(["size"]);
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
  setUpComparisons();
  setUpNotes();
  setUpContents();
  drawWorkload();
  setUpToolbar();
  watchAll();
  listenOverview();
  listenPercentiles();
  listenMemory();
  setUpStrips();
  setUpPairs();
  setUpCallSites();
  setUpPinned();
  await setUpStacks();
  invalidate(["operation", "shown", "theme", "colour", "view"]);
  await loadAllFrames();
  setUpFrames();
  invalidate(["budget", "shown"]);
  await Promise.all([drawHitches(), drawWorstFrame()]);
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return; // a phone's address bar changes only the height
    width = window.innerWidth;
    invalidate(["size"]);
  });
  setUpPrinting();
  if (!facts.columns) document.documentElement.dataset.ready = "true";
  // After everything above the parts that a link can name has its height.
  requestAnimationFrame(() => {
    keepShort();
    followLink();
  });
};
start();
