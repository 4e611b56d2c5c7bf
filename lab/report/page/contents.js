// The contents list, which stays in sight; sections that fold; and links to every section, call,
// frame and call site: `#percentiles-section`, `#call-keel-17`, `#frame-120`, `#site-3`. If the
// page has several comparisons, the number of the comparison may be in front: `#2/frame-120`.

const sections = () =>
  [...document.querySelectorAll("main > section")].filter((section) => !section.hidden);
const headingOf = (section) => section.querySelector(":scope > h2");

// The page opens with the decision and, where there is room, with the calls.
const isOpenAtFirst = ({ id }) =>
  id === "decision" || id === "comparisons-section" || (id === "calls" && window.innerWidth > 700);

const setFolded = (section, folded) => {
  const heading = headingOf(section);
  if (!heading) return;
  section.classList.toggle("folded", folded);
  heading.querySelector("button")?.setAttribute("aria-expanded", String(!folded));
};

/** Opens the section that contains an element. */
const unfold = (element) => {
  const section = element.closest("main > section");
  if (section) setFolded(section, false);
};

const makeFoldable = (section) => {
  const heading = headingOf(section);
  if (!heading || section.id === "decision") return;
  const button = make("button", {
    type: "button",
    class: "fold",
    "aria-expanded": "true",
    onclick: () => setFolded(section, !section.classList.contains("folded")),
  });
  // The title may change, and it names the section.
  const title = make("span", { id: heading.id });
  title.append(...heading.childNodes);
  heading.removeAttribute("id");
  button.append(title);
  heading.append(button);
  setFolded(section, !isOpenAtFirst(section));
};

const drawContents = () => {
  const links = sections().map((section) =>
    make("a", {
      href: `#${section.id}`,
      text: section.id === "decision" ? "Decision" : headingOf(section).textContent,
      onclick: () => setFolded(section, false),
    }),
  );
  byId("contents").replaceChildren(...links);
  const seen = new Set();
  const mark = () => {
    const first = sections().find((section) => seen.has(section));
    links.forEach((link) => {
      const isHere = first && link.getAttribute("href") === `#${first.id}`;
      if (isHere) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    });
  };
  const observer = new IntersectionObserver(
    (entries) => {
      entries.forEach(({ target, isIntersecting }) =>
        seen[isIntersecting ? "add" : "delete"](target),
      );
      mark();
    },
    { rootMargin: "-60px 0px -50% 0px" },
  );
  sections().forEach((section) => observer.observe(section));
};

/** Puts a link to what is shown into the address, without an entry in the history. */
const setLink = (hash) => {
  try {
    const comparison = /^#\d+(?=\/|$)/.exec(location.hash)?.[0];
    history.replaceState(null, "", comparison ? `${comparison}/${hash}` : `#${hash}`);
  } catch {
    /* some browsers deny it for file:// pages */
  }
};

const linkOfCall = (index, at) => `call-${facts.allocators[index].name}-${at}`;

/** Shows a frame in the charts. */
const showFrame = (frame) => {
  const from = frameMarks?.[frame - 1];
  if (from === undefined) return;
  const to = frameMarks[frame] ?? facts.span_ns;
  unfold(byId("calls"));
  setView(from, to);
  setLink(`frame-${frame}`);
  byId("calls").scrollIntoView({ block: "start" });
};

/** Shows what the address names. */
const followLink = async () => {
  const hash = decodeURIComponent(location.hash.slice(1)).replace(/^\d+(\/|$)/, "");
  const call = /^call-(.+)-(\d+)$/.exec(hash);
  const frame = /^frame-(\d+)$/.exec(hash);
  if (call) {
    const index = facts.allocators.findIndex(({ name }) => name === call[1]);
    if (index < 0) return;
    const [outliers] = await Promise.all([loadOutliers(index), loadStacks()]);
    const at = Number(call[2]);
    if (outliers && at < outliers.length) await showCall(index, outliers, at);
  } else if (frame) {
    showFrame(Number(frame[1]));
  } else if (hash) {
    const element = byId(hash);
    if (!element) return;
    unfold(element);
    element.scrollIntoView({ block: "start" });
  }
};

const setUpContents = () => {
  sections().forEach(makeFoldable);
  drawContents();
  window.addEventListener("hashchange", followLink);
  window.addEventListener("beforeprint", () => {
    sections().forEach((one) => setFolded(one, false));
    document.querySelectorAll(".hitch-rest").forEach((card) => (card.open = true));
  });
  followLink();
};
