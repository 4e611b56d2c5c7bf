// The slowest calls. lab/report chooses them and writes the sentences; this file only shows them.

const hitchCard = async ({
  allocator,
  at,
  attribution,
  title,
  sentence,
  cause,
  verdict,
  others,
  run,
}) => {
  const [outliers] = await Promise.all([loadOutliers(allocator), loadStacks()]);
  // Only calls of the drawn runs are in the page.
  const drawn = at !== null;
  const site = drawn && outliers ? siteText(outliers, at) : null;
  const show = make("button", {
    type: "button",
    class: "link",
    text: "Show call",
    onclick: () => showCall(allocator, outliers, at),
  });
  return make(
    "article",
    { class: "hitch-card", "data-attribution": attribution },
    make("p", {}, make("b", { text: title }), ` ${sentence} ${cause}`),
    site && stackDetails(outliers, at, site),
    make(
      "p",
      { class: "fine" },
      ...[verdict, others, run].filter(Boolean).map((text) => `${text} `),
      ...(drawn ? [show] : []),
    ),
  );
};

/** The call site of a slow call, and its whole stack on request. */
const stackDetails = (outliers, at, site) =>
  make(
    "details",
    {},
    make("summary", {}, make("b", { text: "Called in:" }), ` ${site}`),
    stackList(outliers, at),
  );

const drawHitches = async () => {
  byId("hitch").hidden = !facts.hitches.length;
  byId("hitch").replaceChildren(...(await Promise.all(facts.hitches.map(hitchCard))));
};
