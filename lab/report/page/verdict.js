// The opening: the criteria as strips of medians and ranges. The words were weighed in lab/report/src/verdict.rs.

/** The range over runs and the interval, as far as they are known. */
const spreadWords = ([, least, most, low, high], format) =>
  joined([
    least !== most && `runs from ${format(least)} to ${format(most)}`,
    low !== undefined && `95 %: ${format(low)} to ${format(high)}`,
  ]);

/** 1.34 times the best (1.29 to 1.40) */
const ratioWords = (ratio, best) => {
  const [value, low, high] = ratio.map((part) => part.toFixed(part < 10 ? 2 : 1));
  return `${value} times ${facts.allocators[best].name}'s (95 %: ${low} to ${high})`;
};

const criterionRow = (criterion, at, scale) => {
  const [index, spread] = criterion.rows[at];
  const [median, least, most, low, high] = spread;
  const format = criterion.unit === "bytes" ? bytes : duration;
  const place = (kind, from, to) => {
    const bar = make("span", { class: kind });
    bar.style.left = `${scale(from)}%`;
    bar.style.width = `${Math.max(0, scale(to) - scale(from))}%`;
    bar.style.background = lookOf(index).colour;
    return bar;
  };
  const dot = place("dot", median, median);
  dot.style.width = null;
  const best = criterion.best.includes(index) && criterion.best.length < criterion.rows.length;
  const ratio = criterion.ratios[at];
  return make(
    "div",
    {
      class: best ? "strip best" : "strip",
      title: joined([spreadWords(spread, format), ratio && ratioWords(ratio, criterion.best[0])]),
    },
    make("span", { class: "who", text: facts.allocators[index].name }),
    make(
      "span",
      { class: "track", "aria-hidden": "true" },
      low === undefined ? null : place("whisker", low, high),
      place("range", least, most),
      dot,
    ),
    make("span", { class: "value", text: format(median) }),
  );
};

/** Logarithmic where values are far apart, else from zero. */
const stripScale = (criterion) => {
  const lows = criterion.rows.map(([, spread]) => spread[1]);
  const highs = criterion.rows.map(([, spread]) => spread[2]);
  if (criterion.floor && criterion.unit === "ns") lows.push(criterion.floor[0]);
  const [low, high] = [Math.min(...lows), Math.max(...highs)];
  if (high / Math.max(low, 1e-9) > 8 && low > 0) {
    return (value) =>
      clamp(3 + (94 * Math.log(Math.max(value, 1e-9) / low)) / Math.log(high / low), 0, 100);
  }
  return (value) => clamp((92 * value) / Math.max(high, 1e-9), 0, 100);
};

/** Which allocator, criterion by criterion: the sentences of the cards without their intervals. */
const drawAnswers = () => {
  const answered = facts.verdict.criteria.filter(({ answer }) => answer[0]);
  byId("answers").hidden = !answered.length;
  byId("answers").lastElementChild.replaceChildren(
    ...answered.map(({ title, answer: [who, how] }) =>
      make(
        "div",
        {},
        make("dt", { text: title }),
        make("dd", {}, make("b", { text: who }), make("span", { text: how })),
      ),
    ),
  );
};

const drawVerdict = () => {
  byId("criteria").replaceChildren(
    ...facts.verdict.criteria.map((criterion) => {
      const scale = stripScale(criterion);
      const format = criterion.unit === "bytes" ? bytes : duration;
      const floor =
        criterion.floor && criterion.unit === "ns"
          ? make("p", {
              class: "floor-note",
              text: `no allocator at all: ${format(criterion.floor[0])}`,
            })
          : null;
      return make(
        "article",
        { class: "criterion" },
        make("h3", { text: criterion.title }),
        make("p", { class: "meaning", text: criterion.meaning }),
        make(
          "div",
          { class: "strips" },
          ...criterion.rows.map((_, at) => criterionRow(criterion, at, scale)),
          floor,
        ),
        make("p", { class: "sentence", text: criterion.sentence }),
      );
    }),
  );
  byId("overall").textContent = facts.verdict.overall;
  drawAnswers();
  byId("cautions").replaceChildren(...facts.verdict.cautions.map((text) => make("li", { text })));
};

// A compiler's command line would fill the whole page; the notes at its end have it in full.
const programName = (command) => {
  const [path, ...rest] = command.split(" ");
  const text = [path.split("/").pop(), ...rest].join(" ");
  return text.length > 48 ? `${text.slice(0, 47)}…` : text;
};

const drawLede = () => {
  const total = Object.values(facts.journal.operations).reduce((a, b) => a + b, 0);
  const runs = Math.max(...facts.allocators.map((one) => one.runs));
  const names = contenders.map((index) => facts.allocators[index].name);
  const program = programName(facts.journal.program || facts.journal.name);
  byId("lede").textContent =
    `${count(total)} operations of ${program} ` +
    `replayed on ${names.length === 1 ? names[0] : `${names.length} allocators`}, ` +
    `${runs === 1 ? "once" : `${runs} times`} each, pace ${facts.settings.pace || "unknown"}.`;
  byId("criteria-note").textContent =
    runs > 1
      ? "Dots are medians over runs, bars their range, whiskers where the typical run lies (95 %)."
      : "";
};

/** A criterion that tells some apart. */
const tells = ({ best, rows }) => best.length > 0 && best.length < rows.length;

const glanceCell = (criterion, index) => {
  const at = criterion.rows.findIndex(([one]) => one === index);
  if (at < 0) return make("td", { class: "none", text: "–" });
  const [median] = criterion.rows[at][1];
  const lowest = criterion.rows[0][1][0];
  const times = median / Math.max(lowest, 1e-9);
  const best = tells(criterion) && criterion.best.includes(index);
  const format = criterion.unit === "bytes" ? bytes : duration;
  const mark = () =>
    make("span", { class: "mark", role: "img", "aria-label": "may be lowest", text: "● " });
  return make(
    "td",
    { class: best ? "best" : tells(criterion) ? null : "none", title: format(median) },
    best ? mark() : null,
    `${times.toFixed(times < 9.95 ? 2 : 0)}×`,
  );
};

// What a telephone shows of the table first; the other figures are a tap away.
const KEY_CRITERIA = ["p999", "throughput", "memory"];
let glanceRest = false;

/** On a narrow screen: which of the two halves of the table is seen. */
const glanceSwitch = (box, criteria, key) => {
  const titles = (wanted) =>
    list(criteria.filter(({ id }) => key.has(id) === wanted).map(({ title }) => title));
  const button = (rest, text) =>
    make("button", {
      type: "button",
      text,
      "aria-pressed": String(glanceRest === rest),
      "aria-label": `Show ${titles(!rest)}`,
      onclick: () => {
        glanceRest = rest;
        drawGlance();
        box.querySelector("[aria-pressed=true]").focus();
      },
    });
  return make(
    "div",
    { class: "choice narrow-only", role: "group", "aria-label": "Figures of the table" },
    button(false, "Main figures"),
    button(true, "The others"),
  );
};

/** All criteria in one table: who may be lowest in which, and how far the others' medians are from the lowest. */
const drawGlance = () => {
  const { criteria } = facts.verdict;
  const box = byId("glance");
  box.hidden = contenders.length < 2 || !criteria.length;
  if (box.hidden) return;
  const telling = criteria.filter(tells);
  const runs = contenders.map((index) => facts.allocators[index].runs);
  const [least, most] = [Math.min(...runs), Math.max(...runs)];
  const few =
    most > 1 && least < FEW_ROUNDS
      ? ` ${counted(least, "run is", "runs are")} few: compare with --runs 5 or more before deciding.`
      : "";
  const rows = contenders.map((index) => ({
    index,
    often: telling.filter(({ best }) => best.includes(index)).length,
  }));
  rows.sort((a, b) => b.often - a.often);
  // Paces other than max have no throughput: the time in calls takes its place.
  const key = new Set(
    KEY_CRITERIA.map((id) => (criteria.some((one) => one.id === id) ? id : "time")),
  );
  const part = ({ id }) => (key.has(id) ? "main-part" : "other-part");
  const head = make(
    "tr",
    {},
    make("th", { scope: "col", text: "allocator" }),
    telling.length
      ? make("th", { scope: "col", class: "other-part", text: "may be lowest in" })
      : null,
    ...criteria.map((criterion) =>
      make("th", { scope: "col", class: part(criterion), text: criterion.title }),
    ),
  );
  const cell = (criterion, index) => {
    const made = glanceCell(criterion, index);
    made.classList.add(part(criterion));
    return made;
  };
  const body = rows.map(({ index, often }) =>
    make(
      "tr",
      {},
      nameCell(index),
      telling.length
        ? make("td", { class: "other-part", text: `${often} of ${telling.length}` })
        : null,
      ...criteria.map((criterion) => cell(criterion, index)),
    ),
  );
  const table = make(
    "table",
    { "aria-label": "At a glance", class: glanceRest ? "others" : "main" },
    make("thead", {}, head),
    make("tbody", {}, ...body),
  );
  box.replaceChildren(
    glanceSwitch(box, criteria, key),
    table,
    make("p", {
      class: "floor-note",
      text:
        `${most > 1 ? "Medians" : "Figures"} as multiples of the lowest: ` +
        `less is better. ${
          telling.length
            ? "● may be the lowest as far as these runs can tell; a column without any tells no one apart."
            : most > 1
              ? "These runs tell no one apart."
              : "One run tells no one apart."
        }${few}`,
    }),
  );
};
