// The contents list, which stays in sight; sections that fold; and links to every section, call,
// frame and call site: `#percentiles-section`, `#call-keel-17`, `#frame-120`, `#site-3`. If the
// page has several comparisons, the number of the comparison may be in front: `#2/frame-120`.

const sections = () => [...document.querySelectorAll("main > section")];
const headingOf = (section) => section.querySelector(":scope > h2");

// The page opens with the decision and, where there is room, with the calls.
const isOpenAtFirst = ({ id }) =>
  id === "decision" ||
  id === "comparisons-section" ||
  (id === "calls" && window.innerWidth > 700 && comparisonElements.length < 2);

const setFolded = (section, folded) => {
  const heading = headingOf(section);
  if (!heading) return;
  section.classList.toggle("folded", folded);
  heading.querySelector("button")?.setAttribute("aria-expanded", String(!folded));
};

/** Opens the section that contains an element, and moves view and focus to the element. */
const reveal = (element, behavior = "auto") => {
  const section = element.closest("main > section");
  if (section) setFolded(section, false);
  element.scrollIntoView({ block: "start", behavior });
  // Tab goes on from here.
  if (element.tabIndex < 0) element.tabIndex = -1;
  element.focus({ preventScroll: true });
};

const LONGEST_PX = 4000;
const FOLDED_PX = 50;

/**
 * Folds the calls if the page would be too long with them, because the decision is long; not if the
 * reader has unfolded a section already and reads.
 */
const keepShort = () => {
  const isUnfolded = (one) => headingOf(one) && !one.classList.contains("folded");
  if (sections().some((one) => isUnfolded(one) && !isOpenAtFirst(one))) return;
  // These may still appear, folded.
  const late = [byId("sizes-section"), byId("lifetimes-section")].filter(({ hidden }) => hidden);
  const length = document.documentElement.scrollHeight + late.length * FOLDED_PX;
  if (length > LONGEST_PX) setFolded(byId("calls"), true);
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

/** The address of a part of the page, which contains the comparison if there are several. */
const addressOf = (hash) =>
  comparisonElements.length < 2 ? `#${hash}` : `#${currentComparison + 1}/${hash}`;

const drawContents = () => {
  const listed = sections().map((section) => ({
    section,
    link: make("a", { href: addressOf(section.id), onclick: () => reveal(section) }),
  }));
  byId("contents").replaceChildren(...listed.map(({ link }) => link));
  // A chart shows its section once it is known to have something to show, and may change its title.
  const follow = () =>
    listed.forEach(({ section, link }) => {
      link.hidden = section.hidden;
      link.textContent = section.id === "decision" ? "Decision" : headingOf(section).textContent;
    });
  const changes = new MutationObserver(follow);
  for (const { section } of listed) {
    changes.observe(section, { attributeFilter: ["hidden"] });
    const heading = headingOf(section);
    if (heading) changes.observe(heading, { childList: true, subtree: true });
  }
  follow();
  const seen = new Set();
  const mark = () => {
    const here = listed.find(({ section }) => seen.has(section));
    listed.forEach((one) => {
      if (one === here) one.link.setAttribute("aria-current", "true");
      else one.link.removeAttribute("aria-current");
    });
    // On a narrow screen the list is one line, which scrolls.
    if (here) byId("contents").scrollLeft = here.link.offsetLeft - byId("contents").offsetLeft - 16;
  };
  const observer = new IntersectionObserver(
    (entries) => {
      entries.forEach(({ target, isIntersecting }) =>
        seen[isIntersecting ? "add" : "delete"](target),
      );
      mark();
    },
    // A section is here from a little below the list on.
    { rootMargin: "-100px 0px -50% 0px" },
  );
  listed.forEach(({ section }) => observer.observe(section));
  // What is scrolled to is below the list, which may have several lines.
  const below = () => {
    document.documentElement.style.scrollPaddingTop = `${byId("contents").offsetHeight + 6}px`;
  };
  new ResizeObserver(below).observe(byId("contents"));
};

/** Puts a link to what is shown into the address, without an entry in the history. */
const setLink = (hash) => {
  try {
    history.replaceState(null, "", addressOf(hash));
  } catch {
    /* some browsers deny it for file:// pages */
  }
};

const linkOfCall = (index, at) => `call-${encodeURIComponent(facts.allocators[index].name)}-${at}`;

/** Shows a frame in the charts. */
const showFrame = (frame) => {
  const from = frameMarks?.[frame - 1];
  if (from === undefined) return;
  const to = frameMarks[frame] ?? facts.span_ns;
  setView(from, to);
  setLink(`frame-${frame}`);
  reveal(byId("calls"));
};

/** What the address names, without the comparison; empty if it is no address of this page. */
const namedByAddress = () => {
  try {
    return decodeURIComponent(location.hash.slice(1).replace(/^\d+(\/|$)/, ""));
  } catch {
    return "";
  }
};

/** Shows what the address names. */
const followLink = async () => {
  const hash = namedByAddress();
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
  } else if (/^site-\d+$/.test(hash)) {
    showSite(hash);
  } else if (hash) {
    const element = byId(hash);
    if (element) reveal(element, "instant");
  }
};

const setUpContents = () => {
  sections().forEach(makeFoldable);
  drawContents();
  document.querySelector(".skip").setAttribute("href", addressOf("calls"));
  // Each comparison starts the page anew.
  window.addEventListener("hashchange", () => {
    if (numberInAddress() === currentComparison) followLink();
    else location.reload();
  });
  let folded = [];
  let closed = [];
  window.addEventListener("beforeprint", () => {
    folded = sections().filter((section) => section.classList.contains("folded"));
    folded.forEach((section) => setFolded(section, false));
    closed = [...document.querySelectorAll(".hitch-rest:not([open])")];
    closed.forEach((card) => (card.open = true));
  });
  window.addEventListener("afterprint", () => {
    folded.forEach((section) => setFolded(section, true));
    closed.forEach((card) => (card.open = false));
  });
};
