// The worst single calls, why they were slow, and whose doing that was. The same words in
// lab/report/src/hitch.rs.

const DOING = {
  allocator: "The allocator's doing",
  system: "The operating system took the processor away: not the allocator's doing",
  unknown: "Cannot be told",
};

/**
 * Whose doing a slow call was, and what is behind that. `floorNs`: the longest call of the allocator's own work that
 * was seen with no allocator at all, which was the machine's.
 */
const doingOf = (outliers, at, floorNs) => {
  const [cause, ns] = [outliers.cause[at], outliers.latency[at]];
  const has = (bits) => (cause & bits) !== 0;
  const kernel = has(CAUSE.fault | CAUSE.syscall);
  if (has(CAUSE.interrupted)) {
    // A fault of a huge page may take milliseconds as well, so few of them are no excuse.
    if (kernel) {
      return [
        "unknown",
        "the operating system took the processor away and the kernel worked for the call; what each " +
          "took is not known",
      ];
    }
    return facts.format < 2 || has(CAUSE.slept)
      ? ["unknown", "the operating system took the processor away, or the call waited for a lock"]
      : ["system", ""];
  }
  if (has(CAUSE.slept))
    return ["unknown", "the call waited for a lock or a page, and for how long is not known"];
  if (has(CAUSE.unknown))
    return ["unknown", "this system does not say whether it took the processor away"];
  if (kernel) {
    return [
      "allocator",
      has(CAUSE.syscall)
        ? "it asked the kernel"
        : "it handed out memory that the kernel had yet to make",
    ];
  }
  if (has(CAUSE.interrupt))
    return ["unknown", "a hardware interrupt came, and how long it took is not known"];
  if (floorNs * 2 >= ns) {
    const seen = `with no allocator at all a call of ${duration(floorNs)} was seen too`;
    return ["unknown", `${seen}, so it may be the machine`];
  }
  return ["allocator", ""];
};

/** The same as a sentence. */
const doingWords = ([doing, why]) => `${DOING[doing]}${why ? `: ${why}` : ""}.`;

/**
 * The longest call of its own work on no allocator: a hypervisor's doing, mostly, which nothing
 * else betrays.
 */
const floorWorstNs = async () => {
  const floor = facts.allocators.findIndex((one) => one.floor);
  const outliers = floor < 0 ? null : await loadOutliers(floor);
  const ownWork = (at) => (outliers.cause[at] & ~CAUSE.syscallUnknown) === 0;
  const at = outliers?.slowestFirst.find(ownWork);
  return at === undefined ? 0 : outliers.latency[at];
};

/**
 * What the very same call took under the others: whether it asked for much, or this allocator made
 * it long.
 */
const otherAllocatorsText = async ({ index, outliers, at }) => {
  const found = (await sameCall(outliers, at)).filter(
    (row) => row.index !== index && !facts.allocators[row.index].floor,
  );
  if (!found.length) return "";
  const rows = await Promise.all(
    found.map(async (row) => {
      const others = await loadOutliers(row.index);
      const same = others ? others.probe.indexOf(outliers.probe[at]) : -1;
      return { ...row, interrupted: same >= 0 && (others.cause[same] & CAUSE.interrupted) !== 0 };
    }),
  );
  const words = ({ index: other, took, interrupted }) =>
    `${duration(took)} with ${facts.allocators[other].name}${interrupted ? " (interrupted)" : ""}`;
  if (rows.length === 1) return `The very same call took ${words(rows[0])}.`;
  return `The very same call took ${words(rows[0])}, the others up to ${words(rows[rows.length - 1])}.`;
};

/**
 * A slow call in words: how long and when, why, whose doing, what it took elsewhere; and the way to
 * it.
 */
const hitchCard = async (title, hitch) => {
  const { index, outliers, at, doing } = hitch;
  const frame = frameOf(outliers.time[at]);
  const [whose, ...why] = doingWords(doing).split(/(?<=doing|told)(?=[:.])/);
  return make(
    "article",
    { class: "hitch-card", "data-doing": doing[0] },
    make(
      "p",
      {},
      make("b", { text: `${title}: ${duration(outliers.latency[at])} ` }),
      `in one ` +
        `${OPERATION_NAMES[outliers.kind[at]]}${outliers.size[at] ? ` of ${bytes(outliers.size[at])}` : ""} with ` +
        `${facts.allocators[index].name}, at ${timestamp(outliers.time[at], 1e8)}` +
        `${frame ? ` in frame ${frame.toLocaleString("en-US")}` : ""}, on thread ${outliers.thread[at]}.`,
    ),
    make(
      "p",
      {},
      make("b", { text: "Why: " }),
      `${callCause(outliers, at)}. `,
      make("b", { class: "doing", text: whose }),
      why.join(""),
    ),
    make(
      "p",
      {},
      `${await otherAllocatorsText(hitch)} `,
      make("button", {
        type: "button",
        class: "link",
        text: "Show call",
        onclick: () => showCall(index, outliers, at),
      }),
    ),
  );
};

/** What a call that is no one's, or the system's, is called where a shorter one leads. */
const longerTitle = (cause) => {
  if (cause & CAUSE.interrupted) return "Longer, but interrupted";
  return cause & CAUSE.slept ? "Longer, but asleep meanwhile" : "Longer, but not known whose";
};

/**
 * The worst hitch of all contenders that was an allocator's doing; behind it the longest call, if
 * that was not.
 */
const drawHitch = async () => {
  const loaded = await Promise.all(
    contenders.map(async (index) => [index, await loadOutliers(index)]),
  );
  const floorNs = await floorWorstNs();
  const doing = (outliers, at) => doingOf(outliers, at, floorNs);
  const slowest = (fits) =>
    loaded
      .flatMap(([index, outliers]) => {
        const at = outliers?.slowestFirst.find((call) => fits(doing(outliers, call)[0]));
        return at === undefined ? [] : [{ index, outliers, at, doing: doing(outliers, at) }];
      })
      .sort((a, b) => b.outliers.latency[b.at] - a.outliers.latency[a.at])[0];
  const [worst, own] = [slowest(() => true), slowest((whose) => whose === "allocator")];
  byId("hitch").hidden = !worst;
  if (!worst) return;
  const both = own && worst.doing[0] !== "allocator";
  const title = both ? "The worst hitch that nothing interrupted" : "The worst hitch";
  byId("hitch").replaceChildren(
    ...(await Promise.all([
      hitchCard(title, own ?? worst),
      ...(both ? [hitchCard(longerTitle(worst.outliers.cause[worst.at]), worst)] : []),
    ])),
  );
};
