// The tools around the flame graph: values, search, and the details of the selected call.

/** The slowest call whose stack passes through the selected call, on any shown allocator. */
const slowestThrough = async () => {
  const loaded = await Promise.all(
    shown().map(async (index) => [index, await loadOutliers(index)]),
  );
  let found = null;
  for (const [index, outliers] of loaded) {
    const at = outliers?.slowestFirst.find((one) => passesStack(outliers, one));
    if (at !== undefined && (!found || outliers.latency[at] > found.outliers.latency[found.at]))
      found = { index, outliers, at };
  }
  return found;
};

/** All values of the selected call, each with its share of the program's. */
const valuesOfCall = (node) => {
  const range = state.stackRange ? partsInView() : [0, facts.stacks.parts];
  const rows = Object.entries(STACK_VALUES).flatMap(([name, title]) => {
    const column = stackColumn(name);
    if (column < 0) return [];
    const totals = stackTotals(column, range);
    if (!totals[0]) return [];
    const text = `${stackText(column, totals[node])} (${percent(totals[node] / totals[0])})`;
    return [make("dt", { text: title }), make("dd", { text })];
  });
  return make("dl", { class: "facts" }, ...rows);
};

/** The details of the selected call; hidden if none is selected. */
const drawStackDetail = async () => {
  const box = byId("stack-detail");
  const node = state.stack;
  byId("stack-filter").hidden = !node;
  if (!stacks || !node) {
    box.hidden = true;
    return;
  }
  const button = (text, onclick) =>
    make("button", { type: "button", class: "quiet", text, onclick });
  const slowest = await slowestThrough();
  if (state.stack !== node) return;
  const longest = slowest?.outliers.latency[slowest.at];
  const show = slowest && (() => showCall(slowest.index, slowest.outliers, slowest.at));
  const site = siteOf(node);
  const calls = callsOfNode(node).map((call) => stackItem(call, site));
  box.replaceChildren(
    make(
      "div",
      { class: "detail-head" },
      make("h3", { text: callText(frameAt(node)) }),
      show ? button(`Show its slowest call, ${duration(longest)}`, show) : null,
      button("All stacks", () => set({ stack: 0 })),
    ),
    valuesOfCall(node),
    make("ol", { class: "calls-of-stack" }, ...calls),
  );
  byId("stack-filter").textContent = `Only slow calls through ${frameAt(node).name} ×`;
  box.hidden = false;
};

/** The nodes whose function or file contains the text, and the functions by value. */
const searchStacks = (text) => {
  const wanted = text.trim().toLowerCase();
  if (!wanted || !stacks) return null;
  const isMatch = stacks.frames.map((frame) =>
    `${frame.name}\n${frame.file}`.toLowerCase().includes(wanted),
  );
  const nodes = new Set();
  const functions = new Map();
  let total = 0;
  // The end of the last match: calls within a match belong to it, and are counted once.
  let end = 0;
  for (let node = 1; node < stacks.nodes; node += 1) {
    if (!isMatch[stacks.names[node]]) continue;
    nodes.add(node);
    if (node >= end) {
      total += flame.totals[node];
      end = stacks.ends[node];
    }
    const { name } = frameAt(node);
    const best = functions.get(name);
    if (best === undefined || flame.totals[node] > flame.totals[best]) functions.set(name, node);
  }
  return { nodes, functions, total };
};

/** Lists the functions that the search found. Returns the nodes of their calls, or null. */
const drawMatches = () => {
  const found = searchStacks(state.stackSearch);
  const list = byId("stack-matches");
  list.hidden = !found;
  if (!found) return null;
  const best = [...found.functions.values()].sort((a, b) => flame.totals[b] - flame.totals[a]);
  const share = flame.totals[0] ? found.total / flame.totals[0] : 0;
  const words = `${pluralize(best.length, "function", "functions")}, ${percent(share)}`;
  const said = `Found: ${words} of ${STACK_VALUES[state.stackValue]}.`;
  // Repeated words would hide those about the call that the keyboard is at.
  if (said !== flame.said) byId("stacks-status").textContent = flame.said = said;
  list.replaceChildren(
    make("span", { class: "note", text: words }),
    ...best.slice(0, MATCHES_LISTED).map((node) =>
      make("button", {
        type: "button",
        class: "chip",
        text: frameAt(node).name,
        title: flameWords(node),
        onclick: () => set({ stack: node }),
      }),
    ),
  );
  return found.nodes;
};

/** Searches for the function of a call site: `function (file:line)`. */
const findInFlame = (site) => {
  const text = site.replace(/ \([^()]*\)$/, "");
  byId("stacks-toolbar").querySelector("input").value = text;
  set({ stackSearch: text, stack: 0 });
  reveal(byId("stacks-section"));
};

/** The choice of the value, and of the allocator on which it was measured. */
const stackPickers = () => {
  const present = Object.entries(STACK_VALUES).filter(([name]) => stackColumn(name) >= 0);
  const values = make(
    "select",
    {
      "aria-label": "Value of the flame graph",
      onchange: (event) => set({ stackValue: event.target.value }),
    },
    ...present.map(([value, text]) => make("option", { value, text })),
  );
  const measured = new Set(facts.stacks.columns.map((column) => column.allocator));
  const allocators = make(
    "select",
    {
      "aria-label": "Allocator of the flame graph",
      onchange: (event) => set({ stackAllocator: Number(event.target.value) }),
    },
    ...[...measured]
      .filter((index) => index !== null)
      .map((value) => make("option", { value, text: facts.allocators[value].name })),
  );
  const mark = () => {
    values.value = state.stackValue;
    allocators.value = state.stackAllocator;
    const ofProgram = facts.stacks.columns[stackColumn()]?.allocator === null;
    allocators.disabled = ofProgram;
  };
  watch(["stackValue", "stackAllocator"], mark);
  mark();
  return make("span", { class: "pick" }, values, allocators);
};

/** The allocator and the value that are shown first. */
const chooseStackValue = () => {
  const index = contenders.find((one) => facts.allocators[one].median_run) ?? 0;
  state.stackAllocator = index;
  const total = (name) => {
    const column = stackColumn(name);
    return column < 0 ? 0 : stacks.values[column].reduce((a, b) => a + b, 0);
  };
  state.stackValue = ["over", "time", "calls"].find((name) => total(name) > 0) ?? "calls";
};

const setUpStacks = async () => {
  if (!(await loadStacks()) || stacks.nodes < 2) return;
  byId("stacks-section").hidden = false;
  byId("stacks-note").textContent =
    "The graph shows all functions that led to calls of the allocator. A caller is above the " +
    "functions that it called. The width shows the share of the selected value. Grey functions " +
    "allocate for their callers. The other colours are modules. Click a function to select it. " +
    "The charts above then mark only the slow calls that this function led to. The graph covers " +
    "the time range of the charts, or the whole recording if you switch “Time range of the " +
    "charts” off.";
  chooseStackValue();
  byId("stacks-toolbar").append(
    stackPickers(),
    make("input", {
      type: "search",
      placeholder: "Find a function or file",
      "aria-label": "Find a function or file in the call stacks",
      oninput: (event) => set({ stackSearch: event.target.value }),
    }),
    toggle(
      "Time range of the charts",
      () => state.stackRange,
      (stackRange) => set({ stackRange }),
    ),
  );
  byId("toolbar").append(
    make("button", {
      type: "button",
      class: "quiet",
      id: "stack-filter",
      hidden: true,
      text: "Slow calls of all stacks",
      title: "Mark the slow calls of all stacks",
      onclick: () => set({ stack: 0 }),
    }),
  );
  setUpFlameCanvas();
  const keys = ["stackValue", "stackAllocator", "stackRange", "stackSearch", "stack"];
  watch([...keys, "view", "theme", "size"], drawFlame, byId("flame"));
  watch(["stack", "stackValue", "stackAllocator", "stackRange", "shown", "view"], () =>
    defer("stack-detail", drawStackDetail),
  );
  invalidate(["stack", "stackRange"]);
};
