// Formats numbers and builds elements. Independent of the page's data.

const scaled = (value, step, units) => {
  let unit = 0;
  while (value >= step - 0.5 && unit < units.length - 1) {
    value /= step;
    unit += 1;
  }
  const digits = value >= 99.95 || Number.isInteger(value) ? 0 : value >= 9.995 ? 1 : 2;
  return `${value.toFixed(digits)}\u00a0${units[unit]}`;
};

/** `21.4 ns`, `1.23 µs`, `45 ms`. Every duration on the page is formatted here. */
const duration = (ns) => scaled(ns, 1000, ["ns", "µs", "ms", "s"]);

/** `96.5 MiB` */
const bytes = (value) => scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);

/** `1,234` below 100,000; `123 k`, `12.3 M` above. */
const count = (value) => {
  if (value < 100000) return Math.round(value).toLocaleString("en-US");
  return value < 1e6 ? `${(value / 1e3).toFixed(0)}\u00a0k` : scaled(value / 1e6, 1000, ["M", "G"]);
};

/** A time of the journal: `12.345 s`, with as many digits as the visible span needs. */
const timestamp = (ns, span = ns) => {
  if (ns === 0) return "0\u00a0s";
  const digits = Math.max(0, Math.min(9, Math.ceil(2.5 - Math.log10(Math.max(span, 1) / 1e9))));
  return `${(ns / 1e9).toFixed(digits)}\u00a0s`;
};

const percent = (share) => {
  if (share === 0) return "0\u00a0%";
  const value = share * 100;
  if (value < 0.01) return "<\u00a00.01\u00a0%";
  if (value >= 10) return `${Math.round(value).toLocaleString("en-US")}\u00a0%`;
  return `${value.toFixed(value < 1 ? 2 : 1)}\u00a0%`;
};

/** `1 run`, `5 runs` */
const pluralize = (number, one, many) => `${count(number)} ${number === 1 ? one : many}`;

/** Replaces each `{name}` in a phrase by its value. */
const fillPhrase = (phrase, values) => phrase.replace(/\{(\w+)\}/g, (_, name) => values[name]);

/** `a, b and c` */
const list = (names) =>
  names.length < 2
    ? names.join("")
    : `${names.slice(0, -1).join(", ")} and ${names[names.length - 1]}`;

/** The parts that are not empty, separated by dots. */
const joined = (parts) => parts.filter(Boolean).join(" · ");

/** The text with no-break spaces between numbers and their units. */
const bound = (text) =>
  text.replace(/(\d) (?=(?:[nµm]?s|[KMGTPE]?i?B|Hz)\b|%)/g, "$1\u00a0");

/** Appends children. Between elements with text is a blank: copied text does not run together. */
const fill = (element, ...children) => {
  const known = children.filter((child) => child !== null && child !== undefined && child !== "");
  let hadText = false;
  for (const child of known) {
    const isElement = typeof child !== "string";
    const hasText = isElement && child.textContent !== "";
    if (hadText && hasText) element.append(" ");
    element.append(isElement ? child : bound(child));
    hadText = isElement && (hasText || hadText);
  }
};

/** An element. Attributes that begin with "on" are listeners; `text` is the text content. */
const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") element.textContent = bound(String(value));
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  fill(element, ...children);
  return element;
};

/** Sets the description that screen readers announce for a chart. */
const setLabel = (canvas, text) => {
  if (canvas.getAttribute("aria-label") !== text) canvas.setAttribute("aria-label", text);
};

const byId = (id) => document.getElementById(id);
/** Replaces the text of an element. */
const putText = (id, text) => {
  byId(id).textContent = bound(text);
};
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
