// What details are made of: sections, facts, buttons that lead to an item, values with their types.
import { providerColour } from "./colours.js";
import { localName } from "./faces.js";
import { element } from "./state.js";
import { bytesText } from "./units.js";

const LINKS = 12; // readers of a value that are named

/** A heading and what is under it; null where there is nothing. */
export function section(title, ...content) {
  const there = content.flat().filter((part) => part !== null && part !== undefined && part !== "");
  return there.length ? element("section", {}, element("h3", {}, title), ...there) : null;
}

/** Labels and what they say: [[label, text or element]]; those that say nothing are left out. */
export function factList(pairs) {
  const there = pairs.filter(([, said]) => said !== null && said !== undefined && said !== "");
  if (!there.length) return null;
  return element("dl", {}, ...there.flatMap(([label, said]) => [element("dt", {}, label), element("dd", {}, said)]));
}

/** A button that leads to an item of the drawing, plain text where the stage has none of that id. */
export function leadTo(view, id, text) {
  if (!view.tree.parents.has(id)) return element("span", {}, text);
  return element("button", { class: "link", onclick: () => view.select(id, { jump: true }) }, text);
}

/** "Conv conv1". */
export function nodeText(model, key) {
  const { operator, name } = model.document.nodes[key];
  return `${operator} ${name}`;
}

/** A provider with its colour. */
export function providerBadge(model, provider) {
  const swatch = element("span", { class: "swatch", style: `--fill: ${providerColour(model, provider)}`, "aria-hidden": "true" });
  const [own, ...rest] = provider.split(/(?=ExecutionProvider$)/); // a line may break there
  return element("span", { class: "provider" }, swatch, element("span", {}, own, element("wbr"), ...rest));
}

/** Where a value comes from: the id of the item, null of a constant. */
function sourceOf(view, value) {
  const { makers, graphs, isConstant } = view.tree.wiring;
  if (makers.has(value)) return `n:${makers.get(value)}`;
  for (const body of graphs.values()) if (body.inputs.includes(value) && !isConstant(value)) return `i:${body.path}|${value}`;
  return null;
}

/** A value that an item reads: its name leads to its maker; a constant says what it holds. */
export function readValue(model, view, value) {
  if (value === null) return element("li", { class: "quiet" }, "left out");
  const source = sourceOf(view, value);
  const name = localName(model, value);
  const known = model.document.values[value];
  const title = source ? leadTo(view, source, name) : element("span", {}, name);
  return element("li", {}, title, typeLine(known), known?.constant === undefined ? "" : element("span", { class: "holds" }, known.constant));
}

/** A value that an item makes, and who reads it. */
export function madeValue(model, view, value) {
  if (value === null) return element("li", { class: "quiet" }, "left out");
  const readers = view.tree.wiring.readers.get(value) ?? [];
  const links = readers.slice(0, LINKS).map((key) => leadTo(view, `n:${key}`, `→ ${nodeText(model, key)}`));
  if (readers.length > LINKS) links.push(element("span", { class: "quiet" }, `and ${readers.length - LINKS} more`));
  return element("li", {}, localName(model, value), typeLine(model.document.values[value]), element("span", { class: "readers" }, ...links));
}

function typeLine(value) {
  const bytes = value?.bytes === null || value === undefined ? "" : ` · ${bytesText(value.bytes)}`;
  const symbolic = value?.symbolic === undefined ? "" : ` · ${value.symbolic}`;
  return element("span", { class: "type" }, `${value?.type ?? "unknown"}${bytes}${symbolic}`);
}

/** A list of items under a heading, null where there are none. */
export function listed(title, items) {
  return items.length ? section(title, element("ul", { class: "values" }, ...items)) : null;
}
