// Pages with several comparisons: selects one of them and shows their figures side by side.

// Figures are those of the operation that the verdict judges.
const comparedOperation = facts.verdict.operation;
const ofOperation = (one) => one.operations[comparedOperation];
const COMPARED_FIGURES = [
  ...["p50", "p999", "p9999"].map((column) => [
    column,
    `${comparedOperation} ${figureLabel(column)}`,
    (one) => ofOperation(one)?.percentiles[column],
    duration,
  ]),
  ["worst", "worst", (one) => ofOperation(one)?.worst, duration],
  ["mean", "mean", (one) => ofOperation(one)?.mean, duration],
  ["peak", "peak memory", (one) => one.figures.peak, bytes],
];
let comparedFigure = "p999";

const goToComparison = (number) => {
  location.hash = String(number + 1);
};

const drawComparisons = (all) => {
  const names = [
    ...new Set(all.flatMap((one) => one.allocators.map((allocator) => allocator.name))),
  ];
  const [, , value, format] = COMPARED_FIGURES.find(([id]) => id === comparedFigure);
  const head = make(
    "tr",
    {},
    make("th", { scope: "col", text: "comparison" }),
    ...["pace", "touch"].map((text) => make("th", { scope: "col", class: "words", text })),
    ...names.map((text) => make("th", { scope: "col", text })),
  );
  const rows = all.map((one, number) => {
    const found = names.map((name) => one.allocators.find((allocator) => allocator.name === name));
    const leaders =
      one.leaders[comparedFigure === "peak" ? "run" : comparedOperation]?.[comparedFigure] ?? [];
    const cells = found.map((allocator) => {
      const spread = allocator && value(allocator);
      if (!spread) return make("td", { class: "none", text: "–" });
      // Bold: the lowest, and all without a significant difference from it.
      const best = leaders.includes(one.allocators.indexOf(allocator));
      return make("td", {
        class: best ? "best" : null,
        text: format(spread[0]),
        title: spreadText(spread, format),
      });
    });
    const name =
      number === currentComparison
        ? make("b", { text: one.label })
        : make("button", {
            type: "button",
            class: "link",
            text: one.label,
            onclick: () => goToComparison(number),
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
    comparedFigure === "peak"
      ? "Peak memory"
      : `${comparedOperation} ${figureLabel(comparedFigure)}`;
  byId("comparisons-table").replaceChildren(
    make(
      "table",
      { "aria-label": "Comparisons side by side" },
      make("caption", { text: title }),
      make("thead", {}, head),
      make("tbody", {}, ...rows),
    ),
  );
};

const setUpComparisons = () => {
  if (comparisonElements.length < 2) return;
  byId("comparisons-section").hidden = false;
  const all = comparisonElements.map((element) => JSON.parse(element.textContent));
  putText(
    "comparisons-note",
    `This page contains ${comparisonElements.length} comparisons. All charts below show ` +
      `${facts.label}. Values of different paces or different journals cannot be compared.`,
  );
  const select = (id) => {
    comparedFigure = id;
    invalidate(["comparison"]);
  };
  byId("comparisons-toolbar").append(
    choice(
      "Comparison",
      all.map((one, number) => [number, one.label]),
      () => currentComparison,
      goToComparison,
    ),
    choice(
      "Metric",
      COMPARED_FIGURES.map(([id, text]) => [id, text]),
      () => comparedFigure,
      select,
    ),
  );
  watch(["comparison"], () => drawComparisons(all));
  invalidate(["comparison"]);
};
