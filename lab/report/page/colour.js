// Colours. Lightness encodes density; hue encodes size, cause or thread. The size ramp follows the
// blue-yellow axis, which is distinguishable with every common kind of colour vision.

/** OKLab to 8-bit sRGB. */
const oklab = (lightness, a, b) => {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return linear.map((value) => {
    const v = clamp(value, 0, 1);
    return Math.round(255 * (v <= 0.0031308 ? 12.92 * v : 1.055 * v ** (1 / 2.4) - 0.055));
  });
};

// Position on the ramp, hue and chroma, from the smallest blocks to the largest.
const SIZE_STOPS = [
  [0, 272, 0.17],
  [0.3, 232, 0.12],
  [0.52, 178, 0.085],
  [0.72, 92, 0.13],
  [0.86, 62, 0.16],
  [1, 34, 0.19],
];
const SIZE_LOW = 4; // 16 bytes
const SIZE_HIGH = 20; // 1 MiB
const HUES = 64;
const SHADES = 128;

const polar = (hue, chroma) => [
  chroma * Math.cos((hue * Math.PI) / 180),
  chroma * Math.sin((hue * Math.PI) / 180),
];

/** a and b of the size ramp at 0..1. */
const sizeHue = (part) => {
  const next = Math.max(
    1,
    SIZE_STOPS.findIndex((stop) => stop[0] >= part),
  );
  const [from, to] = [SIZE_STOPS[next - 1], SIZE_STOPS[next]];
  const [a, b] = [polar(from[1], from[2]), polar(to[1], to[2])];
  const share = (part - from[0]) / (to[0] - from[0]);
  return [a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share];
};

const CAUSES = [
  { id: "own", label: "allocator's own work", hue: polar(240, 0.1) },
  { id: "kernel", label: "page fault or system call", hue: polar(75, 0.16) },
  { id: "interrupted", label: "preempted, hardware interrupt, or waiting", hue: polar(350, 0.2) },
  { id: "unknown", label: "unknown", hue: polar(200, 0.02) },
];

/** Index into CAUSES of a cause's bits. */
const causeIndex = (cause) => {
  if (cause & (CAUSE.interrupted | CAUSE.slept)) return 2;
  if (cause & (CAUSE.fault | CAUSE.syscall)) return 1;
  if (cause & CAUSE.interrupt) return 2;
  return cause & (CAUSE.unknown | CAUSE.syscallUnknown) ? 3 : 0;
};

// Threads, busiest first: hues that are far apart, those of neighbours the furthest. Threads are
// always labelled as well.
const LANE_HUES = [245, 60, 155, 350, 200, 95, 300, 25, 130, 270, 75, 180, 325, 225, 110];
const laneHue = (lane) =>
  facts.lanes[lane]?.thread == null ? [0, 0] : polar(LANE_HUES[lane % 15], 0.14);
const laneOf = (thread) => {
  const lane = facts.lanes.findIndex((one) => one.thread === thread);
  return lane < 0 ? facts.lanes.length - 1 : lane;
};
const laneName = (lane) =>
  facts.lanes[lane]?.thread == null ? "other threads" : `thread ${facts.lanes[lane].thread}`;

// More calls of the first allocator, more calls of the second: orange and blue.
const DIFFERENCE_HUES = [polar(55, 0.17), polar(255, 0.15)];

const dark = () => document.documentElement.dataset.theme === "dark";

/** One shade of a hue: strength 0 is a single call, 1 the densest cell. */
const shade = ([a, b], strength) => {
  const lightness = dark() ? 0.42 + 0.53 * strength : 0.76 - 0.5 * strength;
  const fullness = dark()
    ? 0.55 + 0.9 * strength * (1.35 - strength)
    : 0.6 + 0.5 * Math.sqrt(strength);
  return oklab(lightness, a * fullness, b * fullness);
};

const packed = ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
const unpacked = (word) => [word & 255, (word >>> 8) & 255, (word >>> 16) & 255];
const css = ([red, green, blue]) => `rgb(${red} ${green} ${blue})`;

const ramps = new Map();
/** Pixels of a ramp: `ramp[hue * SHADES + shade]`. */
const rampOf = (colour) => {
  const key = `${colour}-${dark()}`;
  if (!ramps.has(key)) {
    const hues = {
      size: () => Array.from({ length: HUES }, (_, index) => sizeHue(index / (HUES - 1))),
      cause: () => CAUSES.map((cause) => cause.hue),
      thread: () => Array.from({ length: LANE_HUES.length + 1 }, (_, lane) => laneHue(lane)),
      difference: () => DIFFERENCE_HUES.slice(),
    }[colour]();
    hues.push([0, 0]); // unknown size
    const ramp = new Uint32Array(hues.length * SHADES);
    hues.forEach((hue, index) => {
      for (let step = 0; step < SHADES; step += 1) {
        ramp[index * SHADES + step] = packed(shade(hue, step / (SHADES - 1)));
      }
    });
    ramps.set(key, ramp);
  }
  return ramps.get(key);
};

/** Index of the hue for a size step: 1 + 4 * log2(bytes), or 0 for an unknown size. */
const hueOfStep = (step) => {
  if (step < 0.5) return HUES;
  return Math.round(clamp(((step - 1) / 4 - SIZE_LOW) / (SIZE_HIGH - SIZE_LOW), 0, 1) * (HUES - 1));
};
const stepOfSize = (size) => (size > 0 ? 1 + 4 * Math.log2(size) : 0);

// Allocators: fixed colours (after Okabe and Ito) and dashes, so that an allocator looks the same
// on every page.
const KNOWN = {
  keel: ["#d1490c", "#ff7a3d", []],
  glibc: ["#5b6470", "#a3adb9", []],
  system: ["#5b6470", "#a3adb9", []], // glibc in results of older versions
  "glibc-tuned": ["#1c2530", "#e4eaf1", [6, 3]],
  mimalloc: ["#0067a3", "#4aa8e0", []],
  mimalloc2: ["#3b9bd0", "#8fd0f5", [6, 3]],
  jemalloc: ["#00805c", "#2fc29a", []],
  snmalloc: ["#b0588c", "#e39ac4", []],
  rpmalloc: ["#b87a00", "#f0b32e", []],
  tlsf: ["#75700a", "#d8d04f", [6, 3]],
  dlmalloc: ["#6a4fb5", "#ab93ee", [6, 3]],
  null: ["#9aa1aa", "#6c747e", [2, 3]],
};
const SPARE = [
  ["#8a3b12", "#e0a184", [2, 2]],
  ["#2b5f5f", "#85c9c9", [2, 2]],
  ["#7a2f6b", "#d59ac9", [2, 2]],
];

const styleOf = (index) => {
  const name = facts.allocators[index].name;
  const [light, night, dash] = KNOWN[name] ?? SPARE[index % SPARE.length];
  return { colour: dark() ? night : light, dash, width: name === "keel" ? 2.4 : 1.5 };
};
