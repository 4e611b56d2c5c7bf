// Two allocators, figure by figure: medians, the ratio of paired rounds with its 95 % interval, and
// the conclusion. The ratios are computed by lab/report.

const PAIR_RUNS = [
  ["throughput", "time per operation", duration],
  ["elapsed", "elapsed", duration],
  ["peak", "peak memory", bytes],
];
const PAIR_LATENCIES = ["mean", ...facts.percentiles.map(({ column }) => column), "worst"];

/**
 * `one` over `other`: value, low, high, rounds, and -1 if `one` is lower, 1 if `other` is, else 0.
 */
const ratioOf = ([one, other], operation, figure) => {
  const isPair = (pair) => pair.of.includes(one) && pair.of.includes(other);
  const calm = state.excludeInterrupted ? facts.calm_pairs.find(isPair) : null;
  // Figures of whole runs include all calls.
  const of = calm?.figures[operation] ? calm : facts.pairs.find(isPair);
  const found = of?.figures[operation]?.[figure];
  if (!found || found[3] < 2) return null;
  const [value, low, high, rounds, lower] = found;
  return of.of[0] === one
    ? [1 / value, 1 / high, 1 / low, rounds, lower]
    : [value, low, high, rounds, -lower];
};

/** The time in calls per frame, with or without calls that were only preempted. */
const framesOf = (one) =>
  state.excludeInterrupted && Object.keys(one.undisturbed_frames).length
    ? one.undisturbed_frames
    : one.frames;

/** The figures that both allocators have: operation, name, both medians, format, ratio. */
const pairRows = (pair) => {
  const ones = pair.map((index) => facts.allocators[index]);
  const rows = [];
  const add = (operation, figure, name, format, spreads) => {
    if (spreads.some((spread) => !spread) || spreads.every((spread) => spread[0] === 0)) return;
    rows.push({
      operation,
      name,
      format,
      medians: spreads.map((spread) => spread[0]),
      ratio: ratioOf(pair, operation, figure),
    });
  };
  for (const operation of [...facts.operations, "all"]) {
    const summaries = ones.map((one) => figuresOf(one)[operation]);
    if (summaries.some((summary) => !summary)) continue;
    for (const figure of PAIR_LATENCIES) {
      add(
        operation,
        figure,
        figureLabel(figure),
        duration,
        summaries.map((summary) => summary[figure] ?? summary.percentiles[figure]),
      );
    }
  }
  for (const figure of PAIR_LATENCIES) {
    add(
      "frame",
      figure,
      figureLabel(figure),
      duration,
      ones.map((one) => framesOf(one)[figure]),
    );
  }
  for (const [figure, name, format] of PAIR_RUNS) {
    add(
      "run",
      figure,
      name,
      format,
      ones.map((one) => one.figures[figure]),
    );
  }
  return rows;
};

const PAIR_GROUPS = { all: "all operations", frame: "time in calls per frame", run: "whole run" };

/** The conclusion of a row. The phrases come from lab/report. */
const pairConclusion = ({ ratio }, names) => {
  const phrases = facts.pair_phrases;
  if (!ratio) return phrases.one_round;
  const [value, low, high, , lower] = ratio;
  const phrase = (text, name) => fillPhrase(text, { name });
  if (lower !== 0) {
    const slight = Math.max(value, 1 / value) < phrases.slight;
    return phrase(slight ? phrases.slightly_lower : phrases.lower, names[lower < 0 ? 0 : 1]);
  }
  if (high < 1) return phrase(phrases.possibly, names[0]);
  return low > 1 ? phrase(phrases.possibly, names[1]) : phrases.same;
};

/** The conclusion of all rows. */
const pairSummary = (rows, [a, b]) => {
  const phrases = facts.pair_phrases;
  const known = rows.filter((row) => row.ratio);
  if (!known.length) return phrases.nothing;
  const lowerOn = (side) => known.filter((row) => row.ratio[4] === side).length;
  const [aLower, bLower] = [lowerOn(-1), lowerOn(1)];
  const rounds = Math.min(...known.map((row) => row.ratio[3]));
  const summary = fillPhrase(phrases.conclusion, {
    known: known.length,
    a,
    b,
    a_lower: aLower,
    b_lower: bLower,
    same: known.length - aLower - bLower,
  });
  const possible = known.filter(({ ratio: [, low, high, , lower] }) => {
    return lower === 0 && (high < 1 || low > 1);
  }).length;
  return [
    summary,
    possible > 0 ? fillPhrase(phrases.some_possibly, { possible }) : "",
    fillPhrase(phrases.columns, { a, b }),
    rounds < phrases.few_rounds ? fillPhrase(phrases.few, { rounds }) : "",
  ].join("");
};

/** Draws a ratio's interval around 1. It is cut at the ends of the scale. */
const pairTrack = ({ ratio }, reach, pair) => {
  const track = make(
    "div",
    { class: "pair-track", "aria-hidden": "true" },
    make("span", { class: "same-line" }),
  );
  if (!ratio) return track;
  const [value, low, high, , lower] = ratio;
  const at = (number) => 50 + 50 * clamp(Math.log(number) / reach, -1, 1);
  const colour = lower === 0 ? ink().soft : styleOf(pair[lower < 0 ? 0 : 1]).colour;
  const range = make("span", { class: "range" });
  range.style.left = `${at(low)}%`;
  range.style.width = `${at(high) - at(low)}%`;
  const dot = make("span", { class: "dot" });
  dot.style.left = `${at(value)}%`;
  range.style.background = dot.style.background = colour;
  track.append(range, dot);
  return track;
};

const drawPairs = () => {
  const pair = state.pair;
  if (!pair) return;
  const names = pair.map((index) => facts.allocators[index].name);
  const rows = pairRows(pair);
  putText("pair-summary", pairSummary(rows, names));
  const values = rows.flatMap(({ ratio }) => (ratio ? [Math.abs(Math.log(ratio[0]))] : []));
  const reach = clamp(Math.max(0, ...values) * 1.25, Math.log(1.1), Math.log(100));
  const ends = `← ${names[0]} lower · equal · ${names[1]} lower →`;
  const head = make(
    "tr",
    {},
    ...["metric", names[0], names[1], `${names[0]} / ${names[1]}`, "95 % interval"].map((text) =>
      make("th", { scope: "col", text }),
    ),
    make("th", { scope: "col", class: "pair-ends", text: ends }),
    make("th", { scope: "col", class: "words", text: facts.pair_phrases.heading }),
  );
  const bodies = [...new Set(rows.map((row) => row.operation))].map((operation) => {
    const title = make(
      "tr",
      { class: "group" },
      make("th", { scope: "colgroup", colspan: 7, text: PAIR_GROUPS[operation] ?? operation }),
    );
    const lines = rows
      .filter((row) => row.operation === operation)
      .map((row) => {
        const { ratio } = row;
        const lower = ratio?.[4] ?? 0;
        const times = (number) => ratioNumber(number, number < 10 ? 3 : 1);
        return make(
          "tr",
          {},
          make("th", { scope: "row", text: row.name }),
          make("td", { class: lower < 0 ? "best" : null, text: row.format(row.medians[0]) }),
          make("td", { class: lower > 0 ? "best" : null, text: row.format(row.medians[1]) }),
          make("td", { text: ratio ? times(ratio[0]) : "–" }),
          make("td", { text: ratio ? `${times(ratio[1])} – ${times(ratio[2])}` : "–" }),
          make("td", {}, pairTrack(row, reach, pair)),
          make("td", { class: "words", text: pairConclusion(row, names) }),
        );
      });
    return make("tbody", {}, title, ...lines);
  });
  byId("pair-table").replaceChildren(
    make(
      "table",
      { class: "pairs", "aria-label": `${names[0]} and ${names[1]}` },
      make("thead", {}, head),
      ...bodies,
    ),
  );
};

/** The initial pair: that of the picture, or the first one with that of the lowest p99.9. */
const firstPair = () => {
  const pair = picturedAllocators();
  if (pair.length === 2) return pair;
  const { operation } = facts.verdict;
  const others = contenders.filter((index) => index !== pair[0]);
  const tail = (index) =>
    facts.allocators[index].operations[operation]?.percentiles.p999?.[0] ?? Infinity;
  return [pair[0], others.reduce((a, b) => (tail(b) < tail(a) ? b : a), others[0])];
};

const setUpPairs = () => {
  byId("pair-section").hidden = contenders.length < 2;
  if (contenders.length < 2) return;
  state.pair = firstPair();
  const pick = (label, which) => {
    const select = make(
      "select",
      {
        "aria-label": label,
        onchange: (event) => {
          const [chosen, other] = [Number(event.target.value), state.pair[1 - which]];
          // Selecting the same allocator on both sides swaps the two.
          const both = which === 0 ? [chosen, other] : [other, chosen];
          set({ pair: chosen === other ? [...state.pair].reverse() : both });
        },
      },
      ...contenders.map((index) =>
        make("option", { value: index, text: facts.allocators[index].name }),
      ),
    );
    watch(["pair"], () => {
      select.value = state.pair[which];
    });
    select.value = state.pair[which];
    return select;
  };
  const swap = make("button", {
    type: "button",
    class: "quiet",
    text: "Swap",
    onclick: () => set({ pair: [...state.pair].reverse() }),
  });
  byId("pair-toolbar").append(
    make(
      "span",
      { class: "pick" },
      pick("First allocator", 0),
      "and",
      pick("Second allocator", 1),
    ),
    swap,
  );
  watch(["pair", "excludeInterrupted", "theme"], drawPairs);
};
