// The slowest calls. lab/report chooses them and writes the sentences; this file only shows them.

const hitchCard = async (
  { allocator, at, attribution, title, sentence, cause, verdict, others, run },
  number,
) => {
  const [outliers] = await Promise.all([loadOutliers(allocator), loadStacks()]);
  // Results without rows have no calls.
  const drawn = at !== null;
  const site = drawn && outliers ? siteText(outliers, at) : null;
  const show = make("button", {
    type: "button",
    class: "link",
    text: "Show call",
    onclick: () => showCall(allocator, outliers, at),
  });
  const rest = [
    site && stackDetails(outliers, at, site),
    make(
      "p",
      { class: "fine" },
      ...[verdict, others, run].filter(Boolean).map((text) => `${text} `),
      ...(drawn ? [show] : []),
    ),
  ];
  const heading = make("b", { text: title });
  // Only the first card is open: it is the one that counts.
  const parts =
    number === 0
      ? [make("p", {}, heading, ` ${sentence} ${cause}`), ...rest]
      : [
          make(
            "details",
            { class: "hitch-rest" },
            make("summary", {}, heading),
            make("p", { text: `${sentence} ${cause}` }),
            ...rest,
          ),
        ];
  return make("article", { class: "hitch-card", "data-attribution": attribution }, ...parts);
};

/** The call site of a slow call, and its whole stack on request. */
const stackDetails = (outliers, at, site) =>
  make(
    "details",
    {},
    make("summary", {}, make("b", { text: "Called in:" }), ` ${site}`),
    stackList(outliers, at),
  );

/** The frame in which the calls of the program's allocator took longest. */
const worstFrame = () => {
  const index = facts.verdict.base ?? contenders[0];
  const sums = periodSums.frames.get(index);
  if (!frameMarks || !sums) return null;
  let worst = 1; // 0 is the time before the first mark
  // Calls that were only preempted show how busy the machine was.
  const own = (frame) => (sums.inside[frame] ?? 0) - (sums.interrupted[frame] ?? 0);
  sums.inside.forEach((_, frame) => {
    if (frame > 0 && own(frame) > own(worst)) worst = frame;
  });
  return own(worst) > 0 ? { index, frame: worst, inside: own(worst) } : null;
};

/** The slowest call of a frame among those that count for the time of the frame. */
const worstCall = (outliers, frame) => {
  const kernel = CAUSE.fault | CAUSE.syscall | CAUSE.slept;
  const counts = (at) => {
    const cause = outliers.cause[at];
    return !(cause & CAUSE.interrupted) || (cause & kernel) > 0;
  };
  return callsOfFrame(outliers, frame).find(counts);
};

const drawWorstFrame = async () => {
  const box = byId("worst-frame");
  const found = worstFrame();
  box.hidden = !found;
  if (!found) return;
  const { index, frame, inside } = found;
  const [outliers] = await Promise.all([loadOutliers(index), loadStacks()]);
  const worst = outliers ? worstCall(outliers, frame) : undefined;
  const button = (text, onclick) =>
    make("button", { type: "button", class: "link", text, onclick });
  const site = worst === undefined ? "" : siteText(outliers, worst);
  const slowest =
    worst === undefined
      ? ""
      : `Its slowest call: ${duration(outliers.latency[worst])} in ` +
        `${OPERATION_NAMES[outliers.kind[worst]]}${site && `, called in ${site}`} ` +
        `(${causeOf(outliers, worst)}; attribution: ${verdictOf(outliers, worst).short}).`;
  // The same number as in the advice and in the table of metrics.
  const { name, runs, frames, undisturbed_frames: calm } = facts.allocators[index];
  const median = (calm.worst ?? frames.worst)?.[0] ?? inside;
  const length = (frameMarks[frame] ?? facts.span_ns) - frameMarks[frame - 1];
  box.replaceChildren(
    make(
      "p",
      {},
      make("b", { text: `Worst frame with ${name}:` }),
      ` ${duration(median)} in calls${facts.lanes.length > 1 ? " of all threads together" : ""}, ` +
        "without calls that were only preempted" +
        `${runs > 1 ? ` (median of the worst frames of ${runs} runs)` : ""}. In the run of the ` +
        `charts it is frame ${frame.toLocaleString("en-US")}` +
        `${runs > 1 ? ` with ${duration(inside)}` : ""}, recorded as ${duration(length)} long. ` +
        slowest,
    ),
    make(
      "p",
      { class: "fine" },
      button("Show frame", () => showFrame(frame)),
      worst === undefined ? null : button("Show its call", () => showCall(index, outliers, worst)),
    ),
  );
};

const drawHitches = async () => {
  byId("hitch").hidden = !facts.hitches.length;
  byId("hitch").replaceChildren(...(await Promise.all(facts.hitches.map(hitchCard))));
};
