// The tab of memory: what each partition plans to hold, steps across and bytes up, a rectangle for each tensor.
import { factList } from "./blocks.js";
import { Chart, zoomButtons } from "./chart.js";
import { arenaOwner, COLOURED_BY, runWith } from "./rectangles.js";
import { element } from "./state.js";
import { createTable } from "./table.js";
import { bytesText, countText, shareText } from "./units.js";

/** Fills the panel of memory: {close()}. The nodes of rectangles are those of the graph: choosing one chooses the other. */
export function makeMemory(root, model, state) {
  const arenas = d3.sort(model.document.memory, ({ size }) => -size);
  const tab = { model, state, arenas, arena: arenas[0], by: COLOURED_BY[0], asTable: false };
  tab.owner = arenaOwner(tab);
  tab.chart = new Chart(tab.owner);
  tab.side = element("aside", { "aria-label": "About this memory", tabindex: 0 });
  tab.plot = element("div", { class: "plot" });
  tab.bar = barOf(tab);
  root.append(tab.plot);
  fillMemory(tab);
  state.listen("node", () => markTensors(tab));
  return { close: () => tab.chart.close() };
}

/** "p3 on cpu: scratch, 3.10 MB". */
export function arenaTitle(arena) {
  return `${arena.partition}, ${arena.memory}: ${arena.role}, ${bytesText(arena.size)}`;
}

function barOf(tab) {
  const arenas = chooser("Memory", tab.arenas.map(arenaTitle), (index) => changeArena(tab, tab.arenas[index]));
  const colours = chooser("Colour", COLOURED_BY.map(({ title }) => title), (index) => {
    tab.by = COLOURED_BY[index];
    fillMemory(tab);
  });
  const table = element("button", { "aria-pressed": "false" }, "Table");
  table.addEventListener("click", () => {
    tab.asTable = !tab.asTable;
    table.setAttribute("aria-pressed", tab.asTable);
    fillMemory(tab);
  });
  return element("div", { class: "bar" }, arenas, colours, table, zoomButtons(tab.chart));
}

/** A labelled choice among titles; `choose` hears the number of one. */
export function chooser(label, titles, choose) {
  const options = titles.map((title, index) => element("option", { value: index }, title));
  return element("label", {}, label, element("select", { onchange: ({ target }) => choose(Number(target.value)) }, ...options));
}

function changeArena(tab, arena) {
  tab.arena = arena;
  tab.owner = arenaOwner(tab);
  tab.chart.reset(tab.owner);
  fillMemory(tab);
}

function fillMemory(tab) {
  tab.table = tab.asTable ? tensorTable(tab) : null;
  tab.plot.replaceChildren(tab.bar, tab.asTable ? tab.table.root : tab.chart.root, tab.side);
  tab.side.replaceChildren(...aboutArena(tab));
  markTensors(tab);
}

function markTensors(tab) {
  const nodes = runWith(tab.model, tab.state.get("node"));
  tab.table?.mark((tensor) => nodes.has(tensor.node));
  tab.chart.redraw();
}

function aboutArena({ arena, by, model }) {
  const alone = d3.sum(arena.tensors, ({ size }) => size);
  const fullest = d3.maxIndex(arena.live);
  const over = arena.bound ? arena.size / arena.bound - 1 : 0;
  const facts = factList([
    ["Planned", bytesText(arena.size)],
    ["No plan needs less than", bytesText(arena.bound)],
    ["Above that bound", over > 0 ? shareText(over) : "nothing: the plan is the best there is"],
    ["Tensors", countText(arena.tensors.length, "tensor")],
    ["With a place for each", `${bytesText(alone)} (${(alone / Math.max(arena.size, 1)).toFixed(1)} times as much)`],
    ["Fullest at", fullest < 0 ? "" : `step ${fullest}, ${arena.steps[fullest]}: ${bytesText(arena.live[fullest])}`],
    ["For inputs", arena.shapes],
  ]);
  const lines = [["live", "bytes alive at a step"], ["bound", "what any plan needs"], ["size", "what this plan takes"]];
  const drawn = lines.map(([line, title]) => element("li", {}, element("span", { class: `line ${line}`, "aria-hidden": "true" }), title));
  const colours = by.legend(arena, model).map(([colour, title]) =>
    element("li", {}, element("span", { class: "swatch", style: `--fill: ${colour}`, "aria-hidden": "true" }), title),
  );
  return [
    element("h2", {}, "Plan"), facts ?? "",
    element("h2", {}, "Lines"), element("ul", { class: "key" }, ...drawn),
    element("h2", {}, `Colours: ${by.title}`), element("ul", { class: "key" }, ...colours),
  ];
}

function tensorTable({ arena, state }) {
  const number = (title, value, text) => ({ title, value, text, numeric: true });
  return createTable({
    label: `Tensors of ${arenaTitle(arena)}`,
    columns: [
      { title: "Tensor", value: (tensor) => tensor.name },
      { title: "Node", value: (tensor) => tensor.node ?? "" },
      { title: "Role", value: (tensor) => tensor.role },
      number("Offset", (tensor) => tensor.offset, (tensor) => tensor.offset.toLocaleString("en")),
      number("Size", (tensor) => tensor.size, (tensor) => bytesText(tensor.size)),
      number("From step", (tensor) => tensor.first),
      number("To step", (tensor) => tensor.last),
    ],
    rows: arena.tensors,
    sortedBy: 4,
    choose: (tensor) => state.set("node", tensor.node ?? null),
  });
}
