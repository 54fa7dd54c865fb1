// What is known of what is no node: partitions, bodies, inputs and outputs, copies, and the model itself.
import { factList, leadTo, listed, madeValue, providerBadge, readValue, section } from "./blocks.js";
import { localName, timeOf } from "./faces.js";
import { nodesIn, partsOf } from "./nesting.js";
import { element } from "./state.js";
import { bytesText, countText, shareText, timeText } from "./units.js";

const FUSED = 100; // nodes of a compiled partition that are listed

/** Contents by the kind of an item: (model, view, name, id) -> elements. */
export const SUBJECTS = {
  p: partitionParts,
  b: bodyParts,
  i: endParts,
  o: endParts,
  c: copyParts,
};

function partitionParts(model, view, name, id) {
  const partition = view.tree.wiring.partitions.get(name);
  const keys = nodesIn(view.tree, id);
  const time = timeOf(model, partition.nodes);
  return [
    element("h2", {}, name),
    factList([
      ["provider", providerBadge(model, partition.provider)],
      ["device", partition.device],
      ["nodes", String(keys.length)],
      ["time", time ? `${timeText(time)}, ${shareText(shareOf(model, partition.nodes))} of a run` : null],
      ["graph", partition.graph ? leadTo(view, `b:${partition.graph}`, partition.graph) : null],
      ...Object.entries(partition.facts).map(factPair),
    ]),
    listed("Comes in", partition.inputs.map((value) => readValue(model, view, value))),
    listed("Goes out", partition.outputs.map((value) => madeValue(model, view, value))),
    listed("Copies", copiesOf(model, view, partition)),
    section("Memory", ...model.document.memory.filter((arena) => arena.partition === name).map(arenaLine)),
    fusedParts(view, partition),
  ];
}

function shareOf(model, keys) {
  return d3.sum(keys, (key) => model.document.costs[key]?.share ?? 0);
}

/** "constant_bytes: 256" as "constant bytes: 256 B". */
function factPair([name, fact]) {
  const bytes = name.endsWith("bytes") && typeof fact === "number";
  return [name.replaceAll("_", " "), bytes ? bytesText(fact) : fact.toLocaleString("en")];
}

function copiesOf(model, view, partition) {
  const made = new Set(partition.outputs);
  return model.document.copies
    .map((copy, index) => ({ copy, id: `c:${index}` }))
    .filter(({ copy }) => copy.graph === partition.graph && (copy.reader === partition.name || made.has(copy.value)))
    .map(({ copy, id }) => {
      const where = copy.reader === partition.name ? "in" : `out to ${copy.reader}`;
      const says = `${copy.route.join(" → ")} · ${bytesText(copy.bytes)} · ${where}`;
      return element("li", {}, leadTo(view, id, localName(model, copy.value)), element("span", { class: "type" }, says));
    });
}

function arenaLine(arena) {
  const over = arena.bound ? `, at least ${bytesText(arena.bound)}` : "";
  return element("p", {}, `${arena.role || "arena"} in ${arena.memory}: ${bytesText(arena.size)}${over} for ${arena.shapes || "all shapes"}`);
}

function fusedParts(view, { fused }) {
  const lines = fused.slice(0, FUSED).map(({ name, operator, parts }) => {
    const links = parts.map((key) => leadTo(view, `n:${key}`, key));
    return element("li", {}, leadTo(view, `n:${name}`, operator), element("span", { class: "readers" }, ...links));
  });
  if (fused.length > FUSED) lines.push(element("li", { class: "quiet" }, `and ${countText(fused.length - FUSED, "more")}`));
  return listed("Compiled to", lines);
}

function bodyParts(model, view, path, id) {
  const body = view.tree.wiring.graphs.get(path);
  return [
    element("h2", {}, path),
    factList([
      ["body of", leadTo(view, `n:${body.node}`, body.node)],
      ["nodes", String(nodesIn(view.tree, id).length)],
    ]),
    listed("Inputs", body.inputs.map((value) => madeValue(model, view, value))),
    listed("Outputs", body.outputs.map((value) => readValue(model, view, value))),
  ];
}

function endParts(model, view, value, id) {
  const input = partsOf(id).kind === "i";
  return [
    element("h2", {}, localName(model, value)),
    element("p", { class: "quiet" }, input ? "an input" : "an output"),
    element("ul", { class: "values" }, input ? madeValue(model, view, value) : readValue(model, view, value)),
  ];
}

function copyParts(model, view, index) {
  const copy = model.document.copies[Number(index)];
  const reader = copy.reader === "output" ? "the caller" : leadTo(view, `p:${copy.reader}`, copy.reader);
  return [
    element("h2", {}, `Copy of ${localName(model, copy.value)}`),
    factList([["route", copy.route.join(" → ")], ["bytes", bytesText(copy.bytes)], ["for", reader]]),
    element("ul", { class: "values" }, readValue(model, view, copy.value)),
  ];
}

/** Of the model, when nothing is selected. */
export function modelParts(model, view) {
  const { document } = model;
  const stage = document.stages[view.stage];
  return [
    element("h2", {}, document.title),
    factList([...document.facts, ["shown", `${stage.title}, ${countText(view.tree.wiring.keys.size, "node")}`]]),
    stage.note ? element("p", { class: "quiet" }, stage.note) : null,
    view.tree.wiring.partitions.size ? section("Who runs it", providerTable(model, view)) : null,
    section("Operators", operatorList(model, view)),
    listed("Notes", document.notes.map((note) => element("li", {}, note))),
  ];
}

function providerTable(model, view) {
  const keys = d3.group(view.tree.wiring.keys, (key) => model.providerOf(key));
  const partitions = d3.rollup(view.tree.wiring.partitions.values(), (some) => some.length, ({ provider }) => provider);
  const rows = [...new Set([...model.document.providers.map(({ name }) => name), ...partitions.keys()])].map((provider) => {
    const nodes = keys.get(provider) ?? [];
    const time = timeOf(model, nodes);
    const cells = [nodes.length, partitions.get(provider) ?? 0, time ? timeText(time) : ""];
    return element("tr", {}, element("th", { scope: "row" }, providerBadge(model, provider)), ...cells.map((text) => element("td", {}, String(text))));
  });
  const heads = ["provider", "nodes", "partitions", Object.keys(model.document.costs).length ? "time" : ""];
  return element("table", {}, element("tr", {}, ...heads.map((text) => element("th", { scope: "col" }, text))), ...rows);
}

function operatorList(model, view) {
  const counts = d3.rollups(view.tree.wiring.keys, (some) => some.length, (key) => model.document.nodes[key].operator);
  const sorted = d3.sort(counts, ([, count]) => -count, ([operator]) => operator);
  return element("p", { class: "operators" }, ...sorted.map(([operator, count]) => element("span", {}, `${operator} ${count}`)));
}
