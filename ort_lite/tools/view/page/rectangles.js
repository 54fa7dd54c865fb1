// What a chart draws of an arena: tensors as rectangles, bytes alive, and the bound.
import { clipped, drawFoot } from "./chart.js";
import { inkOn, listColour } from "./colours.js";
import { fitted } from "./faces.js";
import { bytesText, countText } from "./units.js";

const TOP = 24; // pixels above the arena's size, for its label
const LABEL = "11px system-ui, sans-serif";
const SHADES = [0.15, 0.92]; // of Viridis: its ends are too near to black and to white
const BEHIND = 0.4; // what stands back behind what is chosen
const OPERATORS = 6; // that have a colour of their own
const REST = "#8a8f98";

/** {id, title, colour(arena, model): tensor -> colour, legend(arena, model): [colour, text]}. */
export const COLOURED_BY = [
  { id: "size", title: "size", colour: (arena) => bySize(arena), legend: sizeLegend },
  { id: "life", title: "lifetime", colour: (arena) => byLife(arena), legend: lifeLegend },
  { id: "operator", title: "operator", colour: byOperator, legend: operatorLegend },
];

function bySize(arena) {
  const scale = d3.scaleSqrt([0, d3.max(arena.tensors, ({ size }) => size)], SHADES);
  return ({ size }) => shade(scale(size));
}

function shade(part) {
  return d3.color(d3.interpolateViridis(part)).formatHex();
}

function sizeLegend(arena) {
  const [least, most] = d3.extent(arena.tensors, ({ size }) => size);
  const colour = bySize(arena);
  const sizes = new Set([most, ...[0.5, 0.25].map((part) => Math.round(most * part)).filter((size) => size > least), least]);
  return [...sizes].map((size) => [colour({ size }), bytesText(size)]);
}

function byLife(arena) {
  const scale = d3.scaleSqrt([0, Math.max(arena.steps.length - 1, 1)], SHADES);
  return ({ first, last }) => shade(scale(last - first));
}

function lifeLegend(arena) {
  const spans = [...new Set([1, Math.ceil(arena.steps.length / 2), arena.steps.length])];
  return spans.map((span) => [byLife(arena)({ first: 0, last: span - 1 }), countText(span, "step")]);
}

function operatorOf(tensor, model) {
  return model.document.nodes[tensor.node]?.operator ?? "of no node";
}

/** The operators whose tensors take most bytes, in that order. */
function largestOperators(arena, model) {
  const sums = d3.rollups(arena.tensors, (some) => d3.sum(some, ({ size }) => size), (tensor) => operatorOf(tensor, model));
  return sums.sort((a, b) => b[1] - a[1]).slice(0, OPERATORS).map(([operator]) => operator);
}

function byOperator(arena, model) {
  const operators = largestOperators(arena, model);
  return (tensor) => {
    const index = operators.indexOf(operatorOf(tensor, model));
    return index < 0 ? REST : listColour(index);
  };
}

function operatorLegend(arena, model) {
  const operators = largestOperators(arena, model);
  const colours = operators.map((operator, index) => [listColour(index), operator]);
  return arena.tensors.some((tensor) => !operators.includes(operatorOf(tensor, model))) ? [...colours, [REST, "others"]] : colours;
}

/** A node and those that are fused with it, which are run as one. */
export function runWith(model, key) {
  for (const { fused } of model.document.partitions) {
    for (const { parts } of fused) if (parts.includes(key)) return new Set(parts);
  }
  return new Set(key === null ? [] : [key]);
}

/** An owner of a chart (see chart.js) for `tab.arena`, coloured by `tab.by`. */
export function arenaOwner(tab) {
  const { arena, model, state } = tab;
  const steps = Math.max(arena.steps.length, 1);
  const highest = Math.max(arena.size, arena.bound, d3.max(arena.live) ?? 0, 1);
  const rising = (chart) => d3.scaleLinear([0, highest], [chart.bottom, TOP]);
  const ordered = d3.sort(arena.tensors, (tensor) => tensor.first, (tensor) => tensor.offset);
  return {
    label: `Tensors of ${arena.partition} in ${arena.memory} memory, steps across and bytes up`,
    length: steps,
    closest: 1,
    height: (available) => available,
    draw: (pen, chart) => drawArena(pen, chart, tab, rising(chart)),
    find(chart, x, y) {
      const [step, byte] = [chart.x.invert(x), rising(chart).invert(y)];
      return ordered.find((tensor) => holds(tensor, step, byte)) ?? null;
    },
    box: (tensor, chart) => boxOf(tensor, chart.x, rising(chart)),
    walk: (tensor, direction) => walkTensors(ordered, tensor, direction),
    describe: (tensor) => aboutTensor(tensor, arena, model),
    choose: (tensor) => state.set("node", tensor?.node ?? null),
  };
}

function holds({ first, last, offset, size }, step, byte) {
  return step >= first && step < last + 1 && byte >= offset && byte < offset + size;
}

function boxOf({ first, last, offset, size }, x, y) {
  const top = y(offset + size);
  return { x: x(first), y: top, width: x(last + 1) - x(first), height: Math.max(1, y(offset) - top) };
}

/** Left and right in the order of their beginnings; up and down among those that are alive when one begins. */
function walkTensors(ordered, tensor, direction) {
  if (!ordered.length) return null;
  if (tensor === null || direction === "first") return ordered[0];
  if (direction === "last") return ordered.at(-1);
  const upright = direction === "up" || direction === "down";
  const beside = upright ? d3.sort(ordered.filter(({ first, last }) => first <= tensor.first && last >= tensor.first), (found) => found.offset) : ordered;
  const way = direction === "right" || direction === "up" ? 1 : -1;
  return beside[beside.indexOf(tensor) + way] ?? null;
}

function aboutTensor({ name, node, offset, size, first, last, role }, arena, model) {
  const operator = model.document.nodes[node]?.operator;
  return [
    name,
    node ? `made by ${node}${operator ? `, ${operator}` : ""}` : role,
    `${bytesText(size)} at ${offset.toLocaleString("en")}`,
    first === last ? `step ${first}: ${arena.steps[first]}` : `steps ${first} to ${last}: ${arena.steps[first]} to ${arena.steps[last]}`,
  ];
}

function drawArena(pen, chart, tab, y) {
  const { arena, model, state, by } = tab;
  const nodes = runWith(model, state.get("node"));
  const chosen = arena.tensors.some((tensor) => nodes.has(tensor.node));
  const colour = by.colour(arena, model);
  const shown = arena.tensors
    .map((tensor) => ({ tensor, box: boxOf(tensor, chart.x, y), colour: colour(tensor), faint: chosen && !nodes.has(tensor.node) }))
    .filter(({ box }) => box.x <= chart.right && box.x + box.width >= chart.left);
  drawBytes(pen, chart, y);
  clipped(pen, chart, () => {
    for (const one of shown) drawTensor(pen, one);
    pen.font = LABEL;
    pen.textAlign = "left";
    for (const one of shown) nameTensor(pen, chart, one);
    pen.globalAlpha = 1;
    drawLive(pen, chart, arena.live, y);
    for (const { tensor, box } of shown) if (tensor === chart.pointed || nodes.has(tensor.node)) outline(pen, chart, box);
  });
  drawLimits(pen, chart, arena, y);
  drawSteps(pen, chart, arena);
}

/** Numbers of steps, and what they run where that fits. */
function drawSteps(pen, chart, arena) {
  const [from, to] = chart.x.domain().map((step) => Math.min(Math.max(step, 0), arena.steps.length));
  if (chart.x(1) - chart.x(0) > 90) {
    const middles = d3.range(Math.floor(from), Math.ceil(to)).map((step) => step + 0.5);
    return drawFoot(pen, chart, middles, (tick) => stepText(arena, tick, chart));
  }
  const ticks = chart.x.ticks(Math.max(2, Math.min((chart.right - chart.left) / 70, to - from))).filter(Number.isInteger);
  return drawFoot(pen, chart, ticks, (tick) => (tick === ticks[0] ? `step ${tick}` : String(tick)));
}

function stepText(arena, tick, chart) {
  const step = Math.floor(tick);
  return fitted(`${step} ${arena.steps[step] ?? ""}`, LABEL, chart.x(1) - chart.x(0) - 8);
}

function drawBytes(pen, chart, y) {
  pen.textAlign = "right";
  pen.fillStyle = chart.theme.quiet;
  pen.strokeStyle = chart.theme.line;
  pen.beginPath();
  for (const tick of y.ticks(Math.max(2, chart.bottom / 60))) {
    const at = Math.round(y(tick)) + 0.5;
    pen.moveTo(chart.left, at);
    pen.lineTo(chart.right, at);
    pen.fillText(bytesText(tick).replace(/(\.\d*?)0+ /, "$1 ").replace(". ", " "), chart.left - 8, at);
  }
  pen.globalAlpha = 0.5;
  pen.stroke();
  pen.globalAlpha = 1;
}

function drawTensor(pen, { box, colour, faint }) {
  pen.globalAlpha = faint ? BEHIND : 1;
  pen.fillStyle = colour;
  const gap = box.width > 4 && box.height > 3 ? 1 : 0;
  pen.fillRect(box.x, box.y, box.width - gap, box.height - gap);
}

function nameTensor(pen, chart, { tensor, box, colour, faint }) {
  const from = Math.max(box.x, chart.left);
  const room = Math.min(box.x + box.width, chart.right) - from - 8;
  if (room < 20 || box.height < 14) return;
  const text = fitted(tensor.name, LABEL, room);
  if (text !== tensor.name && room < 50) return;
  pen.globalAlpha = faint ? BEHIND : 1;
  pen.fillStyle = inkOn(colour);
  pen.fillText(text, from + 5, box.y + box.height / 2);
}

function outline(pen, chart, { x, y, width, height }) {
  pen.strokeStyle = chart.theme.ground;
  pen.lineWidth = 5;
  pen.strokeRect(x, y, width, height);
  pen.strokeStyle = chart.theme.text;
  pen.lineWidth = 2.5;
  pen.strokeRect(x, y, width, height);
  pen.lineWidth = 1;
}

function drawLive(pen, chart, live, y) {
  pen.beginPath();
  const [from, to] = chart.x.domain();
  for (let step = Math.max(0, Math.floor(from)); step < Math.min(live.length, Math.ceil(to)); step += 1) {
    pen.lineTo(chart.x(step), y(live[step]));
    pen.lineTo(chart.x(step + 1), y(live[step]));
  }
  const roomy = chart.x(1) - chart.x(0) > 8;
  for (const [colour, width] of [[chart.theme.ground, 4], [chart.theme.accent, roomy ? 2 : 1.2]].slice(roomy ? 0 : 1)) {
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.stroke();
  }
  pen.lineWidth = 1;
}

/** The lines of size and bound with their labels, one where they are the same. */
function drawLimits(pen, chart, { size, bound }, y) {
  drawLimit(pen, chart, y(size), chart.theme.text, [], bound === size ? `planned ${bytesText(size)}: no plan needs less` : `planned ${bytesText(size)}`, -8);
  if (bound !== size) drawLimit(pen, chart, y(bound), chart.theme.copy, [7, 4], `bound ${bytesText(bound)}`, y(bound) - y(size) < 18 ? 9 : -8);
}

function drawLimit(pen, chart, at, colour, dashes, text, aside) {
  pen.strokeStyle = colour;
  pen.lineWidth = 1.5;
  pen.setLineDash(dashes);
  pen.beginPath();
  pen.moveTo(chart.left, at);
  pen.lineTo(chart.right, at);
  pen.stroke();
  pen.setLineDash([]);
  pen.lineWidth = 1;
  pen.font = `600 ${LABEL}`;
  pen.textAlign = "right";
  const width = pen.measureText(text).width;
  pen.globalAlpha = 0.85;
  pen.fillStyle = chart.theme.ground;
  pen.fillRect(chart.right - width - 8, at + aside - 7, width + 8, 14);
  pen.globalAlpha = 1;
  pen.fillStyle = colour;
  pen.fillText(text, chart.right - 4, at + aside);
}
