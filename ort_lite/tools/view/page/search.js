// Searching for nodes: by name, operator, tensor, provider and type.
import { element, say } from "./state.js";
import { countText } from "./units.js";

const FIELDS = ["name", "op", "tensor", "provider", "dtype"];

/** What each node of a stage is found by: a Map of keys to {name, op, tensor, provider, dtype}, in small letters. */
export function searchable(model, keys) {
  const { nodes, values } = model.document;
  const entry = (key) => {
    const node = nodes[key];
    const tensors = [...node.inputs, ...node.outputs].filter((value) => value !== null);
    const types = new Set(tensors.map((value) => values[value]?.dtype).filter(Boolean));
    const texts = [node.name, node.operator, tensors.join(" "), model.providerOf(key) ?? "", [...types].join(" ")];
    return Object.fromEntries(texts.map((text, index) => [FIELDS[index], text.toLowerCase()]));
  };
  return new Map([...keys].map((key) => [key, entry(key)]));
}

/** Keys of the nodes that have all words of a query. A word is looked for everywhere, "op:conv" in one field. */
export function found(entries, query) {
  const joined = query.toLowerCase().replace(/\b(\w+):\s+/g, "$1:");
  const tests = joined.split(/\s+/).filter(Boolean).map(testOf);
  if (!tests.length) return [];
  return [...entries].filter(([, entry]) => tests.every((test) => test(entry))).map(([key]) => key);
}

function testOf(word) {
  const [field, text] = word.split(/:(.*)/s);
  if (FIELDS.includes(field)) return (entry) => entry[field].includes(text);
  return (entry) => FIELDS.some((name) => entry[name].includes(word));
}

/**
 * The field for a query, with the count of what it finds and buttons for the next and the one before:
 * {root, refresh(), focus(), move(by)}; `refresh` looks again after the stage has changed.
 */
export function createSearch(model, view) {
  const hint = "a word of a name, operator, tensor, provider or type; or op:conv, dtype:float16";
  const input = element("input", { type: "search", placeholder: "Search ( / )", "aria-label": `Search: ${hint}`, title: hint });
  const count = element("output", { class: "quiet", "aria-live": "polite" });
  const search = { model, view, input, count, hits: [], at: -1, entries: null };
  const button = (text, label, by) => element("button", { "aria-label": label, title: label, onclick: () => moveHit(search, by) }, text);
  input.addEventListener("input", () => lookUp(search));
  input.addEventListener("keydown", (event) => searchKey(search, event));
  const root = element("span", { class: "search", role: "search" }, input, button("↑", "Match before (N)", -1), button("↓", "Next match (n)", 1), count);
  return {
    root,
    focus: () => input.select(),
    move: (by) => moveHit(search, by),
    refresh() {
      search.entries = null;
      if (input.value) lookUp(search);
    },
  };
}

function lookUp(search) {
  search.entries ??= searchable(search.model, search.view.tree.wiring.keys);
  search.hits = found(search.entries, search.input.value);
  search.at = -1;
  tellCount(search);
  search.view.highlight(search.hits.map((key) => `n:${key}`));
}

function tellCount({ hits, at, count, input, entries }) {
  if (!input.value.trim()) count.textContent = "";
  else count.textContent = at < 0 ? `${hits.length} of ${countText(entries.size, "node")}` : `${at + 1} of ${hits.length}`;
}

function moveHit(search, by) {
  const { hits, view } = search;
  if (!hits.length) return say("nothing is found");
  search.at = search.at < 0 ? (by > 0 ? 0 : hits.length - 1) : (search.at + by + hits.length) % hits.length;
  tellCount(search);
  return view.select(`n:${hits[search.at]}`, { jump: true });
}

function searchKey(search, event) {
  if (event.key === "Enter") moveHit(search, event.shiftKey ? -1 : 1);
  else if (event.key === "Escape") {
    search.input.value = "";
    lookUp(search);
    search.view.canvas.focus();
  } else return;
  event.preventDefault();
}
