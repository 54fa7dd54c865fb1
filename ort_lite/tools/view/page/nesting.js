// What is in what, and what of it is seen when some boxes are folded: partitions in graphs, nodes in partitions, bodies in nodes.
//
// An item has an id, whose first letter is its kind: "n:" a node, "p:" a partition, "b:" a body of a control-flow node, "i:" and "o:" an
// input and an output of a graph, "c:" a copy (by its number).
import { append } from "./document.js";

/** The tree of a stage: {parents: id -> id or null, children: id or "" -> ids, in order}. O(nodes). */
export function nest(model, stage) {
  const wiring = model.at(stage);
  const tree = { wiring, parents: new Map(), children: new Map() };
  for (const body of wiring.graphs.values()) {
    const home = body.path ? `b:${body.path}` : null;
    if (home) place(tree, home, `n:${body.node}`);
    for (const value of body.inputs) if (!wiring.isConstant(value)) place(tree, inputId(body, value), home);
  }
  for (const key of wiring.keys) placeNode(model, tree, key);
  model.document.copies.forEach((copy, index) => {
    if (wiring.partitions.size && wiring.graphs.has(copy.graph)) place(tree, `c:${index}`, copy.graph ? `b:${copy.graph}` : null);
  });
  for (const body of wiring.graphs.values()) {
    for (const value of body.outputs) place(tree, outputId(body, value), body.path ? `b:${body.path}` : null);
  }
  return tree;
}

function placeNode(model, tree, key) {
  const { graph } = model.document.nodes[key];
  const home = graph ? `b:${graph}` : null;
  const partition = tree.wiring.partitionOf.get(key);
  if (partition === undefined) return place(tree, `n:${key}`, home);
  if (!tree.parents.has(`p:${partition}`)) place(tree, `p:${partition}`, home);
  return place(tree, `n:${key}`, `p:${partition}`);
}

function place(tree, id, parent) {
  if (tree.parents.has(id)) return;
  tree.parents.set(id, parent);
  append(tree.children, parent ?? "", id);
}

export const inputId = (body, value) => `i:${body.path}|${value}`;
export const outputId = (body, value) => `o:${body.path}|${value}`;

/** What an item stands for: {kind, name}; the name of an input or output is its value's key. */
export function partsOf(id) {
  const kind = id[0];
  const name = id.slice(2);
  return { kind, name: kind === "i" || kind === "o" ? name.slice(name.indexOf("|") + 1) : name };
}

/** The boxes around an item, the innermost first. */
export function around(tree, id) {
  const found = [];
  for (let parent = tree.parents.get(id); parent; parent = tree.parents.get(parent)) found.push(parent);
  return found;
}

/** What is seen of an item: itself, or the outermost folded box that it is in. */
export function seen(tree, folded, id) {
  return around(tree, id).findLast((box) => folded.has(box)) ?? id;
}

/** Items that have others in them. */
export function boxes(tree) {
  return [...tree.children.keys()].filter((id) => id);
}

/** The nodes in a box, at any depth. */
export function nodesIn(tree, id) {
  const found = [];
  for (const child of tree.children.get(id) ?? []) {
    if (child[0] === "n") found.push(child.slice(2));
    found.push(...nodesIn(tree, child));
  }
  return found;
}

/**
 * The edges between what is seen: [{from, to, value}], each once. A value on its way to another device goes by its copy.
 * Edges between items of one folded box are not seen, nor those from a box to what is in it.
 */
export function seenEdges(model, tree, folded) {
  const made = new Map();
  const add = (from, to, value) => {
    const [source, target] = [seen(tree, folded, from), seen(tree, folded, to)];
    if (source === target || around(tree, target).includes(source) || around(tree, source).includes(target)) return;
    made.set(`${source}\n${target}\n${value}`, { from: source, to: target, value });
  };
  const copies = copiesByReader(model, tree);
  for (const [from, to, value] of wires(model, tree)) {
    const stops = [from, ...copiesBetween(tree, copies, from, to, value), to];
    for (const [source, target] of d3.pairs(stops)) add(source, target, value);
  }
  return [...made.values()];
}

function* wires(model, tree) {
  const { keys, makers, graphs, isConstant } = tree.wiring;
  const sources = new Map([...makers].map(([value, key]) => [value, `n:${key}`]));
  for (const body of graphs.values()) {
    for (const value of body.inputs) if (!isConstant(value)) sources.set(value, inputId(body, value));
  }
  for (const key of keys) {
    for (const value of new Set(model.document.nodes[key].inputs)) {
      if (sources.has(value)) yield [sources.get(value), `n:${key}`, value];
    }
  }
  for (const body of graphs.values()) {
    for (const value of body.outputs) if (sources.has(value)) yield [sources.get(value), outputId(body, value), value];
  }
}

function copiesByReader(model, tree) {
  const found = new Map();
  model.document.copies.forEach((copy, index) => {
    const reader = copy.reader === "output" ? `o:${copy.graph}|${copy.value}` : `p:${copy.reader}`;
    if (tree.parents.has(`c:${index}`)) found.set(`${reader}\n${copy.value}`, `c:${index}`);
  });
  return found;
}

/** Copies on the way of a value, the outermost first: into a partition, and again inside of a body that it runs. */
function copiesBetween(tree, copies, from, to, value) {
  const origin = new Set(around(tree, from));
  const readers = [to, ...around(tree, to)].filter((id) => !origin.has(id));
  return readers.reverse().map((id) => copies.get(`${id}\n${value}`)).filter(Boolean);
}
