"use strict";
// What the page shows and how it is chosen: metric, panels, axis, shading, smoothing, curves.

const data = JSON.parse(document.getElementById("data").textContent);
const find = (id) => document.getElementById(id);
const unique = (values) => [...new Set(values)];
const state = { metric: "return", panels: "task", axis: "steps", spread: "error", smooth: 0.2,
  hidden: new Set() };

const AXES = { steps: "steps", "wall/seconds": "wall time" };
const PANELS = { task: "training", family: "family", body: "body" };
const PER_BODY = ["return", "length"];

// --- What there is to choose from -------------------------------------------------------------

const bodies = unique(data.groups.flatMap((group) => group.bodies));
const columns = unique(data.groups.flatMap((group) =>
  group.runs.flatMap((run) => Object.keys(run.columns))));
const metrics = [...PER_BODY, ...columns.filter((name) =>
  !name.startsWith("return/") && !name.startsWith("length/") &&
  !["steps", "wall/seconds"].includes(name))];

/** Panels: their titles, whose bodies, and which groups are in them. */
function panelsOf() {
  const all = data.groups;
  if (state.panels === "task" || !PER_BODY.includes(state.metric)) {
    return unique(all.map((group) => group.task)).map((task) => ({
      title: task, groups: all.filter((group) => group.task === task), bodies: () => true,
    }));
  }
  const key = state.panels === "body" ? (body) => body : (body) => data.families[body];
  return unique(bodies.map(key)).map((title) => ({
    title,
    groups: all.filter((group) => group.bodies.some((body) => key(body) === title)),
    bodies: (body) => key(body) === title,
  }));
}

/** Lines to compare with: what random actions get on a panel's bodies, and their specialists. */
function referencesOf(panel) {
  const variants = unique(panel.groups.map((group) => group.variant));
  const shown = unique(panel.groups.flatMap((group) => group.bodies)).filter(panel.bodies);
  return Object.entries(data.references).flatMap(([kind, known]) => {
    const found = variants.flatMap((variant) => {
      const values = shown.map((body) => known[variant]?.[body]);
      if (values.includes(undefined)) return [];
      return [{ variant, y: values.reduce((a, b) => a + b, 0) / values.length }];
    });
    // One line where the task makes no difference, as to random actions.
    return unique(found.map(({ y }) => y)).map((y) => {
      const own = found.filter((one) => one.y === y).map((one) => one.variant);
      return { y, name: own.length < variants.length ? `${kind}, ${own.join(", ")}` : kind };
    });
  });
}

// --- Axes -------------------------------------------------------------------------------------

/** How a time axis of some length is divided: its unit, in seconds, and the unit's name. */
function timeUnit(seconds) {
  if (seconds >= 3 * 3600) return [3600, "h"];
  return seconds >= 180 ? [60, "min"] : [1, "s"];
}

function axisOf(right) {
  if (state.axis === "steps") {
    return {
      showX: short,
      readX: (x) => `${short(x)} steps`,
      tickX: (end, wanted) => ticks(0, end, wanted),
    };
  }
  const [unit, name] = timeUnit(right);
  const showX = (x) => `${+(x / unit).toPrecision(3)} ${name}`;
  return {
    showX,
    readX: showX,
    tickX: (end, wanted) => ticks(0, end / unit, wanted).map((tick) => tick * unit),
  };
}

// --- Drawing ----------------------------------------------------------------------------------

function draw() {
  const charts = find("charts");
  charts.replaceChildren();
  const panels = panelsOf();
  // All of them first: how wide one is depends on how many there are.
  const places = panels.map(() => {
    const place = document.createElement("div");
    place.className = "panel";
    charts.append(place);
    return place;
  });
  panels.forEach((panel, i) => {
    const references = state.metric === "return" ? referencesOf(panel) : [];
    const shown = panel.groups.filter((group) => !state.hidden.has(group.series));
    const twice = new Set(shown.map((group) => group.series)).size < shown.length;
    const lines = shown.flatMap((group) => {
      const own = PER_BODY.includes(state.metric) ? group.bodies.filter(panel.bodies) : null;
      const line = lineOf(group, state.axis, state.metric, own, state.smooth);
      const name = data.series[group.series] + (twice ? ` on ${group.task}` : "");
      return line ? [{ line, series: group.series, name }] : [];
    });
    const right = Math.max(0, ...lines.map(({ line }) => line.grid[line.grid.length - 1]));
    drawPanel(places[i], {
      title: panel.title, lines, references, spread: state.spread, ...axisOf(right),
      height: { 1: 400, 2: 320 }[panels.length] ?? 240,
    });
  });
}

// --- Controls ---------------------------------------------------------------------------------

function choices(id, names, key) {
  const box = find(id);
  for (const [value, text] of Object.entries(names)) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    button.dataset.value = value;
    button.addEventListener("click", () => set(key, value));
    box.append(button);
  }
}

function set(key, value) {
  state[key] = value;
  refresh();
}

function refresh() {
  for (const key of ["panels", "axis"]) {
    for (const button of find(key).querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(button.dataset.value === state[key]));
    }
  }
  for (const button of find("legend").children) {
    button.setAttribute("aria-pressed", String(!state.hidden.has(+button.dataset.series)));
  }
  find("panels").hidden = bodies.length === 1 || !PER_BODY.includes(state.metric);
  draw();
}

function legend() {
  data.series.forEach((name, series) => {
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.series = series;
    const mark = element("svg", { width: 22, height: 8 });
    element("line", { x1: 1, x2: 21, y1: 4, y2: 4, "stroke-width": 3,
      style: `stroke:var(--s${series % 8})`,
      "stroke-dasharray": DASHES[Math.floor(series / 8) % DASHES.length] }, mark);
    button.append(mark, name);
    button.addEventListener("click", () => {
      if (!state.hidden.delete(series)) state.hidden.add(series);
      refresh();
    });
    find("legend").append(button);
  });
}

function controls() {
  for (const name of metrics) {
    const option = new Option(name.replaceAll("_", " ").replace("/", ": "), name);
    find("metric").add(option);
  }
  find("metric").addEventListener("change", (event) => set("metric", event.target.value));
  find("spread").addEventListener("change", (event) => set("spread", event.target.value));
  find("smooth").addEventListener("input", (event) => set("smooth", +event.target.value));
  choices("panels", PANELS, "panels");
  choices("axis", AXES, "axis");
  legend();
}

// --- Light and dark ---------------------------------------------------------------------------

function theme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const show = (name) => { document.documentElement.dataset.theme = name; };
  const system = () => show(dark.matches ? "dark" : "light");
  dark.addEventListener("change", system);
  system();
  find("theme").addEventListener("click", () =>
    show(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
}

// --- Replays ----------------------------------------------------------------------------------

/** Each in a frame of its own that can't reach this page, loaded when it is opened. */
function replays() {
  const box = find("replays");
  if (!box) return;
  for (const { name, link, page } of JSON.parse(find("replay-data").textContent)) {
    const anchor = document.createElement("a");
    anchor.href = link;
    anchor.textContent = "open the file";
    anchor.target = "_blank";
    anchor.rel = "noopener";
    if (!page) {
      const line = document.createElement("p");
      line.append(name, anchor);
      box.append(line);
      continue;
    }
    const details = document.createElement("details");
    const summary = document.createElement("summary");
    summary.append(name, anchor);
    details.append(summary);
    details.addEventListener("toggle", () => {
      details.querySelector("iframe")?.remove();
      if (!details.open) return;
      const frame = document.createElement("iframe");
      frame.setAttribute("sandbox", "allow-scripts");
      frame.title = name;
      frame.srcdoc = page;
      details.append(frame);
    });
    box.append(details);
  }
}

/** Of policies alone there are no curves. */
function curves() {
  find("curves").hidden = !data.groups.length;
  if (!data.groups.length) return;
  controls();
  refresh();
  let drawnWidth = find("charts").clientWidth;
  new ResizeObserver(() => {
    const width = find("charts").clientWidth;
    if (width !== drawnWidth) { drawnWidth = width; draw(); }
  }).observe(find("charts"));
}

theme();
curves();
replays();
