// Sheets: cells of a level as a dense picture of what to draw, before any colour. Painters turn them into pixels.
//
// A texel's four bytes: strength (0: nothing here, else one more than eighths of the logarithm of the calls), hue by
// size, hue by cause, hue by thread. Both painters read the same bytes, so they cannot disagree.

const ROWS = [Math.max(0, facts.row_range[0] - 3), facts.row_range[1] + 4];
const STRENGTHS_PER_OCTAVE = 8;
const SHEETS_KEPT = 6;

const latencyOfRow = (row) => 2 ** (row / facts.rows_per_octave);
const rowOfLatency = (ns) => Math.log2(Math.max(ns, 1)) * facts.rows_per_octave;
const rowCount = ROWS[1] - ROWS[0] + 1;
const strengthOf = (calls) => 1 + Math.min(254, Math.round(Math.log2(calls) * STRENGTHS_PER_OCTAVE));

/** How many rows a row's value stands for: a clock that counts in large steps leaves the rows between them empty. */
const reachOfRows = (height, groups) => Array.from({ length: height }, (_, row) => {
  const low = latencyOfRow(ROWS[0] + row * groups);
  const next = (Math.ceil(low / facts.clock.step_ns - 1e-6) + 1) * facts.clock.step_ns;
  const nextRow = Math.floor((rowOfLatency(next) + 1e-6 - ROWS[0]) / groups);
  return clamp(nextRow - row, 1, height - row);
});

/** Adds a column's cells up into rows of `groups`, in rising order: `each(row, sums)`. */
const eachRow = (level, column, groups, each) => {
  let row = -1;
  let sum = null;
  for (let cell = level.starts[column]; cell < level.starts[column + 1]; cell += 1) {
    const its = Math.floor((clamp(level.rows[cell], ROWS[0], ROWS[1]) - ROWS[0]) / groups);
    if (its !== row) {
      if (sum) each(row, sum);
      row = its;
      sum = { calls: 0, sizes: 0, kernel: 0, interrupted: 0, lanes: [0], leads: [0] };
    }
    sum.calls += level.counts[cell];
    sum.sizes += level.sizes[cell] * level.counts[cell];
    sum.kernel += level.kernel[cell];
    sum.interrupted += level.interrupted[cell];
    vote(sum, 0, level.lanes[cell], level.leads[cell]);
  }
  if (sum) each(row, sum);
};

const causeOfCell = (sum) => (sum.interrupted * 2 > sum.calls ? 2 : sum.kernel * 2 > sum.calls ? 1 : 0);

class Sheet {
  constructor(first, width, groups, columns) {
    this.first = first;
    this.width = width;
    this.groups = groups;
    this.columns = columns;
    this.height = Math.ceil(rowCount / groups);
    this.bytes = new Uint8Array(width * this.height * 4);
    this.peaks = new Float64Array(width);
    this.singles = [];
  }

  /** Writes a cell; `reach` rows upward belong to it unless a later cell takes them. */
  put(column, row, reach, calls, hues) {
    for (let up = 0; up < reach; up += 1) {
      const at = ((this.height - 1 - row - up) * this.width + column) * 4;
      this.bytes[at] = strengthOf(calls);
      this.bytes.set(hues, at + 1);
    }
    if (calls > this.peaks[column]) this.peaks[column] = calls;
    if (reach === 1) this.singles.push((this.height - 1 - row) * this.width + column);
  }

  /** One texel with nothing around it would hardly be seen: such are drawn two by two. */
  thicken() {
    const { bytes, width } = this;
    const filled = (at) => bytes[at * 4] > 0;
    const alone = this.singles.filter((at) =>
      !(filled(at - 1) || filled(at + 1) || filled(at - width) || filled(at + width)));
    for (const at of alone) {
      const texel = bytes.subarray(at * 4, at * 4 + 4);
      const right = (at + 1) % width !== 0;
      if (right) bytes.set(texel, (at + 1) * 4);
      if (at >= width) bytes.set(texel, (at - width) * 4);
      if (right && at >= width) bytes.set(texel, (at - width + 1) * 4);
    }
    this.singles = null;
  }

  /** Most calls of a cell within columns of the level. */
  highest(first, last) {
    let most = 0;
    const end = Math.min(this.width, last - this.first);
    for (let column = Math.max(0, first - this.first); column < end; column += 1) {
      if (this.peaks[column] > most) most = this.peaks[column];
    }
    return most;
  }
}

const sheetOfLevel = (level, first, width, groups) => {
  const sheet = new Sheet(first, width, groups, level.columns);
  const reach = reachOfRows(sheet.height, groups);
  for (let column = 0; column < width; column += 1) {
    eachRow(level, first + column, groups, (row, sum) => sheet.put(column, row, reach[row], sum.calls,
      [hueOfStep(sum.sizes / sum.calls), causeOfCell(sum), sum.lanes[0]]));
  }
  sheet.thicken();
  return sheet;
};

/** Where one has more calls than the other: the difference is the strength, who has more is the hue. */
const sheetOfDifference = (one, other, first, width, groups) => {
  const sheet = new Sheet(first, width, groups, one.columns);
  const reach = reachOfRows(sheet.height, groups);
  for (let column = 0; column < width; column += 1) {
    const calls = new Map();
    eachRow(one, first + column, groups, (row, sum) => calls.set(row, sum.calls));
    eachRow(other, first + column, groups, (row, sum) => calls.set(row, (calls.get(row) ?? 0) - sum.calls));
    for (const [row, more] of [...calls].sort((a, b) => a[0] - b[0])) {
      if (more !== 0) sheet.put(column, row, reach[row], Math.abs(more), [more > 0 ? 0 : 1, 0, 0]);
    }
  }
  sheet.thicken();
  return sheet;
};

/** Sheets of one panel, the latest used kept. A sheet spans more than the view, so that panning finds it made. */
class Sheets {
  constructor(build) { this.build = build; this.kept = new Map(); }

  at(columns, [first, last], groups) {
    let width = 1024;
    while (width < (last - first) * 2) width *= 2;
    width = Math.min(width, columns);
    const start = width === columns ? 0 : clamp(Math.floor(first / (width / 2)) * (width / 2), 0, columns - width);
    const key = `${columns}:${start}:${width}:${groups}`;
    const sheet = this.kept.get(key) ?? this.build(start, width, groups);
    this.kept.delete(key);
    this.kept.set(key, sheet);
    for (const [old, gone] of this.kept) {
      if (this.kept.size <= SHEETS_KEPT) break;
      this.kept.delete(old);
      painter.forget?.(gone);
    }
    return sheet;
  }
}
