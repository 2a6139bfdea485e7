"use strict";
// From the columns of runs to lines that can be drawn. Nothing here knows of the page.

const GRID_POINTS = 240;

/** What a run says of a metric: the mean over some bodies, or without any its own column. */
function valuesOf(run, metric, bodies) {
  const names = bodies ? bodies.map((body) => `${metric}/${body}`) : [metric];
  const columns = names.map((name) => run.columns[name]).filter(Boolean);
  if (!columns.length) return null;
  return columns[0].map((_, row) => {
    const known = columns.map((column) => column[row]).filter((value) => value !== null);
    return known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
  });
}

/** Points [x, y] of a run, those without a value left out. */
function pointsOf(run, axis, metric, bodies) {
  const ys = valuesOf(run, metric, bodies);
  const xs = run.columns[axis];
  if (!ys || !xs) return [];
  return xs.map((x, row) => [x, ys[row]]).filter(([x, y]) => x !== null && y !== null);
}

/** Values at the places of a grid, between points in proportion, null outside of them. */
function onGrid(points, grid) {
  let next = 1;
  return grid.map((x) => {
    if (x < points[0][0] || x > points[points.length - 1][0]) return null;
    if (points.length === 1) return points[0][1];
    while (next < points.length - 1 && points[next][0] < x) next += 1;
    const [[x0, y0], [x1, y1]] = [points[next - 1], points[next]];
    return x1 === x0 ? y1 : y0 + ((y1 - y0) * (x - x0)) / (x1 - x0);
  });
}

/** Means over neighbours, as many on both sides, so that the ends stay where they are. */
function smoothed(values, reach) {
  const first = values.findIndex((value) => value !== null);
  const last = values.findLastIndex((value) => value !== null);
  return values.map((value, place) => {
    if (value === null) return null;
    const own = Math.min(reach, place - first, last - place);
    let total = 0;
    for (let i = place - own; i <= place + own; i += 1) total += values[i];
    return total / (2 * own + 1);
  });
}

/** Mean, standard error, lowest and highest of what seeds have at each place. */
function statistics(seeds) {
  return seeds[0].map((_, place) => {
    const known = seeds.map((seed) => seed[place]).filter((value) => value !== null);
    const count = known.length;
    if (!count) return null;
    const mean = known.reduce((a, b) => a + b, 0) / count;
    const square = known.reduce((sum, value) => sum + (value - mean) ** 2, 0);
    const error = count > 1 ? Math.sqrt(square / (count - 1) / count) : 0;
    return { mean, error, count, low: Math.min(...known), high: Math.max(...known) };
  });
}

/** A group's line: {grid, seeds, points, count}, null where it has nothing of this metric. */
function lineOf(group, axis, metric, bodies, smoothing) {
  const runs = group.runs.map((run) => pointsOf(run, axis, metric, bodies));
  const curves = runs.filter((points) => points.length);
  if (!curves.length) return null;
  const start = Math.min(...curves.map((points) => points[0][0]));
  const end = Math.max(...curves.map((points) => points[points.length - 1][0]));
  const grid = Array.from({ length: GRID_POINTS }, (_, i) =>
    // The last exactly, or rounding could put it behind the last point.
    i === GRID_POINTS - 1 ? end : start + ((end - start) * i) / (GRID_POINTS - 1));
  const reach = Math.round((smoothing * GRID_POINTS) / 8);
  const seeds = curves.map((points) => smoothed(onGrid(points, grid), reach));
  return { grid, seeds, points: statistics(seeds), count: curves.length };
}
