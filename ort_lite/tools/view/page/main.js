// Puts the page together: a tab for each thing to look at, shown when there is something in it.
import { makeCompare } from "./compare.js";
import { createModel } from "./document.js";
import { makeExplorer } from "./explore.js";
import { addHelp } from "./help.js";
import { makeMemory } from "./memory.js";
import { readAddress, writeAddress } from "./address.js";
import { makeStages } from "./stages.js";
import { createState, element } from "./state.js";
import { addThemes } from "./theme.js";
import { makeTimeline } from "./timeline.js";

/** {id, title, has(document), make(root, model, state)}: `make` fills a panel when it is first looked at; it may answer {key(event), close()}. */
const TABS = [
  { id: "graph", title: "Graph", has: () => true, make: makeExplorer },
  { id: "stages", title: "Stages", has: ({ stages }) => stages.length > 1, make: makeStages },
  { id: "memory", title: "Memory", has: ({ memory }) => memory.length > 0, make: makeMemory },
  { id: "timeline", title: "Timeline", has: ({ timeline }) => (timeline?.events.length ?? 0) > 0, make: makeTimeline },
  { id: "compare", title: "Compare", has: ({ other }) => other !== undefined, make: makeCompare },
];

/** What is on the page: {shown: a document, state, made: tab id -> what `make` answered}. */
const page = { shown: null, state: null, made: new Map() };

function showTab(id) {
  for (const tab of document.querySelectorAll('#tabs [role="tab"]')) {
    const chosen = tab.dataset.id === id;
    tab.setAttribute("aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
    document.getElementById(`panel-${tab.dataset.id}`).hidden = !chosen;
  }
  page.state.set("tab", id);
}

function addTab(tab, model, state) {
  const panel = element("section", { role: "tabpanel", id: `panel-${tab.id}`, "aria-labelledby": `tab-${tab.id}`, hidden: true });
  const button = element("button", { role: "tab", id: `tab-${tab.id}`, "data-id": tab.id, "aria-controls": panel.id }, tab.title);
  button.addEventListener("click", () => showTab(tab.id));
  state.listen("tab", (id) => {
    if (id === tab.id && !page.made.has(id)) page.made.set(id, tab.make(panel, model, state) ?? {});
  });
  document.getElementById("tabs").append(button);
  document.getElementById("panels").append(panel);
}

/** Shows a document instead of what is there. */
export function show(shown) {
  document.getElementById("tabs").replaceChildren();
  document.getElementById("panels").replaceChildren();
  document.getElementById("title").textContent = shown.title;
  for (const { close } of page.made.values()) close?.();
  page.made.clear();
  const model = createModel(shown);
  const asked = readAddress(shown);
  const state = createState({ stage: asked.stage, node: asked.node, tab: null });
  Object.assign(page, { shown, state });
  const tabs = TABS.filter((tab) => tab.has(shown));
  for (const tab of tabs) addTab(tab, model, state);
  for (const name of ["tab", "node", "stage"]) state.listen(name, () => page.state === state && writeAddress(shown, state));
  showTab((tabs.find(({ id }) => id === asked.tab) ?? tabs[0]).id);
}

/** Goes where a link within the page, or an address that was typed, leads. */
function followAddress({ shown, state }) {
  const asked = readAddress(shown);
  if (asked.tab && document.getElementById(`tab-${asked.tab}`)) showTab(asked.tab);
  state.set("stage", asked.stage);
  state.set("node", asked.node);
}

/** Arrow keys, Home and End go from tab to tab. */
function tabKey(event) {
  const tabs = [...document.querySelectorAll('#tabs [role="tab"]')];
  const at = tabs.indexOf(document.activeElement);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
  if (at < 0 || to === undefined) return;
  const next = tabs.at(to % tabs.length);
  next.focus();
  showTab(next.dataset.id);
  event.preventDefault();
}

/** Keys that work anywhere but where one writes: those of the tab that is shown. */
function pageKey(event, help) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
  if (event.key === "?") help.showModal();
  else if (!page.made.get(page.state?.get("tab"))?.key?.(event)) return;
  event.preventDefault();
}

function start() {
  const tools = document.getElementById("tools");
  addThemes(tools);
  const help = addHelp(tools);
  document.getElementById("tabs").addEventListener("keydown", tabKey);
  document.addEventListener("keydown", (event) => pageKey(event, help));
  addEventListener("hashchange", () => page.shown && followAddress(page));
  const first = JSON.parse(document.getElementById("document").textContent);
  if (first) show(first);
}

globalThis.ortLite = { show };
start();
