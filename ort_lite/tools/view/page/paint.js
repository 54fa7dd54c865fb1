// Draws a scene on a canvas: what is in sight, with as much of it as is legible at that size.
import { FONTS, shapeText } from "./faces.js";
import { mixed } from "./colours.js";
import { countText } from "./units.js";

const LEGIBLE = { operators: 0.25, text: 0.5, badges: 0.75, labels: 0.75, arrows: 0.3, bends: 0.4 }; // zooms from which they are drawn
const RADIUS = 6;
const FAINT = 0.3; // of what runs nothing, seen from afar
const HEADER = 24;

/**
 * Draws all of `view`: {scene, faces, model, theme, transform: {x, y, k}, width, height, ratio, selected, focused, matches: ids,
 * marks: id -> "came" or "gone"}. Sizes are in CSS pixels, `ratio` pixels of the screen each.
 */
export function paint(context, view) {
  const { transform, width, height, ratio, theme } = view;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = theme.ground;
  context.fillRect(0, 0, width, height);
  if (!view.scene) return;
  context.translate(transform.x, transform.y);
  context.scale(transform.k, transform.k);
  const sight = sightOf(view);
  const items = view.scene.items.filter((item) => inSight(sight, item.x, item.y, item.x + item.width, item.y + item.height));
  const edges = view.scene.edges.filter(({ bounds }) => inSight(sight, ...bounds));
  for (const item of items) if (item.open) paintOpenBox(context, view, item);
  paintEdges(context, view, edges);
  paintClosed(context, view, items.filter((item) => !item.open));
  if (transform.k >= LEGIBLE.labels) paintLabels(context, view, edges);
  for (const item of items) if (item.open) paintBoxTitle(context, view, item);
  for (const item of items) paintOutlines(context, view, item);
}

/** The part of the drawing that is seen: [left, top, right, bottom]. */
function sightOf({ transform: { x, y, k }, width, height }) {
  return [-x / k, -y / k, (width - x) / k, (height - y) / k];
}

function inSight(sight, left, top, right, bottom) {
  return right >= sight[0] && left <= sight[2] && bottom >= sight[1] && top <= sight[3];
}

function paintOpenBox(context, { faces, theme }, item) {
  const face = faces.get(item.id);
  const colour = face.fill ?? theme.quiet;
  rounded(context, item, RADIUS + 2);
  context.fillStyle = mixed(theme.ground, colour, face.kind === "b" ? 0.03 : 0.1);
  context.fill();
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.setLineDash(face.kind === "b" ? [5, 4] : []);
  context.stroke();
  context.setLineDash([]);
}

function titleScale(face, item, k) {
  return Math.min(Math.max(1, 0.9 / k), item.width / (face.width + 16), Math.max(1.4, item.height / 600));
}

/** The size of the title of a box, where a click folds: {width, height}. */
export function titlePlace(face, item, k) {
  const scale = item.open ? titleScale(face, item, k) : 1;
  return { width: item.open ? face.width * scale : item.width, height: (HEADER + 4) * scale };
}

/** As large on the screen however far away, as long as the box is wide enough. */
function paintBoxTitle(context, { faces, theme, transform: { k } }, item) {
  const face = faces.get(item.id);
  const scale = titleScale(face, item, k);
  if (scale * k < 0.4) return;
  context.save();
  context.translate(item.x, item.y);
  context.scale(scale, scale);
  context.font = FONTS.title;
  const text = `▾ ${face.title}`;
  rounded(context, { x: 6, y: 5, width: context.measureText(text).width + 16, height: HEADER - 4 }, 4);
  context.fillStyle = face.fill ?? theme.raised;
  context.fill();
  context.fillStyle = face.ink ?? theme.text;
  context.textBaseline = "middle";
  context.fillText(text, 14, HEADER / 2 + 3.5);
  context.restore();
}

function paintEdges(context, { theme, transform: { k }, selected }, edges) {
  const ofSelected = (edge) => selected !== null && edge.links.some(({ from, to }) => from === selected || to === selected);
  const groups = [
    { style: theme.edge, width: 1.2, edges: edges.filter((edge) => !ofSelected(edge)) },
    { style: theme.accent, width: 2.4, edges: edges.filter(ofSelected) },
  ];
  for (const group of groups) {
    if (!group.edges.length) continue;
    context.strokeStyle = context.fillStyle = group.style;
    context.lineWidth = Math.max(group.width, 0.6 / k);
    context.beginPath();
    for (const { points } of group.edges) trace(context, points, k >= LEGIBLE.bends ? RADIUS : 0);
    context.stroke();
    if (k < LEGIBLE.arrows) continue;
    context.beginPath();
    for (const edge of group.edges) if (edge.arrow) traceArrow(context, edge.points);
    context.fill();
  }
}

function trace(context, points, radius) {
  context.moveTo(...points[0]);
  for (let i = 1; i < points.length - 1; i++) {
    if (radius) context.arcTo(...points[i], ...points[i + 1], Math.min(radius, reach(points, i)));
    else context.lineTo(...points[i]);
  }
  context.lineTo(...points.at(-1));
}

/** Half of the shorter line at a bend: two bends share the line between them. */
function reach(points, i) {
  const length = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]);
  return Math.min(length(points[i - 1], points[i]), length(points[i], points[i + 1])) / 2;
}

function traceArrow(context, points) {
  const [x, y] = points.at(-1);
  const [fromX, fromY] = points.at(-2);
  const length = Math.hypot(x - fromX, y - fromY) || 1;
  const [along, across] = [(x - fromX) / length, (y - fromY) / length];
  context.moveTo(x, y);
  context.lineTo(x - 8 * along - 4 * across, y - 8 * across + 4 * along);
  context.lineTo(x - 8 * along + 4 * across, y - 8 * across - 4 * along);
  context.closePath();
}

/** Shapes of values, once where each begins. */
function paintLabels(context, { model, theme }, edges) {
  context.font = FONTS.badge;
  context.textBaseline = "middle";
  context.lineJoin = "round";
  context.lineWidth = 4;
  context.strokeStyle = theme.ground;
  context.fillStyle = theme.quiet;
  for (const [, some] of d3.group(edges.filter(({ first }) => first), ({ points }) => String(points[0]))) {
    const values = new Set(some.map(({ value }) => value));
    const text = values.size > 1 ? countText(values.size, "value") : shapeText(model.document.values[some[0].value]);
    const [x, y] = some[0].points[0];
    context.strokeText(text, x + 5, y + 9);
    context.fillText(text, x + 5, y + 9);
  }
}

/** Far away plain rectangles, one path for each colour; a little nearer what they do, as large as it fits. */
function paintClosed(context, view, items) {
  if (view.transform.k >= LEGIBLE.text) {
    for (const item of items) paintItem(context, view, item);
    return;
  }
  for (const [colour, some] of d3.group(items, (item) => fillOf(view, item))) {
    context.fillStyle = colour;
    context.beginPath();
    for (const { x, y, width, height } of some) context.rect(x, y, width, height);
    context.fill();
  }
  if (view.transform.k < LEGIBLE.operators) return;
  context.textBaseline = "middle";
  context.textAlign = "center";
  for (const item of items) paintOperator(context, view, item);
  context.textAlign = "start";
}

function paintOperator(context, view, { id, x, y, width, height }) {
  const face = view.faces.get(id);
  const size = Math.min(26, (12 * 0.9 * width) / face.titleWidth, 0.7 * height);
  context.font = FONTS.title.replace("12px", `${size.toFixed(1)}px`);
  context.fillStyle = view.marks.has(id) ? view.theme.ground : (face.ink ?? view.theme.text);
  context.fillText(face.title, x + width / 2, y + height / 2);
}

function fillOf({ faces, theme, marks }, item) {
  const mark = marks.get(item.id);
  if (mark) return theme[mark];
  const face = faces.get(item.id);
  return face.fill ?? (mixed(theme.ground, face.kind === "c" ? theme.copy : theme.end, FAINT));
}

function paintItem(context, view, item) {
  const face = view.faces.get(item.id);
  if (face.kind === "n" || face.kind === "p") paintNode(context, view, item, face);
  else paintEnd(context, view, item, face);
}

/** A header in the colour of its provider, the name and the constants under it; a folded box has a second border. */
function paintNode(context, view, item, face) {
  const { theme, tree, transform, marks } = view;
  const { x, y, width, height } = item;
  const folded = tree.children.has(item.id);
  if (folded) {
    rounded(context, { x: x + 4, y: y + 4, width, height }, RADIUS);
    context.fillStyle = mixed(theme.ground, fillOf(view, item), 0.45);
    context.fill();
  }
  rounded(context, item, RADIUS);
  context.fillStyle = theme.raised;
  context.fill();
  context.fillStyle = fillOf(view, item);
  context.beginPath();
  context.roundRect(x, y, width, HEADER, [RADIUS, RADIUS, 0, 0]);
  context.fill();
  rounded(context, item, RADIUS);
  context.strokeStyle = fillOf(view, item);
  context.lineWidth = 1.2;
  context.stroke();
  context.textBaseline = "middle";
  context.font = FONTS.title;
  context.fillStyle = marks.has(item.id) ? theme.ground : face.ink;
  context.fillText(folded ? `▸ ${face.title}` : face.title, x + 10, y + HEADER / 2 + 1);
  paintLines(context, theme, item, face);
  if (transform.k >= LEGIBLE.badges) paintBadges(context, theme, item, face);
}

function paintLines(context, theme, { x, y }, face) {
  context.font = FONTS.line;
  context.fillStyle = theme.text;
  face.lines.forEach((line, index) => context.fillText(line, x + 10, y + HEADER + 9 + 17 * index));
}

function paintBadges(context, theme, { x, y, height }, face) {
  context.font = FONTS.badge;
  let left = x + 8;
  for (const badge of face.badges) {
    const width = context.measureText(badge).width + 10;
    rounded(context, { x: left, y: y + height - 20, width, height: 15 }, 3);
    context.fillStyle = theme.badge;
    context.fill();
    context.fillStyle = theme.text;
    context.fillText(badge, left + 5, y + height - 12);
    left += width + 4;
  }
}

/** Inputs and outputs are round, copies are slanted and dashed. */
function paintEnd(context, view, item, face) {
  const { theme } = view;
  const { x, y, width, height } = item;
  context.beginPath();
  if (face.kind === "c") {
    const slant = 10;
    context.moveTo(x + slant, y);
    context.lineTo(x + width, y);
    context.lineTo(x + width - slant, y + height);
    context.lineTo(x, y + height);
    context.closePath();
  } else context.roundRect(x, y, width, height, height / 2);
  context.fillStyle = face.kind === "b" ? theme.raised : theme.ground;
  context.fill();
  context.strokeStyle = face.kind === "c" ? theme.copy : theme.end;
  context.lineWidth = 1.6;
  context.setLineDash(face.kind === "c" ? [4, 3] : []);
  context.stroke();
  context.setLineDash([]);
  context.textBaseline = "middle";
  context.textAlign = "center";
  context.font = FONTS.title;
  context.fillStyle = theme.text;
  context.fillText(face.kind === "b" ? `▸ ${face.title}` : face.title, x + width / 2, y + HEADER / 2 + 1);
  context.font = FONTS.line;
  context.fillStyle = theme.quiet;
  face.lines.forEach((line, index) => context.fillText(line, x + width / 2, y + HEADER + 6 + 17 * index));
  context.textAlign = "start";
}

function paintOutlines(context, { theme, transform: { k }, selected, matches }, item) {
  if (item.id !== selected && !matches.has(item.id)) return;
  const gap = Math.max(3, 2 / k);
  rounded(context, { x: item.x - gap, y: item.y - gap, width: item.width + 2 * gap, height: item.height + 2 * gap }, RADIUS + gap);
  context.strokeStyle = theme.accent;
  context.lineWidth = Math.max(item.id === selected ? 3 : 1.5, (item.id === selected ? 3 : 2) / k);
  context.setLineDash(item.id === selected ? [] : [6 / Math.min(1, k), 4 / Math.min(1, k)]);
  context.stroke();
  context.setLineDash([]);
}

function rounded(context, { x, y, width, height }, radius) {
  context.beginPath();
  context.roundRect(x, y, width, height, radius);
}
