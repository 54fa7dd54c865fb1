// The panel of what is known of what is selected; of nodes here, of all else in subjects.js.
import { factList, leadTo, listed, madeValue, nodeText, providerBadge, readValue, section } from "./blocks.js";
import { timeOf } from "./faces.js";
import { nodesIn, partsOf } from "./nesting.js";
import { element } from "./state.js";
import { modelParts, SUBJECTS } from "./subjects.js";
import { bytesText, countText, shareText, timeText } from "./units.js";

/** A panel in `root` beside a view of graph.js: {show(id)}, null for the model. */
export function createDetails(root, model, view) {
  return {
    show(id) {
      const { kind, name } = id === null ? {} : partsOf(id);
      const parts = id === null ? modelParts(model, view) : kind === "n" ? nodeParts(model, view, name, id) : SUBJECTS[kind](model, view, name, id);
      root.replaceChildren(...parts.filter(Boolean));
      root.scrollTop = 0;
    },
  };
}

function nodeParts(model, view, key, id) {
  const node = model.document.nodes[key];
  return [
    element("h2", {}, node.operator),
    element("p", { class: "name" }, node.name),
    documentation(model.document.operators[node.operator], node.operator),
    whyHere(model, view, key),
    costParts(model, key),
    whyThisKernel(model, view, key),
    listed("Inputs", node.inputs.map((value) => readValue(model, view, value))),
    listed("Outputs", node.outputs.map((value) => madeValue(model, view, value))),
    listed("Read by its bodies", (node.captures ?? []).map((value) => readValue(model, view, value))),
    bodiesOf(model, view, node, id),
    section("Attributes", factList(Object.entries(node.attributes))),
    compiledInto(model, view, key),
    memoryParts(model, key),
    historyParts(model, view, key),
  ];
}

function documentation(operator, name) {
  if (!operator) return null;
  const since = `${name}, since version ${operator.since}`;
  const link = operator.url ? element("a", { href: operator.url, target: "_blank", rel: "noopener noreferrer" }, since) : since;
  const text = operator.doc && element("details", {}, element("summary", {}, "Documentation"), element("div", { class: "doc" }, operator.doc.trim()));
  return element("div", { class: "operator" }, link, text || "");
}

/** Who runs it, and what each other provider has to do with it. */
function whyHere(model, view, key) {
  const place = view.tree.wiring.partitions.size ? model.document.placements[key] : undefined;
  if (!place) return null;
  const reasons = place.reasons.map((reason) =>
    element(
      "li",
      { class: `reason ${reason.verdict}` },
      providerBadge(model, reason.provider),
      element("span", { class: "verdict" }, `${reason.verdict}: ${reason.code}`),
      element("span", { class: "type" }, reason.detail),
    ),
  );
  return section(
    "Why here",
    factList([
      ["runs on", providerBadge(model, place.provider)],
      ["partition", leadTo(view, `p:${place.partition}`, place.partition)],
      ["by the rule", place.rule],
      ["inserted", place.inserted],
    ]),
    reasons.length ? element("ul", { class: "values" }, ...reasons) : null,
  );
}

/** Operations and bytes in a microsecond are mega-operations and megabytes in a second. */
function costParts(model, key) {
  const keys = model.partsOf(key).filter((part) => model.document.costs[part]);
  if (!keys.length) return null;
  const costs = keys.map((part) => model.document.costs[part]);
  const total = (name) => (costs.every((cost) => cost[name] !== undefined) ? d3.sum(costs, (cost) => cost[name]) : null);
  const time = total("microseconds");
  const rate = (amount, unit) => (amount === null || !time ? "" : `, ${prefixed((1e6 * amount) / time)}${unit}/s`);
  const [flops, bytes] = [total("flops"), total("bytes")];
  const shared = d3.max(costs, (cost) => cost.shared);
  const limits = [...new Set(costs.map((cost) => cost.limit))];
  const reached = d3.sum(costs, (cost) => cost.of_peak * cost.microseconds) / time;
  return section(
    "Cost",
    factList([
      ["time", `${timeText(time)}, ${shareText(total("share"))} of a run`],
      ["operations", flops === null ? null : `${prefixed(flops)}FLOP${rate(flops, "FLOP")}`],
      ["moves", bytes === null ? null : `${bytesText(bytes)}${rate(bytes, "B")}`],
      ["reached", limits.length === 1 && limits[0] && time ? `${limits[0]}, ${shareText(reached)} of peak` : null],
      ["measured with", shared > 1 ? `${countText(shared - 1, "other node")}: an equal part of what they took as one` : null],
    ]),
  );
}

/** The kernel that computes it, what it was predicted to take, and why no other candidate does. */
function whyThisKernel(model, view, key) {
  const kernel = view.tree.wiring.partitions.size ? model.kernelOf(key) : undefined;
  if (!kernel) return null;
  const { kernels, taken, runner_up: second, costs, rejected, parts } = kernel;
  const time = timeOf(model, parts);
  const others = [
    ...Object.keys(costs).flatMap((name) => (name === taken ? [] : [reasonAgainst(name, ...costAgainst(costs[taken], costs[name]))])),
    ...Object.entries(rejected).map(([name, why]) => reasonAgainst(name, "does not fit", why)),
  ];
  return section(
    "Why this kernel",
    factList([
      ["kernel", taken],
      ["predicted", costText(costs[taken])],
      ["measured", time ? timeText(time) : null],
      ["runner-up", second && costs[second] ? `${second}, ${costText(costs[second])}` : null],
      ["compiled as", kernels.join("; ")],
    ]),
    others.length ? element("ul", { class: "values" }, ...others) : null,
    element("p", { class: "quiet" }, predictionNote(model, key, kernel)),
  );
}

function predictionNote(model, key, { taken, costs }) {
  const pinned = Object.values(costs).some((cost) => totalCost(cost) < totalCost(costs[taken]));
  return [
    "Predictions are for one thread.",
    hasOpenSizes(model, key) ? "For open dimensions they assume nominal sizes, mostly 256." : "",
    pinned ? "The kernel is not the cheapest: its provider or a config entry chose it." : "",
  ].join(" ");
}

function reasonAgainst(name, verdict, why) {
  return element("li", { class: "reason" }, element("span", { class: "verdict" }, `${name}: ${verdict}`), element("span", { class: "type" }, why));
}

/** ["slower", "1.72 ms, and 39 µs to change layouts (2.0 times as much)"] of a candidate beside the one that was taken. */
function costAgainst(taken, other) {
  const ratio = totalCost(other) / totalCost(taken);
  if (!Number.isFinite(ratio)) return ["not taken", costText(other)];
  const verdict = ratio > 1.05 ? "slower" : ratio < 0.95 ? "faster" : "about as fast";
  return [verdict, `${costText(other)} (${ratio.toFixed(1)} times as much)`];
}

const totalCost = ({ kernel, moves }) => kernel + moves;

const costText = ({ kernel, moves }) => `${timeText(kernel)}${moves ? `, and ${timeText(moves)} to change layouts` : ""}`;

/** True of a node whose sizes only a run tells: the types of its values name dimensions. */
function hasOpenSizes(model, key) {
  const { inputs, outputs } = model.document.nodes[key];
  return [...inputs, ...outputs].some((value) => {
    const known = value === null ? undefined : model.document.values[value];
    return known?.symbolic !== undefined || known?.shape?.some((size) => typeof size === "string");
  });
}

/** "5.55 M", to be followed by a unit. */
const prefixed = (number) => d3.format(".3~s")(number).replace(/([a-zµ]?)$/i, " $1");

function bodiesOf(model, view, node, id) {
  const bodies = (node.bodies ?? []).map((path) =>
    element("li", {}, leadTo(view, `b:${path}`, path.slice(node.name.length + 1)), element("span", { class: "type" }, bodyCount(view, path))),
  );
  const folded = view.folded.has(id);
  const button = element("button", { onclick: () => view.fold(id) }, folded ? "Unfold" : "Fold");
  return bodies.length ? section("Bodies", element("ul", { class: "values" }, ...bodies), button) : null;
}

const bodyCount = (view, path) => countText(nodesIn(view.tree, `b:${path}`).length, "node");

/** What it is compiled to, or what it is compiled from. */
function compiledInto(model, view, key) {
  const made = model.document.partitions.flatMap(({ fused }) => fused);
  const lines = made
    .filter(({ name, parts }) => name === key || parts.includes(key))
    .map(({ name, operator, parts }) => {
      const links = parts.map((part) => leadTo(view, `n:${part}`, part));
      return element("li", {}, leadTo(view, `n:${name}`, operator), element("span", { class: "readers" }, "of ", ...links));
    });
  return listed("Compiled", lines);
}

/** Its outputs in the memory plans. */
function memoryParts(model, key) {
  const lines = model.document.memory.flatMap((arena) =>
    arena.tensors
      .filter((tensor) => tensor.node === key)
      .map(({ name, offset, size, first, last, role }) => {
        const where = `${bytesText(size)} at byte ${offset.toLocaleString("en")} of ${arena.memory} (${role})`;
        return element("li", {}, name, element("span", { class: "type" }, where), element("span", { class: "type" }, `alive in steps ${first} to ${last}`));
      }),
  );
  return listed("Memory", lines);
}

/** The stages at which it came and went, what it was made of and what became of it. */
function historyParts(model, view, key) {
  const lines = model.document.stages.flatMap((stage, number) => {
    const came = stage.added.includes(key) && number > 0;
    const went = stage.removed.includes(key);
    if (!came && !went) return number === 0 && stage.added.includes(key) ? [element("li", {}, stage.title)] : [];
    const change = stage.changes.find(({ added, removed }) => (came ? added : removed).includes(key));
    const others = change ? (came ? change.removed : change.added) : [];
    const links = others.map((other) => leadTo(view, `n:${other}`, nodeText(model, other)));
    const says = came ? (others.length ? "came of" : "came") : others.length ? "became" : "went";
    const rule = change && change.rule !== stage.title ? ` (${change.rule})` : "";
    return [element("li", {}, `${stage.title}${rule}: ${says}`, element("span", { class: "readers" }, ...links))];
  });
  return model.document.stages.length > 1 ? listed("History", lines) : null;
}
