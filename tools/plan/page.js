"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
document.body.classList.add("js");

/* An element with attributes and children; text stays text. */
function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "path", "line", "rect", "circle", "text", "g", "title"];
  const node = svg.includes(tag)
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function quantity(number, unit) {
  const prefixes = ["", "k", "M", "G", "T", "P"];
  let prefix = 0;
  while (number >= 999.5 && prefix + 1 < prefixes.length) {
    number /= 1000;
    ++prefix;
  }
  const digits = prefix === 0 || number >= 99.95 ? 0 : number >= 9.995 ? 1 : 2;
  return `${number.toFixed(digits)} ${prefixes[prefix]}${unit}`.trim();
}

const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

/* Calls `draw` now and when the width of `node` changes. */
function whenResized(node, draw) {
  let width = 0;
  new ResizeObserver(() => {
    if (node.clientWidth === width) return;
    width = node.clientWidth;
    draw();
  }).observe(node);
}

/* ---- What is shown ---- */

const state = {
  device: data.devices[0],
  kernel: 0, // of data.graph
  chosen: null, // { listing, line }
  kept: false,
};

/* ---- The layer ---- */

function drawEdges() {
  const graph = byId("graph");
  const cards = [...graph.querySelectorAll("button")];
  const svg = graph.querySelector("svg");
  const port = graph.querySelector("ol").querySelector("li").offsetLeft - 1;
  const middle = (i) => cards[i].offsetTop + cards[i].offsetHeight / 2;
  svg.replaceChildren();
  svg.setAttribute("height", graph.offsetHeight);
  data.graph.forEach((node, i) => {
    const curve = (j, from, to, kind) => {
      const reach = Math.min(port - 14, 8 + 7 * Math.abs(i - j));
      const x = port - reach * 1.25;
      svg.append(make("path", {
        class: kind,
        d: `M${port} ${from} C${x} ${from} ${x} ${to} ${port} ${to}`,
      }));
    };
    for (const j of node.inputs) curve(j, middle(j) + 5, middle(i) - 5, "edge");
    for (const j of node.carried) // a cache of its own says nothing
      if (j > i) curve(j, middle(j) + 9, middle(i) - 9, "back");
  });
  const loops = new Set(data.graph.map((node) => node.loop).filter((loop) => loop >= 0));
  for (const loop of loops) {
    const inside = data.graph.flatMap((node, i) => (node.loop === loop ? [i] : []));
    const first = cards[inside[0]], last = cards[inside[inside.length - 1]];
    const top = first.offsetTop, bottom = last.offsetTop + last.offsetHeight;
    svg.append(make("path", { class: "bracket", d: `M9 ${top} H4 V${bottom} H9` }));
  }
}

function opsOf(node) {
  return node.ops.map(([op]) => op).join(" · ");
}

function buildGraph() {
  const list = make("ol");
  data.graph.forEach((node, i) => {
    const runs = node.runs > 1 ? `  ×${node.runs}` : "";
    const card = make("button", { type: "button", "aria-pressed": "false" },
      make("span", { class: "name" }, node.function),
      make("span", { class: "runs" }, runs),
      make("span", { class: "ops" }, opsOf(node)));
    card.addEventListener("click", () => showKernel(i));
    list.append(make("li", {}, card));
  });
  byId("graph").append(make("svg", { "aria-hidden": "true" }), list);
  whenResized(byId("graph"), drawEdges);
}

/* ---- The phases ---- */

let panes = []; // { listing, box, lines: Map(number -> element) }
let children = new Map(); // "listing:line" -> [{ listing, line }]
let origins = new Map(); // "listing:line" -> [{ listing, line }]
const keyOf = (at) => `${at.listing}:${at.line}`;

function list(value) {
  return Array.isArray(value) ? value : value < 0 ? [] : [value];
}

/* Links the lines of this kernel to those that they come from. */
function link(listing, chunk) {
  const parent = data.listings[listing].parent;
  chunk.from.forEach((from, i) => {
    const own = { listing, line: chunk.first + i };
    const above = parent < 0 ? [] : list(from).map((line) => ({ listing: parent, line }));
    origins.set(keyOf(own), above);
    for (const origin of above) {
      const key = keyOf(origin);
      if (!children.has(key)) children.set(key, []);
      children.get(key).push(own);
    }
  });
}

/* The words of MLIR and PTX that have a colour. */
const words = new RegExp([
  String.raw`(?<comment>//.*)`,
  String.raw`(?<string>"(?:[^"\\]|\\.)*")`,
  String.raw`(?<value>%[\w.$#-]+)`,
  String.raw`(?<symbol>[@!#][\w.$-]+)`,
  String.raw`(?<type>\b(?:tensor|memref|vector)<[^<>]*(?:<[^<>]*>[^<>]*)*>|\b(?:index|b?f\d+|[isu]\d+)\b)`,
  String.raw`(?<op>\b[a-z]\w*(?:\.\w+)+)`,
].join("|"), "g");

/* The text as spans, each of a class "w-op" or such, and text between them. */
function coloured(text) {
  const nodes = [];
  let end = 0;
  for (const match of text.matchAll(words)) {
    const [kind] = Object.entries(match.groups).find(([, word]) => word !== undefined);
    nodes.push(text.slice(end, match.index), make("span", { class: `w-${kind}` }, match[0]));
    end = match.index + match[0].length;
  }
  nodes.push(text.slice(end));
  return nodes;
}

function addLine(pane, number, text, into) {
  const at = { listing: pane.listing, line: number };
  const linked = origins.get(keyOf(at)).length > 0 || children.has(keyOf(at));
  const line = make("div", { class: "line" }, ...coloured(text || " "));
  if (linked && text.trim() !== "}") {
    line.setAttribute("role", "option");
    line.setAttribute("aria-selected", "false");
    line.tabIndex = -1;
    line.at = at;
    pane.lines.set(number, line);
  } else {
    line.setAttribute("role", "presentation");
  }
  into.append(line);
}

/* Long runs of constants, and of PTX's registers, are folded. */
const dull = /= (?:arith|llvm\.mlir)\.constant\b|^\s*\.reg\b/;
const leastFolded = 4;

function addLines(pane, first, lines) {
  let into = pane.box, end = 0; // of a run of dull lines
  lines.forEach((text, i) => {
    if (i >= end) {
      for (end = i; end < lines.length && dull.test(lines[end]); ++end);
      const isFolded = end - i >= leastFolded;
      into = isFolded
        ? make("details", { class: "fold", role: "group" },
          make("summary", {}, `${end - i} ${text.includes(".reg") ? "declarations" : "constants"}`))
        : pane.box;
      if (isFolded) pane.box.append(into);
      end = Math.max(end, i + 1);
    }
    addLine(pane, first + i, text, into);
  });
}

function unfold(line) {
  const fold = line.closest("details");
  if (fold) fold.open = true;
}

/* The common indentation of lines goes. */
function outdent(lines) {
  const indents = lines.filter((line) => line.trim()).map((line) => line.search(/\S/));
  const least = Math.min(...indents);
  return lines.map((line) => line.slice(least).replace(/\t/g, "    "));
}

function buildPane(listing) {
  const names = data.graph[state.kernel].chunks[listing];
  const { phase, chunks } = data.listings[listing];
  const box = make("div", {
    class: "lines", role: "listbox", "aria-multiselectable": "true", "aria-label": `ops at ${phase}`,
  });
  const pane = { listing, phase, box, lines: new Map() };
  let count = 0;
  for (const name of names) {
    const chunk = chunks[name];
    addLines(pane, chunk.first, outdent(chunk.lines));
    count += chunk.lines.length + chunk.left;
    if (chunk.left)
      box.append(make("div", { class: "gap" }, `${chunk.left} lines more: --dump-phases writes them`));
  }
  box.addEventListener("keydown", (event) => onKey(event, pane));
  box.addEventListener("click", (event) => {
    const line = event.target.closest("[role=option]");
    if (line) choose(line, true);
  });
  const options = [...pane.lines.values()];
  const first = options.find((line) => !line.closest("details")) || options[0];
  if (first) first.tabIndex = 0;
  const title = make("h3", {}, phase, make("span", {}, plural(count, "line")));
  byId("panes").append(make("section", { class: "pane", "aria-label": phase, "data-phase": phase }, title, box));
  return pane;
}

function showKernel(kernel) {
  state.kernel = kernel;
  byId("kernel").value = kernel;
  document.querySelectorAll("#graph button").forEach((card, i) =>
    card.setAttribute("aria-pressed", String(i === kernel)));
  children = new Map();
  origins = new Map();
  for (const listing of state.device.listings)
    for (const name of data.graph[kernel].chunks[listing])
      link(listing, data.listings[listing].chunks[name]);
  byId("panes").replaceChildren();
  panes = state.device.listings.map(buildPane);
  drop();
  // Import shows the whole program: go to the kernel's first op.
  const own = panes[1] && [...panes[1].lines.values()][0];
  const at = own && origins.get(keyOf(own.at))[0];
  if (at && panes[0].lines.get(at.line)) reveal(panes[0], panes[0].lines.get(at.line));
}

/* All that is reached from a line by `step`. */
function reach(at, step, found = new Map()) {
  for (const next of step.get(keyOf(at)) || []) {
    if (found.has(keyOf(next))) continue;
    found.set(keyOf(next), next);
    reach(next, step, found);
  }
  return found;
}

function reveal(pane, line) {
  unfold(line);
  const top = line.offsetTop - pane.box.offsetTop;
  if (top < pane.box.scrollTop || top + line.offsetHeight > pane.box.scrollTop + pane.box.clientHeight)
    pane.box.scrollTop = top - pane.box.clientHeight / 3;
}

/* Scrolls the row of panes to one. */
function revealPane(pane) {
  const row = byId("panes"), section = pane.box.parentElement;
  const left = section.offsetLeft - row.offsetLeft;
  if (left < row.scrollLeft || left + section.offsetWidth > row.scrollLeft + row.clientWidth)
    row.scrollLeft = left - (row.clientWidth - section.offsetWidth) / 2;
}

function clearMarks() {
  for (const line of byId("panes").querySelectorAll(".marked, .chosen")) {
    line.classList.remove("marked", "chosen");
    line.setAttribute("aria-selected", "false");
  }
}

function drop() {
  clearMarks();
  state.chosen = null;
  state.kept = false;
  byId("status").textContent = "No op is chosen.";
}

function describe(line, above, below) {
  const phase = (at) => data.listings[at.listing].phase;
  const counts = (found) => {
    const sums = new Map();
    for (const at of found.values()) sums.set(phase(at), (sums.get(phase(at)) || 0) + 1);
    return [...sums].map(([name, count]) => `${plural(count, "op")} at ${name}`).join(", ");
  };
  const text = line.textContent.trim().replace(/\s+/g, " ");
  return `${phase(line.at)}: ${text.length > 70 ? text.slice(0, 70) + "…" : text}`
    + (above.size ? `; from ${counts(above)}` : "")
    + (below.size ? `; became ${counts(below)}` : "")
    + (state.kept ? " (kept)" : "");
}

/* Marks a line, what it came from and what became of it. */
function choose(line, focus) {
  const pane = panes.find((each) => each.listing === line.at.listing);
  for (const other of pane.lines.values()) other.tabIndex = -1;
  line.tabIndex = 0;
  unfold(line);
  if (focus) line.focus({ preventScroll: true });
  revealPane(pane);
  reveal(pane, line);
  if (state.kept) return;
  clearMarks();
  state.chosen = line.at;
  line.classList.add("chosen");
  line.setAttribute("aria-selected", "true");
  const above = reach(line.at, origins), below = reach(line.at, children);
  const marked = new Map([...above, ...below]);
  for (const other of panes) {
    const lines = [...other.lines].flatMap(([number, each]) =>
      marked.has(keyOf({ listing: other.listing, line: number })) ? [each] : []);
    for (const each of lines) {
      each.classList.add("marked");
      each.setAttribute("aria-selected", "true");
    }
    if (lines.length && other !== pane) {
      for (const each of other.lines.values()) each.tabIndex = -1;
      lines[0].tabIndex = 0;
      reveal(other, lines[0]);
    }
  }
  byId("status").textContent = describe(line, above, below);
}

function onKey(event, pane) {
  const line = event.target;
  if (!line.at || event.altKey || event.ctrlKey || event.metaKey) return;
  const lines = [...pane.lines.values()];
  const at = lines.indexOf(line);
  const beside = (step) => {
    for (let i = panes.indexOf(pane) + step; panes[i]; i += step) {
      const own = [...panes[i].lines.values()];
      const next = own.find((each) => each.classList.contains("marked") || each.classList.contains("chosen"))
        || own.find((each) => each.tabIndex === 0);
      if (next) return next;
    }
    return null;
  };
  const moves = {
    ArrowDown: () => lines[at + 1],
    ArrowUp: () => lines[at - 1],
    PageDown: () => lines[Math.min(at + 20, lines.length - 1)],
    PageUp: () => lines[Math.max(at - 20, 0)],
    Home: () => lines[0],
    End: () => lines[lines.length - 1],
    ArrowRight: () => beside(1),
    ArrowLeft: () => beside(-1),
  };
  if (event.key in moves) {
    const next = moves[event.key]();
    if (next) choose(next, true);
  } else if (event.key === "Enter" || event.key === " ") {
    const keeps = !state.kept;
    state.kept = false;
    choose(line, true);
    state.kept = keeps;
    byId("status").textContent += keeps ? " (kept)" : "";
  } else if (event.key === "Escape") {
    drop();
  } else {
    return;
  }
  event.preventDefault();
}

function buildPhases() {
  data.graph.forEach((node, i) => byId("kernel").append(make("option", { value: i }, node.function)));
  byId("kernel").addEventListener("change", (event) => showKernel(Number(event.target.value)));
  data.devices.forEach((device, i) => byId("device").append(make("option", { value: i }, device.name)));
  byId("device").addEventListener("change", (event) => {
    state.device = data.devices[Number(event.target.value)];
    showKernel(state.kernel);
    fillArenas();
  });
  byId("device-label").hidden = data.devices.length < 2;
}

/* ---- The table of kernels ---- */

function linkTable() {
  for (const row of document.querySelectorAll("tr[data-kernel]")) {
    const kernel = data.graph.findIndex((node) => node.function === row.dataset.kernel);
    if (kernel < 0) continue;
    const head = row.querySelector("th");
    const button = make("button", { type: "button" }, head.textContent);
    button.addEventListener("click", () => {
      showKernel(kernel);
      byId("phases").scrollIntoView();
      byId("kernel").focus({ preventScroll: true });
    });
    head.replaceChildren(button);
  }
}

/* ---- The roofline ---- */

/* Powers of ten from below `low` to above `high`. */
function decades(low, high) {
  const powers = [];
  for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); ++p) powers.push(p);
  return powers;
}

function superscript(power) {
  return String(power).replace(/./g, (c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c] || "⁻");
}

/* Labels beside points, each below the one before where they would touch. */
function placeLabels(svg, points, width, bottom) {
  const placed = [];
  for (const point of [...points].sort((a, b) => a.y - b.y || a.x - b.x)) {
    const length = point.text.length * 5.9;
    const left = point.x + 10 + length > width;
    const from = left ? point.x - 10 - length : point.x + 10;
    let y = point.y + 14;
    const touches = (other) => Math.abs(other.y - y) < 13 && other.from < from + length && from < other.from + other.length;
    while (placed.some(touches) && y < bottom - 13) y += 13;
    placed.push({ from, length, y });
    svg.append(
      make("path", { class: "grid", fill: "none", d: `M${point.x} ${point.y + 4} L${left ? from + length + 2 : from - 2} ${y - 4}` }),
      make("text", { class: "strong label", x: from, y }, point.text));
  }
}

function drawRoofline() {
  const box = byId("roofline-plot");
  const machine = data.plan.machines[Number(byId("machine").value)];
  const width = box.clientWidth, height = Math.max(320, Math.min(460, width * 0.55));
  if (!machine || !width) return;
  const points = [];
  const entry = byId("call").value;
  for (const kernel of data.plan.kernels.filter((each) => each.entry === entry)) {
    const peak = kernel.f32 ? machine.f32_operations_per_second : machine.operations_per_second;
    const add = (bytes, operations, seconds) => {
      if (!(operations > 0 && bytes > 0)) return;
      const x = operations / bytes;
      const roof = Math.min(peak, x * machine.bytes_per_second);
      points.push({ kernel, intensity: x, roof, reached: seconds ? operations / seconds : 0 });
    };
    const measured = kernel.measured;
    if (measured) add(measured.bytes, measured.operations, measured.seconds);
    else add(kernel.bytes, kernel.operations, 0);
  }
  const ridge = machine.operations_per_second / machine.bytes_per_second;
  const xs = decades(Math.min(...points.map((p) => p.intensity), 0.5), Math.max(...points.map((p) => p.intensity), ridge * 3));
  const lows = points.map((p) => (p.reached ? Math.min(p.reached, p.roof) : p.roof));
  const ys = decades(Math.min(...lows, machine.bytes_per_second * 0.5) / 2, machine.operations_per_second);
  const left = 46, right = width - 8, top = 10, bottom = height - 34;
  const x = (value) => left + ((Math.log10(value) - xs[0]) / (xs[xs.length - 1] - xs[0])) * (right - left);
  const y = (value) => bottom - ((Math.log10(value) - ys[0]) / (ys[ys.length - 1] - ys[0])) * (bottom - top);
  const svg = make("svg", {
    viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `Operations a second over operations a byte, on ${machine.name}; the table of kernels has the numbers`,
  });
  for (const p of xs)
    svg.append(make("line", { class: "grid", x1: x(10 ** p), x2: x(10 ** p), y1: top, y2: bottom }),
      make("text", { x: x(10 ** p), y: bottom + 14, "text-anchor": "middle" }, `10${superscript(p)}`));
  for (const p of ys)
    svg.append(make("line", { class: "grid", x1: left, x2: right, y1: y(10 ** p), y2: y(10 ** p) }),
      make("text", { x: left - 5, y: y(10 ** p) + 4, "text-anchor": "end" }, `10${superscript(p)}`));
  svg.append(make("text", { x: right, y: height - 4, "text-anchor": "end" }, "operations a byte"),
    make("text", { x: 2, y: height - 4 }, "operations a second ↑"));
  const roofs = new Set(points.map((p) => (p.kernel.f32 ? "f32_operations_per_second" : "operations_per_second")));
  const start = 10 ** xs[0], stop = 10 ** xs[xs.length - 1];
  for (const key of roofs) {
    const peak = machine[key], bandwidth = machine.bytes_per_second;
    const low = Math.max(start, 10 ** ys[0] / bandwidth);
    svg.append(make("path", {
      class: "roof",
      d: `M${x(low)} ${y(low * bandwidth)} L${x(peak / bandwidth)} ${y(peak)} L${x(stop)} ${y(peak)}`,
    }));
  }
  const labels = [];
  for (const point of points) {
    const at = { x: x(point.intensity), y: y(point.reached || point.roof), text: point.kernel.kernel.slice(0, -entry.length - 1) };
    labels.push(at);
    if (point.reached)
      svg.append(make("line", { class: "fall", x1: at.x, x2: at.x, y1: y(point.roof), y2: at.y }));
  }
  placeLabels(svg, labels, right, bottom);
  points.forEach((point, i) => {
    const what = point.reached ? `reaches ${quantity(point.reached, "op/s")} of ${quantity(point.roof, "op/s")}`
      : `at most ${quantity(point.roof, "op/s")}`;
    svg.append(make("circle", { class: point.reached ? "dot measured" : "dot", cx: labels[i].x, cy: labels[i].y, r: 4.5 },
      make("title", {}, `${point.kernel.kernel}: ${what}, ${point.intensity.toPrecision(3)} op/B`)));
  });
  box.replaceChildren(svg);
}

function buildRoofline() {
  data.plan.machines.forEach((machine, i) => byId("machine").append(make("option", { value: i }, machine.name)));
  byId("machine").value = Math.max(data.plan.machines.findIndex((each) => each.name === data.plan.measured_on), 0);
  const entries = new Set(data.plan.kernels.map((kernel) => kernel.entry));
  for (const entry of entries) byId("call").append(make("option", { value: entry }, entry));
  if (entries.has("decode")) byId("call").value = "decode";
  byId("machine-label").hidden = data.plan.machines.length < 2;
  byId("call-label").hidden = data.plan.machines.length < 1;
  for (const id of ["machine", "call"]) byId(id).addEventListener("change", drawRoofline);
  const measured = data.plan.kernels.some((kernel) => kernel.measured);
  byId("roofline-note").textContent = data.plan.machines.length === 0
    ? "The rates of the machine are not known; --machine=FILE, written by cria-bench --save-machine, adds them."
    : "The line is the most that the machine reaches: reading bounds its slope, computing its flat part. "
      + (measured ? "A dot under the line is a measured kernel."
        : "A dot is a kernel at its floor; --measured=FILE, from cria-bench --kernels --json or cria-run --profile, moves it to the measured rate.");
  if (data.plan.machines.length) whenResized(byId("roofline-plot"), drawRoofline);
}

/* ---- Memory ---- */

function drawMemory() {
  const box = byId("memory-plot");
  const plan = state.device.arenas[Number(byId("arena").value)];
  const width = box.clientWidth;
  if (!plan || !width) return;
  const height = 420, left = 62, right = width - 6, top = 8, bottom = height - 150;
  const step = (right - left) / Math.max(plan.steps.length, 1);
  const y = (bytes) => bottom - (bytes / Math.max(plan.bytes, 1)) * (bottom - top);
  const svg = make("svg", {
    viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `${plural(plan.buffers.length, "buffer")} in ${quantity(plan.bytes, "B")}; the list below has them`,
  });
  for (let i = 0; i <= 4; ++i)
    svg.append(make("line", { class: "grid", x1: left, x2: right, y1: y(plan.bytes * i / 4), y2: y(plan.bytes * i / 4) }),
      make("text", { x: left - 6, y: y(plan.bytes * i / 4) + 4, "text-anchor": "end" }, quantity(plan.bytes * i / 4, "B")));
  plan.steps.forEach((name, i) => {
    const x = left + (i + 0.5) * step;
    svg.append(make("line", { class: "grid", x1: x, x2: x, y1: bottom, y2: bottom + 5 }),
      make("text", { x: 0, y: 0, "text-anchor": "end", transform: `translate(${x + 4} ${bottom + 14}) rotate(-48)` }, name));
  });
  for (const [offset, bytes, first, last] of plan.buffers) {
    const x = left + first * step + 2, size = (last - first + 1) * step - 4;
    const high = Math.max(2, y(offset) - y(offset + bytes));
    const what = `${quantity(bytes, "B")} at ${offset}, ${plan.steps[first]} to ${plan.steps[last]}`;
    svg.append(make("rect", { class: "buffer", x, y: y(offset) - high, width: Math.max(size, 2), height: high }, make("title", {}, what)));
    if (size > 62 && high > 15)
      svg.append(make("text", { class: "strong", x: x + 6, y: y(offset) - high / 2 + 4 }, quantity(bytes, "B")));
  }
  const rows = plan.buffers.map(([offset, bytes, first, last]) => make("tr", {},
    make("td", { class: "n" }, String(offset)), make("td", { class: "n" }, String(bytes)),
    make("td", {}, plan.steps[first]), make("td", {}, plan.steps[last])));
  const head = ["offset", "bytes", "first used by", "last used by"].map((name, i) =>
    make("th", { scope: "col", class: i < 2 ? "n" : "" }, name));
  const open = box.querySelector("details")?.open;
  const details = make("details", {}, make("summary", {}, plural(rows.length, "buffer")),
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Buffers" },
      make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows))));
  details.open = Boolean(open);
  box.replaceChildren(svg, details);
}

function fillArenas() {
  const select = byId("arena");
  select.replaceChildren(...state.device.arenas.map((plan, i) =>
    make("option", { value: i }, `${plan.entry}, ${quantity(plan.bytes, "B")}`)));
  const decode = state.device.arenas.findIndex((plan) => plan.entry === "decode");
  select.value = Math.max(decode, 0);
  drawMemory();
}

buildGraph();
buildPhases();
linkTable();
buildRoofline();
byId("arena").addEventListener("change", drawMemory);
fillArenas();
whenResized(byId("memory-plot"), drawMemory);
if (data.graph.length) showKernel(Math.max(data.graph.findIndex((node) => node.loop >= 0), 0));
