// Several comparisons in one page: a switch between them, and their figures side by side.

// Of the operation that the verdict speaks of.
const folderOperation = facts.verdict.operation;
const ofOperation = (one) => one.operations[folderOperation];
const FOLDER_FIGURES = [
  ["p50", `${folderOperation} p50`, (one) => ofOperation(one)?.percentiles.p50, duration],
  ["p999", "p99.9", (one) => ofOperation(one)?.percentiles.p999, duration],
  ["p9999", "p99.99", (one) => ofOperation(one)?.percentiles.p9999, duration],
  ["worst", "worst", (one) => ofOperation(one)?.worst, duration],
  ["mean", "mean", (one) => ofOperation(one)?.mean, duration],
  ["peak", "peak memory", (one) => one.figures.peak, bytes],
];
let folderFigure = "p999";

const goToFolder = (number) => {
  location.hash = String(number + 1);
};

const drawFolders = (all) => {
  const names = [
    ...new Set(all.flatMap((one) => one.allocators.map((allocator) => allocator.name))),
  ];
  const [, , value, format] = FOLDER_FIGURES.find(([id]) => id === folderFigure);
  const head = make(
    "tr",
    {},
    make("th", { scope: "col", text: "comparison" }),
    ...["pace", "writes"].map((text) => make("th", { scope: "col", class: "words", text })),
    ...names.map((text) => make("th", { scope: "col", text })),
  );
  const rows = all.map((one, number) => {
    const found = names.map((name) => one.allocators.find((allocator) => allocator.name === name));
    const leaders =
      one.leaders[folderFigure === "peak" ? "run" : folderOperation]?.[folderFigure] ?? [];
    const cells = found.map((allocator) => {
      const spread = allocator && value(allocator);
      if (!spread) return make("td", { class: "none", text: "–" });
      // Bold: the lowest, and all that the runs cannot tell from it.
      const best = leaders.includes(one.allocators.indexOf(allocator));
      return make("td", {
        class: best ? "best" : null,
        text: format(spread[0]),
        title: spreadWords(spread, format),
      });
    });
    const name =
      number === chosenFolder
        ? make("b", { text: one.label })
        : make("button", {
            type: "button",
            class: "link",
            text: one.label,
            onclick: () => goToFolder(number),
          });
    return make(
      "tr",
      {},
      make("th", { scope: "row" }, name),
      make("td", { class: "words", text: one.settings.pace }),
      make("td", { class: "words", text: one.settings.touch }),
      ...cells,
    );
  });
  const title =
    folderFigure === "peak"
      ? "Peak memory"
      : `${folderOperation} ${PAIR_NAMES[folderFigure] ?? folderFigure}`;
  byId("folders-table").replaceChildren(
    make(
      "table",
      { "aria-label": "Comparisons side by side" },
      make("caption", { text: title }),
      make("thead", {}, head),
      make("tbody", {}, ...rows),
    ),
  );
};

const setUpFolders = () => {
  if (folders.length < 2) return;
  byId("folders-section").hidden = false;
  const all = folders.map((element) => JSON.parse(element.textContent));
  byId("folders-note").textContent =
    `This page holds ${folders.length} comparisons; all charts below are of ` +
    `${facts.label}. Figures of different paces, or of different journals, are no contest with each other.`;
  const put = (id) => {
    folderFigure = id;
    touch(["folder"]);
  };
  byId("folders-toolbar").append(
    choice(
      "Comparison",
      all.map((one, number) => [number, one.label]),
      () => chosenFolder,
      goToFolder,
    ),
    choice(
      "Figure",
      FOLDER_FIGURES.map(([id, text]) => [id, text]),
      () => folderFigure,
      put,
    ),
  );
  watch(["folder"], () => drawFolders(all));
  touch(["folder"]);
};
// The whole page is of one comparison: another one is another start.
window.addEventListener("hashchange", () => {
  if (/^#\d+$/.test(location.hash)) location.reload();
});
