// Rasters: the cells of a level as a dense image, before colours are applied. Painters turn a
// raster into pixels.
//
// A texel has four bytes:
//
//   byte 0   strength: 0 for no call, else 1 + 8 * log2(calls), rounded
//   byte 1   hue by size, or for a difference the allocator that has more calls
//   byte 2   hue by cause
//   byte 3   hue by thread
//
// Both painters read the same bytes and therefore draw the same picture.

const ROWS = [Math.max(0, facts.row_range[0] - 3), facts.row_range[1] + 4];
const STRENGTHS_PER_OCTAVE = 8;
const RASTERS_KEPT = 6;

const latencyOfRow = (row) => 2 ** (row / facts.rows_per_octave);
const rowOfLatency = (ns) => Math.log2(Math.max(ns, 1)) * facts.rows_per_octave;
const rowCount = ROWS[1] - ROWS[0] + 1;
const strengthOf = (calls) =>
  1 + Math.min(254, Math.round(Math.log2(calls) * STRENGTHS_PER_OCTAVE));

/**
 * How many rows each row fills: a clock with a coarse step leaves the rows between two steps empty.
 */
const reachOfRows = (height, groups) =>
  Array.from({ length: height }, (_, row) => {
    const low = latencyOfRow(ROWS[0] + row * groups);
    const next = (Math.ceil(low / facts.clock.step_ns - 1e-6) + 1) * facts.clock.step_ns;
    const nextRow = Math.floor((rowOfLatency(next) + 1e-6 - ROWS[0]) / groups);
    return clamp(nextRow - row, 1, height - row);
  });

/**
 * Sums a column's cells in groups of `groups` rows and calls `each(row, sums)` in ascending order.
 */
const eachRow = (level, column, groups, each) => {
  let row = -1;
  const sum = { calls: 0, sizes: 0, kernel: 0, interrupted: 0, lanes: [0], leads: [0] };
  for (let cell = level.starts[column]; cell < level.starts[column + 1]; cell += 1) {
    const its = Math.floor((clamp(level.rows[cell], ROWS[0], ROWS[1]) - ROWS[0]) / groups);
    if (its !== row) {
      if (sum.calls) each(row, sum);
      row = its;
      sum.calls = sum.sizes = sum.kernel = sum.interrupted = sum.lanes[0] = sum.leads[0] = 0;
    }
    sum.calls += level.counts[cell];
    sum.sizes += level.sizes[cell] * level.counts[cell];
    sum.kernel += level.kernel[cell];
    sum.interrupted += level.interrupted[cell];
    vote(sum, 0, level.lanes[cell], level.leads[cell]);
  }
  if (sum.calls) each(row, sum);
};

const causeOfCell = (calls, kernel, interrupted) =>
  interrupted * 2 > calls ? 2 : kernel * 2 > calls ? 1 : 0;

const STRENGTHS = Uint8Array.from({ length: 4096 }, (_, calls) => (calls ? strengthOf(calls) : 0));
const texel = (calls, size, cause, lane) =>
  ((calls < 4096 ? STRENGTHS[calls] : strengthOf(calls)) |
    (hueOfStep(size) << 8) |
    (cause << 16) |
    (lane << 24)) >>>
  0;
const texelOfSum = (sum) =>
  texel(
    sum.calls,
    sum.sizes / sum.calls,
    causeOfCell(sum.calls, sum.kernel, sum.interrupted),
    sum.lanes[0],
  );

/**
 * One texel for each cell of a level; null if cells beyond the outermost rows must be summed first.
 */
const texelsOf = (level) => {
  if (level.texels === undefined) {
    const { rows, counts, sizes, kernel, interrupted, lanes, leads } = level;
    level.texels = rows.some((row) => row < ROWS[0] || row > ROWS[1])
      ? null
      : new Uint32Array(rows.length);
    for (let cell = 0; level.texels && cell < rows.length; cell += 1) {
      const cause = causeOfCell(counts[cell], kernel[cell], interrupted[cell]);
      level.texels[cell] = texel(counts[cell], sizes[cell], cause, leads[cell] ? lanes[cell] : 0);
    }
  }
  return level.texels;
};

class Raster {
  /** `cells` is an upper bound of the cells that will be written. */
  constructor(first, width, groups, columns, cells) {
    this.first = first;
    this.width = width;
    this.groups = groups;
    this.columns = columns;
    this.height = Math.ceil(rowCount / groups);
    this.texels = new Uint32Array(width * this.height);
    this.bytes = new Uint8Array(this.texels.buffer);
    this.peaks = new Float64Array(width);
    this.singles = new Uint32Array(cells);
    this.single = 0;
  }

  /** Writes a cell into `reach` rows, upward. A later cell overwrites the rows that it needs. */
  put(column, row, reach, calls, value) {
    let at = (this.height - 1 - row) * this.width + column;
    if (calls > this.peaks[column]) this.peaks[column] = calls;
    if (reach === 1) this.singles[this.single++] = at;
    for (let up = 0; up < reach; up += 1, at -= this.width) this.texels[at] = value;
  }

  /** Draws isolated texels two by two, because a single one is hard to see. */
  thicken() {
    const { texels, width } = this;
    const alone = this.singles
      .subarray(0, this.single)
      .filter(
        (at) => !(texels[at - 1] || texels[at + 1] || texels[at - width] || texels[at + width]),
      );
    for (const at of alone) {
      const right = (at + 1) % width !== 0;
      if (right) texels[at + 1] = texels[at];
      if (at >= width) texels[at - width] = texels[at];
      if (right && at >= width) texels[at - width + 1] = texels[at];
    }
    this.singles = null;
  }

  /** Most calls of any cell in columns first..last of the level. */
  highest(first, last) {
    let most = 0;
    const end = Math.min(this.width, last - this.first);
    for (let column = Math.max(0, first - this.first); column < end; column += 1) {
      if (this.peaks[column] > most) most = this.peaks[column];
    }
    return most;
  }
}

const cellsWithin = (level, first, width) => level.starts[first + width] - level.starts[first];

const rasterOfLevel = (level, first, width, groups) => {
  const raster = new Raster(first, width, groups, level.columns, cellsWithin(level, first, width));
  const reach = reachOfRows(raster.height, groups);
  const texels = groups === 1 ? texelsOf(level) : null;
  for (let column = 0; column < width; column += 1) {
    if (!texels) {
      eachRow(level, first + column, groups, (row, sum) =>
        raster.put(column, row, reach[row], sum.calls, texelOfSum(sum)),
      );
      continue;
    }
    for (
      let cell = level.starts[first + column];
      cell < level.starts[first + column + 1];
      cell += 1
    ) {
      const row = level.rows[cell] - ROWS[0];
      raster.put(column, row, reach[row], level.counts[cell], texels[cell]);
    }
  }
  raster.thicken();
  return raster;
};

/**
 * The difference of two levels: strength is the difference, hue is the allocator with more calls.
 */
const rasterOfDifference = (one, other, first, width, groups) => {
  const cells = cellsWithin(one, first, width) + cellsWithin(other, first, width);
  const raster = new Raster(first, width, groups, one.columns, cells);
  const reach = reachOfRows(raster.height, groups);
  const more = new Float64Array(raster.height);
  for (let column = 0; column < width; column += 1) {
    more.fill(0);
    eachRow(one, first + column, groups, (row, sum) => {
      more[row] += sum.calls;
    });
    eachRow(other, first + column, groups, (row, sum) => {
      more[row] -= sum.calls;
    });
    for (let row = 0; row < raster.height; row += 1) {
      if (more[row] === 0) continue;
      const calls = Math.abs(more[row]);
      raster.put(
        column,
        row,
        reach[row],
        calls,
        strengthOf(calls) | ((more[row] > 0 ? 0 : 1) << 8),
      );
    }
  }
  raster.thicken();
  return raster;
};

/**
 * The most recently used rasters of one panel. A raster is wider than the view, so panning reuses
 * it.
 */
class RasterCache {
  constructor(build) {
    this.build = build;
    this.kept = new Map();
  }

  at(columns, [first, last], groups) {
    let width = 1024;
    while (width < (last - first) * 2) width *= 2;
    width = Math.min(width, columns);
    const start =
      width === columns
        ? 0
        : clamp(Math.floor(first / (width / 2)) * (width / 2), 0, columns - width);
    const key = `${columns}:${start}:${width}:${groups}`;
    const raster = this.kept.get(key) ?? this.build(start, width, groups);
    this.kept.delete(key);
    this.kept.set(key, raster);
    for (const [old, gone] of this.kept) {
      if (this.kept.size <= RASTERS_KEPT) break;
      this.kept.delete(old);
      painter.forget?.(gone);
    }
    return raster;
  }
}
