// Levels of tiles. Each level has half the columns of the one below and counts every call once.

/**
 * The lane with more than half of the calls, if there is one. This is the majority vote of Boyer
 * and Moore: calls of different lanes cancel out. The lead is the number of calls that remain. The
 * Rust side builds the finest level with the same rule (tiles.rs).
 */
const vote = (to, at, lane, lead) => {
  if (to.lanes[at] === lane) to.leads[at] += lead;
  else if (to.leads[at] >= lead) to.leads[at] -= lead;
  else {
    to.leads[at] = lead - to.leads[at];
    to.lanes[at] = lane;
  }
};

const mergeInto = (to, at, from, cell) => {
  const total = to.counts[at] + from.counts[cell];
  to.sizes[at] = (to.sizes[at] * to.counts[at] + from.sizes[cell] * from.counts[cell]) / total;
  to.counts[at] = total;
  to.kernel[at] += from.kernel[cell];
  to.interrupted[at] += from.interrupted[cell];
  vote(to, at, from.lanes[cell], from.leads[cell]);
};

const halve = (level) => {
  const columns = level.columns / 2;
  const cells = level.rows.length;
  const to = {
    columns,
    starts: new Uint32Array(columns + 1),
    rows: new Uint16Array(cells),
    counts: new Uint32Array(cells),
    sizes: new Float32Array(cells),
    kernel: new Uint32Array(cells),
    interrupted: new Uint32Array(cells),
    lanes: new Uint8Array(cells),
    leads: new Uint32Array(cells),
  };
  let at = 0;
  for (let column = 0; column < columns; column += 1) {
    let left = level.starts[2 * column];
    const middle = level.starts[2 * column + 1];
    let right = middle;
    const end = level.starts[2 * column + 2];
    while (left < middle || right < end) {
      const leftRow = left < middle ? level.rows[left] : 65535;
      const rightRow = right < end ? level.rows[right] : 65535;
      to.rows[at] = Math.min(leftRow, rightRow);
      if (leftRow <= rightRow) mergeInto(to, at, level, left++);
      if (rightRow <= leftRow) mergeInto(to, at, level, right++);
      at += 1;
    }
    to.starts[column + 1] = at;
  }
  for (const name of ["rows", "counts", "sizes", "kernel", "interrupted", "lanes", "leads"]) {
    to[name] = to[name].slice(0, at);
  }
  return to;
};

class Pyramid {
  constructor(finest) {
    this.levels = [finest];
  }

  /** The finest level of which `share` of the time axis has at most `columns` columns. */
  level(share, columns) {
    let depth = 0;
    while (this.levels[depth].columns * share > columns && this.levels[depth].columns > 64) {
      depth += 1;
      if (depth === this.levels.length) this.levels.push(halve(this.levels[depth - 1]));
    }
    return this.levels[depth];
  }
}

/** Prefix sums of a level's calls, so that counting the calls in view is one subtraction. */
const callsBefore = (level) =>
  (level.before ??= (() => {
    const before = new Float64Array(level.columns + 1);
    for (let column = 0; column < level.columns; column += 1) {
      before[column + 1] = before[column];
      for (let cell = level.starts[column]; cell < level.starts[column + 1]; cell += 1) {
        before[column + 1] += level.counts[cell];
      }
    }
    return before;
  })());

/** The columns of a level that a view covers: the first, and one past the last. */
const columnsInView = (level, view) => {
  const first = clamp(
    Math.floor((view.from / facts.span_ns) * level.columns),
    0,
    level.columns - 1,
  );
  return [
    first,
    clamp(Math.ceil((view.to / facts.span_ns) * level.columns), first + 1, level.columns),
  ];
};

const callsInView = (level, view) => {
  const [first, last] = columnsInView(level, view);
  return callsBefore(level)[last] - callsBefore(level)[first];
};

/** The sum of the cells in a range of rows of one column; null if there are none. */
const cellsAt = (level, column, fromRow, toRow) => {
  const sum = { calls: 0, sizes: 0, kernel: 0, interrupted: 0, lanes: [0], leads: [0] };
  for (let cell = level.starts[column]; cell < level.starts[column + 1]; cell += 1) {
    if (level.rows[cell] < fromRow || level.rows[cell] >= toRow) continue;
    sum.calls += level.counts[cell];
    sum.sizes += level.sizes[cell] * level.counts[cell];
    sum.kernel += level.kernel[cell];
    sum.interrupted += level.interrupted[cell];
    vote(sum, 0, level.lanes[cell], level.leads[cell]);
  }
  return sum.calls ? sum : null;
};
