// What the playground's panel says of a result: what changed since the one before, what came out of a run, and what a run is fed.
import { element } from "../../../view/page/state.js";

function short(provider) {
  return provider.replace(/ExecutionProvider$/, "");
}

function many(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** How many nodes went from whom to whom: [[from, to, count]], the most first. */
function moved(document, before) {
  const counts = new Map();
  for (const [key, { provider }] of Object.entries(document.placements)) {
    const was = before.placements[key]?.provider;
    if (was === undefined || was === provider) continue;
    const way = `${short(was)} → ${short(provider)}`;
    counts.set(way, (counts.get(way) ?? 0) + 1);
  }
  return [...counts].sort((one, other) => other[1] - one[1]);
}

function sharesOf(document) {
  const counts = new Map();
  for (const { provider } of Object.values(document.placements)) counts.set(provider, (counts.get(provider) ?? 0) + 1);
  const partitions = (name) => document.partitions.filter(({ provider }) => provider === name).length;
  return [...counts].map(([name, count]) => [short(name), count, partitions(name)]);
}

function table(caption, head, rows) {
  const line = (cells, tag) => element("tr", {}, ...cells.map((cell) => element(tag, tag === "th" ? { scope: "col" } : {}, cell ?? "")));
  const body = element("tbody", {}, ...rows.map((row) => line(row, "td")));
  return element("table", {}, element("caption", {}, caption), element("thead", {}, line(head, "th")), body);
}

/** Who runs how much, and what is not as it was before. */
export function changesOf(document, before) {
  const made = [table("Who runs what", ["provider", "nodes", "partitions"], sharesOf(document))];
  if (!before) return made;
  const ways = moved(document, before);
  const items = ways.map(([way, count]) => element("li", {}, `${many(count, "node")}: ${way}`));
  if (before.partitions.length !== document.partitions.length) {
    items.push(element("li", {}, `partitions: ${before.partitions.length} → ${document.partitions.length}`));
  }
  const list = items.length ? element("ul", {}, ...items) : element("p", { class: "quiet" }, "Nobody runs other nodes than before.");
  return [...made, element("h3", {}, "Changed"), list];
}

/** What came out of a run, an output below the other; nothing where there was none. */
export function outputsOf(outputs) {
  if (!outputs) return [];
  const time = element("p", { class: "quiet" }, `${outputs.milliseconds.toPrecision(4)} ms, the first run`);
  const tables = outputs.rows.map(({ output, ...facts }) => {
    const rows = Object.entries(facts).map(([name, text]) => element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, text)));
    return element("table", { class: "output" }, element("caption", {}, output), element("tbody", {}, ...rows));
  });
  return [element("h3", {}, "Outputs"), time, ...tables];
}

function entries(list) {
  return new Map(list.map((text) => [text.slice(0, text.indexOf("=")), text.slice(text.indexOf("=") + 1)]));
}

function inputRow({ name, type, shape }, known) {
  const at = (what, placeholder) =>
    element("input", { "data-what": what, "aria-label": `${name}: ${what}`, placeholder, value: known[what].get(name), spellcheck: "false" });
  const title = element("span", {}, name, element("small", {}, type));
  return element("div", { class: "playground-input", "data-name": name }, title, at("shape", shape.map((dim) => dim ?? "?").join("x")), at("value", "random"));
}

/** {root, show(inputs, model), values()}: the shape and the value of each input; what is left empty is the playground's to choose. */
export function makeInputs(chosen) {
  const known = { shape: entries(chosen.shapes), value: entries(chosen.values) };
  const list = element("div", {});
  const seed = element("input", { id: "playground-seed", type: "number", min: 0, max: 2 ** 32 - 1, value: chosen.seed });
  const root = element("details", { hidden: true }, element("summary", {}, "Inputs"), list,
    element("div", { class: "field" }, element("label", { for: "playground-seed" }, "Seed of random ones"), seed));
  let of = null;
  const filled = (what) =>
    [...list.querySelectorAll(`[data-what="${what}"]`)]
      .filter((input) => input.value.trim())
      .map((input) => `${input.parentElement.dataset.name}=${input.value.trim()}`);
  return {
    root,
    show(inputs, model) {
      if (of === model) return;
      of = model;
      root.hidden = false;
      list.replaceChildren(...inputs.map((input) => inputRow(input, known)));
    },
    values: () => ({ shapes: filled("shape"), values: filled("value"), dims: chosen.dims, seed: seed.valueAsNumber || 0 }),
  };
}
