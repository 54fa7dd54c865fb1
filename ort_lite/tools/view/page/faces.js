// What items look like, before any is drawn: their texts, cut to what fits, their sizes and their colours.
import { heatColour, inkOn, listColour, providerColour } from "./colours.js";
import { nodesIn, partsOf } from "./nesting.js";
import { bytesText, countText, timeText } from "./units.js";

export const FONTS = {
  title: "600 12px system-ui, sans-serif",
  line: "11px system-ui, sans-serif",
  badge: "10px ui-monospace, monospace",
};
const WIDEST = 190; // pixels of text in an item
const NEUTRAL = "#6e7b8b";
const BADGES = 3; // constants that are shown one by one

const measured = (() => {
  let context = null;
  const widths = new Map();
  return (text, font) => {
    const id = `${font}\n${text}`;
    if (!widths.has(id)) {
      context ??= document.createElement("canvas").getContext("2d");
      context.font = font;
      widths.set(id, context.measureText(text).width);
    }
    return widths.get(id);
  };
})();

/** The end of a text that fits, as the ends of names tell more than their beginnings. */
export function fitted(text, font, widest = WIDEST) {
  if (measured(text, font) <= widest) return text;
  let [least, most] = [0, text.length];
  while (least < most) {
    const middle = (least + most + 1) >> 1;
    if (measured(`…${text.slice(-middle)}`, font) <= widest) least = middle;
    else most = middle - 1;
  }
  return `…${text.slice(-least)}`;
}

/** Long expressions are left to the details. */
function dimension(size) {
  return String(size).length > 14 ? "…" : size;
}

/** A dimension list as it is drawn: "1×64×N"; "scalar" of none, "?" of an unknown one. */
export function shapeText(value) {
  if (!value || value.shape === null) return "?";
  return value.shape.length ? value.shape.map(dimension).join("×") : "scalar";
}

/** {kind, title, lines, badges, width, height, provider, keys} of an item that shows nothing in it, or of an open box. */
export function faceOf(model, tree, id) {
  const { kind, name } = partsOf(id);
  const face = { kind, lines: [], badges: [], ...FACES[kind](model, tree, name, id) };
  face.name = face.title;
  face.title = titleOf(face.title);
  face.lines = face.lines.filter(Boolean).map((line) => fitted(line, FONTS.line));
  face.titleWidth = measured(face.title, FONTS.title);
  const widths = [face.titleWidth, ...face.lines.map((line) => measured(line, FONTS.line))];
  widths.push(face.badges.reduce((sum, badge) => sum + measured(badge, FONTS.badge) + 14, -4));
  face.width = Math.ceil(Math.max(56, ...widths) + (tree.children.has(id) || kind !== "n" ? 40 : 20));
  face.height = 24 + 17 * face.lines.length + (face.badges.length ? 22 : 0);
  return face;
}

/** Providers without what all their names end in, operators with the end of a long domain. */
function titleOf(name) {
  return fitted(operatorTitle(name.replace("ExecutionProvider", "")), FONTS.title);
}

/** "com.ms.internal.nhwc.Conv" becomes "nhwc.Conv". */
export function operatorTitle(name) {
  return name.replace(/^\w+\..*\.(\w+\.\w+)$/, "$1");
}

/** None before it is partitioned. */
function providerAt(model, tree, key) {
  return tree.wiring.partitions.size ? model.providerOf(key) : undefined;
}

const FACES = {
  n(model, tree, key, id) {
    const node = model.document.nodes[key];
    const constants = node.inputs.filter((value) => value !== null && tree.wiring.isConstant(value));
    const badges = constants.slice(0, BADGES).map((value) => badgeText(model.document.values[value]));
    if (constants.length > BADGES) badges.push(`+${constants.length - BADGES}`);
    const inside = tree.children.has(id) ? countText(nodesIn(tree, id).length, "node") : "";
    return { title: node.operator, lines: [node.name, inside], badges, keys: [key], provider: providerAt(model, tree, key) };
  },
  p(model, tree, name, id) {
    const partition = tree.wiring.partitions.get(name);
    const keys = nodesIn(tree, id);
    const time = timeOf(model, keys);
    const says = [countText(keys.length, "node"), partition.device, time ? timeText(time) : ""];
    return { title: name, lines: [says.filter(Boolean).join(" · ")], keys, provider: partition.provider };
  },
  b(model, tree, path, id) {
    const { node } = tree.wiring.graphs.get(path);
    const keys = nodesIn(tree, id);
    return { title: path.startsWith(`${node}.`) ? path.slice(node.length + 1) : path, lines: [countText(keys.length, "node")], keys };
  },
  i: (model, tree, value) => endFace(model, value),
  o: (model, tree, value) => endFace(model, value),
  c(model, tree, index) {
    const copy = model.document.copies[Number(index)];
    const bytes = bytesText(copy.bytes);
    const short = typeof copy.bytes === "number";
    return { title: short ? `copy ${bytes}` : "copy", lines: [short ? "" : bytes, copy.route.join(" → ")], keys: [] };
  },
};

function endFace(model, value) {
  return { title: localName(model, value), lines: [model.document.values[value]?.type ?? "unknown"], keys: [] };
}

/** The name of a value without the path of the body that it is in. */
export function localName(model, value) {
  const body = model.document.graphs.find(({ path }) => path && value.startsWith(`${path}/`));
  return body ? value.slice(body.path.length + 1) : value;
}

function badgeText(value) {
  const short = value.shape?.length === 0 || value.shape?.join() === "1";
  return short && value.constant?.length <= 10 ? value.constant : shapeText(value);
}

/** Microseconds of nodes in a run, 0 where none was measured. */
export function timeOf(model, keys) {
  return d3.sum(new Set(keys.flatMap(model.partsOf)), (key) => model.document.costs[key]?.microseconds ?? 0);
}

/** Ways to colour nodes: {id, title, has(model, tree), colour(model, tree) -> face -> colour}. */
export const COLOURINGS = [
  {
    id: "provider",
    title: "provider",
    has: () => true,
    colour: (model) => (face) => (face.provider ? providerColour(model, face.provider) : NEUTRAL),
  },
  {
    id: "time",
    title: "time",
    has: (model) => Object.keys(model.document.costs).length > 0,
    colour(model) {
      const slowest = d3.max(Object.values(model.document.costs), (cost) => cost.microseconds) || 1;
      return (face) => {
        const time = face.kind === "n" ? timeOf(model, face.keys) : d3.max(face.keys, (key) => timeOf(model, [key]));
        return time ? heatColour(Math.sqrt(time / slowest)) : NEUTRAL;
      };
    },
  },
  {
    id: "partition",
    title: "partition",
    has: (model, tree) => tree.wiring.partitions.size > 0,
    colour(model, tree) {
      const numbers = new Map([...tree.wiring.partitions.keys()].map((name, index) => [name, index]));
      return (face) => {
        const number = numbers.get(tree.wiring.partitionOf.get(face.keys[0]));
        return number === undefined ? NEUTRAL : listColour(number);
      };
    },
  },
];

/** Gives faces the colour that they are filled with, and that of text on it. */
export function colourFaces(faces, colour) {
  for (const face of faces.values()) {
    if (!"np".includes(face.kind)) continue;
    face.fill = colour(face);
    face.ink = inkOn(face.fill);
  }
}
