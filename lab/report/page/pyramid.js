// Levels of tiles: each half as many columns as the one below, every call counted once in each.

const mergeInto = (to, at, from, cell) => {
  const total = to.counts[at] + from.counts[cell];
  to.sizes[at] = (to.sizes[at] * to.counts[at] + from.sizes[cell] * from.counts[cell]) / total;
  to.counts[at] = total;
  to.kernel[at] += from.kernel[cell];
  to.interrupted[at] += from.interrupted[cell];
};

const halve = (level) => {
  const columns = level.columns / 2;
  const cells = level.rows.length;
  const to = {
    columns, starts: new Uint32Array(columns + 1), rows: new Uint16Array(cells), counts: new Uint32Array(cells),
    sizes: new Float32Array(cells), kernel: new Uint32Array(cells), interrupted: new Uint32Array(cells),
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
  for (const name of ["rows", "counts", "sizes", "kernel", "interrupted"]) to[name] = to[name].slice(0, at);
  return to;
};

class Pyramid {
  constructor(finest) { this.levels = [finest]; }

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

/** Calls in each column of a level. */
const columnTotals = (level) => {
  const totals = new Float64Array(level.columns);
  for (let column = 0; column < level.columns; column += 1) {
    const end = level.starts[column + 1];
    for (let cell = level.starts[column]; cell < end; cell += 1) totals[column] += level.counts[cell];
  }
  return totals;
};

/** A level's cells between two moments, added up into a grid of `groups` rows to a pixel row. */
const gridOf = (level, view, rowRange, groups) => {
  const first = clamp(Math.floor(view.from / facts.span_ns * level.columns), 0, level.columns - 1);
  const last = clamp(Math.ceil(view.to / facts.span_ns * level.columns), first + 1, level.columns);
  const width = last - first;
  const height = Math.ceil((rowRange[1] - rowRange[0] + 1) / groups);
  const grid = {
    first, width, height, counts: new Float64Array(width * height), sizes: new Float64Array(width * height),
    kernel: new Float64Array(width * height), interrupted: new Float64Array(width * height), calls: 0, highest: 0,
  };
  for (let column = first; column < last; column += 1) {
    for (let cell = level.starts[column]; cell < level.starts[column + 1]; cell += 1) {
      const row = Math.floor((clamp(level.rows[cell], rowRange[0], rowRange[1]) - rowRange[0]) / groups);
      const at = (height - 1 - row) * width + column - first;
      const calls = level.counts[cell];
      grid.counts[at] += calls;
      grid.sizes[at] += level.sizes[cell] * calls;
      grid.kernel[at] += level.kernel[cell];
      grid.interrupted[at] += level.interrupted[cell];
      grid.calls += calls;
      if (grid.counts[at] > grid.highest) grid.highest = grid.counts[at];
    }
  }
  return grid;
};
