"use strict";
// One panel: axes, bands, lines, and a reading of all lines under the pointer.

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = { left: 52, right: 12, top: 8, bottom: 30 };
const DASHES = ["", "7 4", "2 3"];

function element(name, attributes = {}, parent = null) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (parent) parent.append(made);
  return made;
}

/** Round numbers between two limits, about as many as wanted. */
function ticks(low, high, wanted) {
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i += 1) {
    found.push(i * step);
  }
  return found;
}

/** A number as an axis or a reading shows it. */
function short(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
  if (size >= 1e4) return `${+(value / 1e3).toPrecision(3)}k`;
  if (size >= 100) return value.toFixed(0);
  return size === 0 ? "0" : size < 1e-3 ? value.toExponential(1) : `${+value.toPrecision(3)}`;
}

function pathOf(points) {
  return points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");
}

/** Stretches of a line whose points satisfy a test, as lists of their places. */
function stretches(points, test) {
  const found = [];
  let current = null;
  points.forEach((point, i) => {
    if (point && test(point)) {
      if (!current) found.push((current = []));
      current.push(i);
    } else current = null;
  });
  return found;
}

/** Limits of the values of lines, with a little room. */
function limits(lines, references, spread) {
  let low = Infinity;
  let high = -Infinity;
  for (const { line } of lines) {
    for (const point of line.points) {
      if (!point) continue;
      const [a, b] = band(point, spread);
      low = Math.min(low, a);
      high = Math.max(high, b);
    }
  }
  for (const { y } of references) {
    low = Math.min(low, y);
    high = Math.max(high, y);
  }
  // What differs by rounding alone is one value, which gets an axis around it.
  const size = Math.max(Math.abs(low), Math.abs(high));
  const room = high - low > 1e-9 * size ? (high - low) * 0.05 : size * 0.05 || 1;
  return [low - room, high + room];
}

function band(point, spread) {
  if (spread === "error") return [point.mean - point.error, point.mean + point.error];
  return [point.low, point.high];
}

/**
 * Draw into a panel that is in its place already. `lines` are {line, series, name}, `references`
 * {y, name} to compare them with; `showX` writes a place under the axis, `readX` in the reading, and
 * `tickX` chooses places to write.
 */
function drawPanel(panel, { title, lines, references, spread, showX, readX, tickX, height }) {
  const heading = document.createElement("h3");
  heading.textContent = title;
  panel.append(heading);
  if (!lines.length) {
    const empty = document.createElement("p");
    empty.className = "empty";
    empty.textContent = "nothing to show";
    panel.append(empty);
    return;
  }
  const width = Math.max(240, panel.clientWidth);
  const svg = element("svg", {
    viewBox: `0 0 ${width} ${height}`, height, tabindex: 0, role: "img", "aria-label": title,
  });
  panel.append(svg);
  const [low, high] = limits(lines, references, spread);
  const right = Math.max(...lines.map(({ line }) => line.grid[line.grid.length - 1]));
  const toX = (x) => MARGIN.left + (x / right) * (width - MARGIN.left - MARGIN.right);
  const toY = (y) =>
    height - MARGIN.bottom - ((y - low) / (high - low)) * (height - MARGIN.top - MARGIN.bottom);
  drawAxes(svg, { low, high, right, toX, toY, width, height, showX, tickX });
  for (const one of references) drawReference(svg, one, toY, width);
  for (const one of lines) drawLine(svg, one, spread, toX, toY);
  addReading(panel, svg, { lines, right, toX, width, height, readX });
}

function drawAxes(svg, { low, high, right, toX, toY, width, height, showX, tickX }) {
  for (const y of ticks(low, high, 5)) {
    element("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right,
      y1: toY(y), y2: toY(y) }, svg);
    const text = element("text", { x: MARGIN.left - 8, y: toY(y) + 4, "text-anchor": "end" }, svg);
    text.textContent = short(y);
  }
  const bottom = height - MARGIN.bottom;
  element("line", { class: "base", x1: MARGIN.left, x2: width - MARGIN.right,
    y1: bottom, y2: bottom }, svg);
  for (const x of tickX(right, Math.max(3, Math.round(width / 110)))) {
    element("line", { class: "base", x1: toX(x), x2: toX(x), y1: bottom, y2: bottom + 4 }, svg);
    const text = element("text", { x: toX(x), y: bottom + 18, "text-anchor": "middle" }, svg);
    text.textContent = showX(x);
  }
}

function drawReference(svg, { y, name }, toY, width) {
  element("line", { class: "reference", x1: MARGIN.left, x2: width - MARGIN.right,
    y1: toY(y), y2: toY(y) }, svg);
  const text = element("text", { class: "reference-name", x: width - MARGIN.right,
    y: toY(y) - 4, "text-anchor": "end" }, svg);
  text.textContent = `${name} ${short(y)}`;
}

function drawLine(svg, { line, series }, spread, toX, toY) {
  const colour = `var(--s${series % 8})`;
  const dash = DASHES[Math.floor(series / 8) % DASHES.length];
  const at = (i, y) => [toX(line.grid[i]), toY(y)];
  if (spread === "seeds") {
    for (const seed of line.seeds) {
      const known = seed.flatMap((y, i) => (y === null ? [] : [at(i, y)]));
      element("path", { class: "seed", d: pathOf(known), style: `stroke:${colour}` }, svg);
    }
  } else if (line.count > 1) {
    const known = line.points.flatMap((point, i) => (point ? [[i, band(point, spread)]] : []));
    const outline = [
      ...known.map(([i, limit]) => at(i, limit[1])),
      ...known.reverse().map(([i, limit]) => at(i, limit[0])),
    ];
    element("path", { class: "band", d: `${pathOf(outline)}Z`, style: `fill:${colour}` }, svg);
  }
  const parts = {
    curve: (point) => point.count === line.count,
    "curve partial": (point) => point.count < line.count,
  };
  for (const [kind, test] of Object.entries(parts)) {
    for (const places of stretches(line.points, test)) {
      const d = pathOf(places.map((i) => at(i, line.points[i].mean)));
      element("path", { class: kind, d, style: `stroke:${colour}`,
        "stroke-dasharray": dash }, svg);
    }
  }
}

/** Numbers of all lines at the pointer, or where the arrow keys lead. */
function addReading(panel, svg, { lines, right, toX, width, height, readX }) {
  const cursor = element("line", { class: "cursor", y1: MARGIN.top, y2: height - MARGIN.bottom,
    visibility: "hidden" }, svg);
  const reading = document.createElement("div");
  reading.className = "reading";
  reading.hidden = true;
  panel.append(reading);
  let place = null;

  function show(x) {
    place = Math.min(right, Math.max(0, x));
    const rows = lines.map(({ line, series, name }) => {
      const [first, last] = [line.grid[0], line.grid[line.grid.length - 1]];
      const share = last > first ? (place - first) / (last - first) : 0;
      const index = Math.round(share * (line.grid.length - 1));
      return { series, name, of: line.count, point: line.points[index] };
    }).filter(({ point }) => point).sort((a, b) => b.point.mean - a.point.mean);
    cursor.setAttribute("x1", toX(place));
    cursor.setAttribute("x2", toX(place));
    cursor.setAttribute("visibility", "visible");
    reading.replaceChildren(readingTable(readX(place), rows));
    reading.hidden = false;
    // Beside the cursor, on the side with more room, and never outside of the window.
    const own = reading.offsetWidth;
    const side = toX(place) > width / 2 ? toX(place) - 12 - own : toX(place) + 12;
    const { left } = panel.getBoundingClientRect();
    const most = document.documentElement.clientWidth - left - own - 8;
    reading.style.left = `${Math.max(8 - left, Math.min(side, most))}px`;
  }

  function hide() {
    reading.hidden = true;
    cursor.setAttribute("visibility", "hidden");
  }

  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const inside = ((event.clientX - box.left) / box.width) * width - MARGIN.left;
    show((inside / (width - MARGIN.left - MARGIN.right)) * right);
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -0.02, ArrowRight: 0.02 }[event.key];
    if (!step) return;
    event.preventDefault();
    show((place ?? 0) + step * right);
  });
}

function readingTable(place, rows) {
  const table = document.createElement("table");
  const cell = (row, text, className = "") => {
    const made = row.insertCell();
    made.textContent = text;
    made.className = className;
    return made;
  };
  const top = table.insertRow();
  cell(top, place).colSpan = 4;
  for (const { series, name, of, point } of rows) {
    const row = table.insertRow();
    const swatch = document.createElement("i");
    swatch.className = `swatch s${series % 8}`;
    cell(row, "").append(swatch);
    cell(row, name);
    const error = point.count > 1 ? ` ± ${short(point.error)}` : "";
    cell(row, `${short(point.mean)}${error}`, "number");
    const seeds = point.count < of ? `${point.count} of ${of} seeds` : `${of} seeds`;
    cell(row, of > 1 ? seeds : "", "number");
  }
  return table;
}
