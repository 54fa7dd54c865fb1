// The tab of the graph: tools above, a list of what is in it at the left, the drawing, and what is known of what is selected.
import { createDetails } from "./details.js";
import { COLOURINGS } from "./faces.js";
import { createGraphView } from "./graph.js";
import { createLegend } from "./legend.js";
import { createSearch } from "./search.js";
import { element } from "./state.js";
import { createTree } from "./tree.js";

const ROOM_FOR_LIST = 1100; // pixels of width from which the list is there at first
const ROOM_FOR_DETAILS = 640;

/** Fills the panel of the graph. It follows `node` and `stage` of the state, and tells it nodes that are selected: {key(event), close()}. */
export function makeExplorer(root, model, state) {
  const [list, drawing, panel] = ["aside", "div", "aside"].map((tag) => element(tag));
  list.setAttribute("aria-label", "What is in the graph");
  panel.setAttribute("aria-label", "What is known of it");
  const told = { tree: null, details: null, legend: null, search: null };
  const view = createGraphView(drawing, model, {
    stage: state.get("stage"),
    choose(id) {
      told.tree?.select(id);
      told.details?.show(id);
      state.set("node", id?.startsWith("n:") ? id.slice(2) : null);
    },
    changed: () => told.tree?.refresh(),
  });
  told.tree = createTree(list, view);
  told.details = createDetails(panel, model, view);
  told.legend = createLegend(drawing, model, view);
  told.search = createSearch(model, view);
  list.className = "side";
  panel.className = "side details";
  root.classList.add("explorer");
  root.append(toolbar(model, view, state, told, { list, panel }), element("div", { class: "columns" }, list, drawing, panel));
  followState(model, view, state, told);
  told.details.show(view.selected);
  return { key: (event) => explorerKey(event, told.search), close: view.close };
}

function followState(model, view, state, told) {
  const choose = (key) => {
    if (key === null || view.selected === `n:${key}`) return;
    const stage = stageOf(model, key, state.get("stage"));
    if (stage < 0) return;
    state.set("stage", stage);
    view.select(`n:${key}`, { jump: true });
  };
  state.listen("node", choose);
  state.listen("stage", (stage) => {
    view.show(stage);
    told.details.show(view.selected);
    told.legend.refresh();
    told.search.refresh();
  });
  choose(state.get("node"));
}

/** The stage that is shown where it has the node, else the last one that has, -1 where none has. */
function stageOf(model, key, shown) {
  if (model.at(shown).keys.has(key)) return shown;
  return model.document.stages.findLastIndex((_, stage) => model.keysAt(stage).has(key));
}

function toolbar(model, view, state, told, { list, panel }) {
  const button = (text, label, onclick) => element("button", { onclick, "aria-label": label, title: label }, text);
  return element(
    "div",
    { class: "toolbar", role: "group", "aria-label": "Tools of the graph" },
    toggle("List", list, innerWidth >= ROOM_FOR_LIST),
    told.search.root,
    stageChoice(model, state),
    colourChoice(model, view, told),
    element("span", { class: "space" }),
    button("Fold", "Fold all boxes", () => view.foldAll(true)),
    button("Unfold", "Unfold all boxes", () => view.foldAll(false)),
    button("Fit", "All of it in sight (0)", () => view.fit()),
    button("−", "Smaller (-)", () => view.zoomBy(1 / 1.4)),
    button("+", "Larger (+)", () => view.zoomBy(1.4)),
    toggle("Details", panel, innerWidth >= ROOM_FOR_DETAILS),
  );
}

/** A button that shows and hides a side. */
function toggle(text, side, shown) {
  const press = () => {
    side.hidden = !side.hidden;
    made.setAttribute("aria-pressed", String(!side.hidden));
  };
  const made = element("button", { onclick: press, "aria-pressed": String(shown) }, text);
  side.hidden = !shown;
  return made;
}

function choice(label, entries, chosen, choose) {
  const made = element("select", { "aria-label": label, onchange: () => choose(made.value) }, ...entries.map(([value, text]) => element("option", { value }, text)));
  made.value = String(chosen);
  return { made, root: element("label", { class: "choice" }, element("span", { class: "quiet", "aria-hidden": "true" }, label), made) };
}

function stageChoice(model, state) {
  const { stages } = model.document;
  if (stages.length < 2) return "";
  const entries = stages.map((stage, number) => [String(number), `${number + 1}. ${stage.title}`]);
  const { made, root } = choice("stage", entries, state.get("stage"), (number) => state.set("stage", Number(number)));
  state.listen("stage", (number) => {
    made.value = String(number);
  });
  return root;
}

function colourChoice(model, view, told) {
  const ways = COLOURINGS.filter(({ has }) => has(model, view.tree));
  const colour = (id) => {
    view.colourBy(id);
    told.legend.refresh();
    told.tree.refresh();
  };
  return choice("colour", ways.map(({ id, title }) => [id, title]), view.colouring, colour).root;
}

function explorerKey({ key }, search) {
  if (key === "/") search.focus();
  else if (key === "n") search.move(1);
  else if (key === "N") search.move(-1);
  else return false;
  return true;
}
