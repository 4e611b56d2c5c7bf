// The call sites of slow frames and calls: a table with a column for each allocator, and the
// callers of each call site. Results have them if the journal was recorded with call stacks.

// Name, index in the values of a call site, format.
const SITE_VALUES = [
  ["time over the budget", 2, duration],
  ["time in calls", 1, duration],
  ["slow calls", 3, count],
  ["calls with page faults", 4, count],
  ["calls", 0, count], // never 0
  ["requested bytes", 5, bytes],
];

/** The cell of a call site: its name, its callers on request, and a sentence on it. */
const siteName = (calls, sentence = "") => {
  const [site, ...callers] = calls;
  const fine = sentence ? make("p", { class: "fine", text: sentence }) : "";
  if (!callers.length) return make("td", { class: "words" }, fine ? `${site} ` : site, fine);
  const list = make("ul", {}, ...callers.map((text) => make("li", { text })));
  const find = make("button", {
    type: "button",
    class: "link",
    text: "Find in the flame graph",
    onclick: () => findInFlame(site),
  });
  const more = facts.stacks ? make("p", {}, find) : "";
  const details = make("details", {}, make("summary", { text: site }), list, more);
  return make("td", { class: "words" }, details, fine);
};

const drawCallSites = () => {
  const [title, at, format] = SITE_VALUES[state.siteValue];
  const indices = shown();
  const valueOf = (row, index) => row.values[index]?.[at] ?? null;
  const largest = (row) => Math.max(...indices.map((index) => valueOf(row, index) ?? 0));
  const rows = facts.call_sites.rows.filter((row) => largest(row) > 0);
  rows.sort((a, b) => largest(b) - largest(a));
  const body = rows.map((row) => {
    const id = `site-${facts.call_sites.rows.indexOf(row) + 1}`;
    return make(
      "tr",
      { id, onclick: () => setLink(id) },
      siteName(row.calls, row.same_calls),
      ...indices.map((index) => {
        const value = valueOf(row, index);
        return make("td", { text: value === null ? "–" : format(value) });
      }),
    );
  });
  const names = indices.map((index) => make("th", { scope: "col" }, nameTag(index)));
  const head = make("tr", {}, make("th", { class: "words", text: "call site" }), ...names);
  const table = { "aria-label": `Call sites by ${title}` };
  byId("sites").replaceChildren(
    make("table", table, make("thead", {}, head), make("tbody", {}, ...body)),
  );
};

/** Shows a call site and its callers: `site-3`. */
const showSite = (id) => {
  // A line of which the chosen value is 0 is not in the table.
  if (!byId(id)) {
    set({ siteValue: SITE_VALUES.findIndex(([name]) => name === "calls") });
    flush();
  }
  const row = byId(id);
  if (!row) return;
  row.querySelector("details")?.toggleAttribute("open", true);
  setLink(id);
  reveal(row, "instant");
};

const setUpCallSites = () => {
  if (!facts.call_sites) return;
  byId("sites-section").hidden = false;
  const { budget_ns: budget, slow_ns: slow, count: all, rows } = facts.call_sites;
  const limited = facts.frame_count ? "the calls of a frame together take" : "a call takes";
  byId("sites-note").textContent =
    `The table shows ${rows.length} of ${pluralize(all, "line", "lines")} of the program: those ` +
    `with the largest values. Lines with 0 are not shown. If ${limited} more than the budget of ` +
    `${duration(budget)}, the excess is time over the budget. ` +
    (facts.frame_count ? "It is divided among these calls. " : "") +
    `A call of more than ${duration(slow)} is slow. The text below a line states how long its ` +
    "calls took in the median run of each allocator. The null allocator does nothing: its time " +
    "is the cost of measuring. Click a line to see its callers.";
  const options = SITE_VALUES.map(([name], value) => make("option", { value, text: name }));
  const select = make("select", { "aria-label": "Value of the call sites" }, ...options);
  // The first value that is not 0 everywhere.
  const has = ([, at]) => rows.some((row) => row.values.some((values) => values?.[at] > 0));
  select.addEventListener("change", () => set({ siteValue: Number(select.value) }));
  byId("sites-toolbar").append(make("span", { class: "pick" }, select));
  watch(["siteValue"], () => {
    select.value = state.siteValue;
  });
  watch(["shown", "theme", "siteValue"], drawCallSites);
  set({ siteValue: Math.max(0, SITE_VALUES.findIndex(has)) });
};
