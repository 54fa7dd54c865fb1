// Puts the page together: a tab for each thing to look at, shown when there is something in it.
import { createModel } from "./document.js";
import { makeExplorer } from "./explore.js";
import { createState, element } from "./state.js";

/** {id, title, has(document), make(root, model, state)}: `make` fills a panel when it is first looked at. */
const TABS = [
  { id: "graph", title: "Graph", has: () => true, make: makeExplorer },
];

function showTab(id, state) {
  for (const tab of document.querySelectorAll('[role="tab"]')) {
    const chosen = tab.dataset.id === id;
    tab.setAttribute("aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
    document.getElementById(`panel-${tab.dataset.id}`).hidden = !chosen;
  }
  state.set("tab", id);
}

function addTab(tab, model, state) {
  const panel = element("section", { role: "tabpanel", id: `panel-${tab.id}`, "aria-labelledby": `tab-${tab.id}`, hidden: true });
  const button = element("button", { role: "tab", id: `tab-${tab.id}`, "data-id": tab.id, "aria-controls": panel.id }, tab.title);
  let made = false;
  button.addEventListener("click", () => showTab(tab.id, state));
  state.listen("tab", (id) => {
    if (id !== tab.id || made) return;
    made = true;
    tab.make(panel, model, state);
  });
  document.getElementById("tabs").append(button);
  document.getElementById("panels").append(panel);
}

/** Shows a document instead of what is there. */
export function show(shown) {
  document.getElementById("tabs").replaceChildren();
  document.getElementById("panels").replaceChildren();
  const model = createModel(shown);
  const state = createState({ stage: shown.stages.length - 1, node: null, tab: null });
  const tabs = TABS.filter((tab) => tab.has(shown));
  for (const tab of tabs) addTab(tab, model, state);
  if (tabs.length) showTab(tabs[0].id, state);
}

show(JSON.parse(document.getElementById("document").textContent));
