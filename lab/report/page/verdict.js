// The top of the page: answers, table at a glance, and a card for each criterion. The sentences
// come from lab/report; this file only shows them.

/** The range over runs and the 95 % interval, if they are known. */
const spreadText = ([, least, most, low, high], format) =>
  joined([
    least !== most && `runs from ${format(least)} to ${format(most)}`,
    low !== undefined && `95 % interval ${format(low)} to ${format(high)}`,
  ]);

/** `1.34 times keel's (95 % interval 1.29 to 1.40)` */
const ratioText = (ratio, best) => {
  const [value, low, high] = ratio.map((part) => ratioNumber(part, part < 10 ? 2 : 1));
  return `${value} times ${facts.allocators[best].name}'s (95 % interval ${low} to ${high})`;
};

const criterionRow = (criterion, at, scale) => {
  const [index, spread] = criterion.rows[at];
  const [median, least, most, low, high] = spread;
  const format = criterion.unit === "bytes" ? bytes : duration;
  const place = (kind, from, to) => {
    const bar = make("span", { class: kind });
    bar.style.left = `${scale(from)}%`;
    bar.style.width = `${Math.max(0, scale(to) - scale(from))}%`;
    bar.style.background = styleOf(index).colour;
    return bar;
  };
  const dot = place("dot", median, median);
  dot.style.width = null;
  const best = isDecided(criterion) && criterion.best.includes(index);
  const ratio = criterion.ratios[at];
  return make(
    "div",
    {
      class: best ? "strip best" : "strip",
      title: joined([
        facts.allocators[index].name,
        spreadText(spread, format),
        ratio && ratioText(ratio, criterion.best[0]),
      ]),
    },
    make("span", { class: "allocator", text: facts.allocators[index].name }),
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

/** Logarithmic if the values differ by more than a factor of 8, otherwise linear from zero. */
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

/** One line for each criterion: the allocators that are among the lowest, and how that is known. */
const drawAnswers = () => {
  const answered = facts.verdict.criteria.filter(({ answer }) => answer[0]);
  byId("answers").hidden = !answered.length;
  byId("answers").lastElementChild.replaceChildren(
    ...answered.map(({ title, answer: [names, reason] }) =>
      make(
        "div",
        {},
        make("dt", { text: title }),
        make("dd", {}, make("b", { text: names }), make("span", { text: reason })),
      ),
    ),
  );
};

const KINDS_OF_CHANGES = { code: "code", setting: "setting", allocator: "allocator" };

/** What to change, in the order of effect. */
const drawChanges = () => {
  const { changes, changes_note: note } = facts.verdict;
  const head = ["change", "what", "gain", "price"].map((text) =>
    make("th", { scope: "col", class: "words", text }),
  );
  const rows = changes.map(({ kind, what, gain, price }) =>
    make(
      "tr",
      {},
      make("th", { scope: "row", text: KINDS_OF_CHANGES[kind] }),
      ...[what, gain, price].map((text) => make("td", { class: "words", text })),
    ),
  );
  const table = make(
    "table",
    { "aria-label": "What to change" },
    make("thead", {}, make("tr", {}, ...head)),
    make("tbody", {}, ...rows),
  );
  byId("changes").hidden = !changes.length && !note;
  byId("changes").replaceChildren(
    ...(changes.length ? [table] : []),
    ...(note ? [make("p", { class: "floor-note", text: note })] : []),
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
              text: `null allocator: ${format(criterion.floor[0])}`,
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
  const { advice, headline, code, unseen } = facts.verdict;
  putText("grade", advice.grade);
  putText("headline", advice.sentence || headline);
  putText("code-line", code);
  byId("advice").replaceChildren(...advice.more.map((text) => make("li", { text })));
  byId("unseen").replaceChildren(...unseen.map((text) => make("li", { text })));
  drawChanges();
  drawAnswers();
  byId("cautions").replaceChildren(...facts.verdict.cautions.map((text) => make("li", { text })));
};

// Cut to a line. The end of the page has the whole command line.
const programName = (command) => {
  const [path, ...rest] = command.split(" ");
  const text = [path.split("/").pop(), ...rest].join(" ");
  return text.length > 48 ? `${text.slice(0, 47)}…` : text;
};

/** When the operations of the replay were due. */
const paceText = (pace) => {
  const schedules = {
    max: "There was no pause between operations",
    compressed: "Recorded pauses of more than 1 ms were shortened to 1 ms",
    "1x": "Each operation was due at its recorded time",
  };
  const factor = parseFloat(pace);
  const schedule =
    schedules[pace] ?? (factor > 0 ? `The recorded times were divided by ${factor}` : "");
  return schedule ? `${schedule} (pace ${pace}).` : `Pace ${pace || "unknown"}.`;
};

const drawWorkload = () => {
  const total = Object.values(facts.journal.operations).reduce((a, b) => a + b, 0);
  const runs = Math.max(...facts.allocators.map((one) => one.runs));
  const nameOf = (index) => facts.allocators[index].name;
  const names = contenders.filter((index) => settingOf(index) === undefined).map(nameOf);
  const settings = facts.verdict.settings.map(
    ({ index, text }) => `the setting ${nameOf(index)} (${text})`,
  );
  const rows = [names.length === 1 ? names[0] : `${names.length} allocators`, ...settings];
  const program = programName(facts.journal.program || facts.journal.name);
  putText(
    "workload",
    `${pluralize(total, "operation", "operations")} of ${program} ` +
      `${total === 1 ? "was" : "were"} replayed on ${list(rows)}, ` +
      `${pluralize(runs, "run", "runs")} each. ${paceText(facts.settings.pace)}`,
  );
  putText(
    "criteria-note",
    runs > 1
      ? "A dot is the median of the runs. A bar reaches from the lowest run to the highest. A " +
          "thin line is the 95 % interval (Student's t) of the geometric mean of the runs. Runs " +
          "in which the processor was slower than usual do not count for this interval if at " +
          "least five other runs remain. The median can lie outside of this interval. The null " +
          "allocator does nothing: its value is the cost of measuring."
      : "",
  );
};

/** Whether an allocator is significantly higher than the lowest. The noisy ones are not. */
const isDecided = ({ best, noisy, rows }) =>
  best.length > 0 && best.length + noisy.length < rows.length;

const glanceCell = (criterion, index) => {
  const at = criterion.rows.findIndex(([one]) => one === index);
  if (at < 0) return make("td", { class: "none", text: "–" });
  const [median] = criterion.rows[at][1];
  const lowest = criterion.rows[0][1][0];
  const times = median / Math.max(lowest, 1e-9);
  const best = isDecided(criterion) && criterion.best.includes(index);
  const format = criterion.unit === "bytes" ? bytes : duration;
  const mark = () =>
    make("span", { class: "mark", role: "img", "aria-label": "among the lowest", text: "● " });
  const noisy = () =>
    make("span", { class: "noisy", role: "img", "aria-label": "inconclusive", text: "?" });
  return make(
    "td",
    { class: best ? "best" : isDecided(criterion) ? null : "none", title: format(median) },
    best ? mark() : null,
    `${times.toFixed(times < 9.95 ? 2 : 0)}×`,
    criterion.noisy.includes(index) ? noisy() : null,
  );
};

// The columns that a narrow screen shows first. A button switches to the others.
const KEY_CRITERIA = ["p999", "frame", "time", "memory"];
let showsOtherFigures = false;

/** On a narrow screen: the buttons that select the columns of the table. */
const glanceSwitch = (box, criteria, key) => {
  const titles = (wanted) =>
    list(criteria.filter(({ id }) => key.has(id) === wanted).map(({ title }) => title));
  const button = (rest, text) =>
    make("button", {
      type: "button",
      text,
      "aria-pressed": String(showsOtherFigures === rest),
      "aria-label": `Show ${titles(!rest)}`,
      onclick: () => {
        showsOtherFigures = rest;
        drawGlance();
        box.querySelector("[aria-pressed=true]").focus();
      },
    });
  return make(
    "div",
    { class: "choice narrow-only", role: "group", "aria-label": "Metrics of the table" },
    button(false, "Main metrics"),
    button(true, "Other metrics"),
  );
};

/** Explains the table at a glance. */
const glanceNote = (decided) => {
  const runs = contenders.map((index) => facts.allocators[index].runs);
  const [least, most] = [Math.min(...runs), Math.max(...runs)];
  const unit =
    `Each number is a ${most > 1 ? "median" : "value"}, divided by the lowest ` +
    `${most > 1 ? "median" : "value"} of its column. Lower is better.`;
  if (most < 2) return `${unit} One run cannot show a significant difference.`;
  const marks = decided.length
    ? "● marks the lowest value, and all values that do not differ significantly from it." +
      (decided.length < facts.verdict.criteria.length
        ? " If no difference in a column is significant, the column has no ●."
        : "")
    : "No column has significant differences.";
  const { few_rounds: enough, few } = facts.pair_phrases;
  const noisy = facts.verdict.criteria.some((criterion) => criterion.noisy.length)
    ? " ? marks a value that is much higher than the lowest, perhaps only by chance: the " +
      "difference varies too much between the rounds."
    : "";
  return `${unit} ${marks}${noisy}${least < enough ? fillPhrase(few, { rounds: least }) : ""}`;
};

/** All criteria in one table, as multiples of the lowest median. */
const drawGlance = () => {
  const { criteria } = facts.verdict;
  const box = byId("glance");
  box.hidden = contenders.length < 2 || !criteria.length;
  if (box.hidden) return;
  const decided = criteria.filter(isDecided);
  const key = new Set(KEY_CRITERIA.filter((id) => criteria.some((one) => one.id === id)));
  // Journals with frames are judged by them.
  if (key.has("frame")) key.delete("time");
  const part = ({ id }) => (key.has(id) ? "main-part" : "other-part");
  const head = make(
    "tr",
    {},
    make("th", { scope: "col", text: "allocator" }),
    ...criteria.map((criterion) =>
      make("th", { scope: "col", class: part(criterion), text: criterion.title }),
    ),
  );
  const cell = (criterion, index) => {
    const made = glanceCell(criterion, index);
    made.classList.add(part(criterion));
    return made;
  };
  const body = contenders.map((index) =>
    make("tr", {}, nameCell(index), ...criteria.map((criterion) => cell(criterion, index))),
  );
  const table = make(
    "table",
    { "aria-label": "At a glance", class: showsOtherFigures ? "others" : "main" },
    make("thead", {}, head),
    make("tbody", {}, ...body),
  );
  box.replaceChildren(
    glanceSwitch(box, criteria, key),
    table,
    make("p", { class: "floor-note", text: glanceNote(decided) }),
  );
};
