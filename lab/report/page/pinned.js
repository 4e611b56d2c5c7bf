// Who holds memory: the resident memory of each allocator at one moment, and the call sites whose
// live blocks keep the part of it that is not live. `keel blame --pinned --save` adds it to
// results.

const drawPinned = () => {
  const { totals, rows } = facts.pinned;
  const indices = shown().filter((index) => totals[index]);
  const cell = (value) => make("td", { text: (value ?? null) === null ? "–" : bytes(value) });
  const row = (name, values) => make("tr", {}, name, ...values.map(cell));
  const sum = (text, at) =>
    row(
      make("td", { class: "words", text }),
      indices.map((index) => totals[index][at]),
    );
  const indented = (calls) => {
    const name = siteName(calls);
    name.style.paddingInlineStart = "2em";
    return name;
  };
  const largest = (one) => Math.max(0, ...indices.map((index) => one.bytes[index] ?? 0));
  const sites = rows.filter((one) => largest(one) > 0).sort((a, b) => largest(b) - largest(a));
  const names = indices.map((index) => make("th", { scope: "col" }, nameTag(index)));
  const head = make("tr", {}, make("th", { class: "words", text: "resident memory" }), ...names);
  const body = [
    sum("live: requested by the program", 0),
    sum("pinned by live blocks, in total", 1),
    ...sites.map((one) =>
      row(
        indented(one.calls),
        indices.map((index) => one.bytes[index]),
      ),
    ),
    sum("free: kept by the allocator", 2),
  ];
  byId("pinned").replaceChildren(
    make(
      "table",
      { "aria-label": "Resident memory by call site" },
      make("thead", {}, head),
      make("tbody", {}, ...body),
    ),
  );
};

const setUpPinned = () => {
  if (!facts.pinned) return;
  byId("pinned-part").hidden = false;
  const { moment, count: all, rows } = facts.pinned;
  const when = moment === "peak" ? "when the most bytes are live" : "at the end of the recording";
  byId("pinned-note").textContent =
    `Resident memory ${when}, in a replay on one thread. Each byte is live, pinned or free. Live ` +
    "blocks prevent the allocator from returning their system pages to the system. The bytes of " +
    "such a page that are not live are pinned. A page without live blocks is pinned if there are " +
    "live blocks in the 64 KiB around it. The pinned bytes of a page are divided equally among " +
    "these blocks. The table shows the sums for the lines of the program that allocated the " +
    `blocks. It shows ${rows.length} of ${pluralize(all, "line", "lines")}. Click a line to see ` +
    "its callers.";
  watch(["shown", "theme"], drawPinned);
};
