// The tab of stages: what each made of the model, two of them side by side, and what lies between them.
import { betweenStages, namesText } from "./changes.js";
import { createGraphView } from "./graph.js";
import { element, say } from "./state.js";
import { countText } from "./units.js";

const CHANGES_AT_FIRST = 100; // of a rule that are listed at once

/** Fills the panel of stages: {key(event), close()}. */
export function makeStages(root, model, state) {
  const { stages } = model.document;
  const tab = { model, state, before: 0, after: 1, at: -1, views: [], scenes: new Map() };
  const sides = ["before", "after"].map((side) => sideOf(tab, side));
  tab.panes = sides.map(({ pane }) => pane);
  tab.selects = sides.map(({ select }) => select);
  tab.list = stageList(tab);
  tab.changes = element("div", { class: "changes" });
  const left = element("aside", { class: "stages", "aria-label": "Stages and what changed" }, tab.list, tab.changes);
  root.append(element("div", { class: "stages-tab" }, left, ...sides.map(({ root: side }) => side)));
  const first = Math.max(1, stages.findIndex(({ changes }) => changes.length));
  compareStages(tab, first - 1, first);
  state.listen("node", (key) => selectIn(tab, key));
  return {
    key: (event) => stagesKey(tab, event.key),
    close: () => tab.views.forEach((view) => view.close()),
  };
}

function stageList(tab) {
  const options = tab.model.document.stages.map((stage, index) => {
    const { gone, came } = betweenStages(tab.model, Math.max(0, index - 1), index);
    const counts = [["gone", "−", gone.size], ["came", "+", came.size]].filter(([, , count]) => count);
    const signs = counts.map(([side, sign, count]) => element("span", { class: side }, `${sign}${count}`));
    const title = element("span", { class: "title" }, `${index + 1}. ${stage.title}`);
    const pick = () => index && compareStages(tab, index - 1, index);
    return element("div", { role: "option", tabindex: -1, title: stage.note, "aria-disabled": index === 0 ? "true" : null, onclick: pick }, title, ...signs);
  });
  const list = element("div", { role: "listbox", "aria-label": "Stages" }, ...options);
  list.addEventListener("keydown", (event) => {
    const way = { ArrowDown: 1, ArrowUp: -1, Home: -tab.after, End: options.length }[event.key];
    if (!way) return;
    event.preventDefault();
    moveStage(tab, way);
    options[tab.after].focus();
  });
  return list;
}

function sideOf(tab, side) {
  const { stages } = tab.model.document;
  const options = stages.map(({ title }, index) => element("option", { value: index }, `${index + 1}. ${title}`));
  const select = element("select", { onchange: () => compareStages(tab, ...tab.selects.map(({ value }) => Number(value))) }, ...options);
  const pane = element("div", { class: "pane" });
  const count = element("span", { class: `count ${side === "before" ? "gone" : "came"}` });
  const title = side === "before" ? "Before" : "After";
  tab[`${side}Count`] = count;
  return { select, pane, root: element("section", { class: "side-by-side", "aria-label": title }, element("label", { class: "bar" }, title, select, count), pane) };
}

/** Shows two stages, the earlier one at the left. */
function compareStages(tab, one, other) {
  const [before, after] = d3.sort([one, other], Number);
  const shown = before === after ? [Math.max(0, before - 1), Math.max(1, after)] : [before, after];
  [tab.before, tab.after] = shown;
  tab.between = betweenStages(tab.model, ...shown);
  tab.at = -1;
  shown.forEach((stage, index) => {
    tab.selects[index].value = stage;
    showStage(tab, index, stage);
  });
  tab.beforeCount.textContent = `${tab.between.gone.size.toLocaleString("en")} go`;
  tab.afterCount.textContent = `${tab.between.came.size.toLocaleString("en")} come`;
  listChanges(tab);
  [...tab.list.children].forEach((option, index) => {
    option.setAttribute("aria-selected", index === tab.after);
    option.tabIndex = index === tab.after ? 0 : -1;
  });
  selectIn(tab, tab.state.get("node"));
}

function showStage(tab, index, stage) {
  const [keys, mark] = index ? [tab.between.came, "came"] : [tab.between.gone, "gone"];
  const marks = new Map([...keys].map((key) => [key, mark]));
  if (tab.views[index]) tab.views[index].show(stage, marks);
  else {
    const label = index ? "Graph after" : "Graph before";
    const choose = (id) => id?.startsWith("n:") && tab.state.set("node", id.slice(2));
    tab.views[index] = createGraphView(tab.panes[index], tab.model, { stage, marks, label, choose, scenes: tab.scenes });
  }
}

/** Selects a node in both graphs; one that only reads something else has another key in the other. */
function selectIn(tab, key) {
  if (key === null) return;
  const { moved } = tab.between;
  const back = [...moved].find(([, is]) => is === key)?.[0];
  for (const [index, other] of [[0, back], [1, moved.get(key)]]) {
    const view = tab.views[index];
    const id = [key, other].map((one) => `n:${one}`).find((found) => view.tree.parents.has(found));
    if (id && view.selected !== id) view.select(id, { jump: true });
  }
}

function listChanges(tab) {
  const { note } = tab.model.document.stages[tab.after];
  const { rules, moved } = tab.between;
  const sorted = d3.sort(rules, ([, changes]) => -changes.length);
  tab.shown = [];
  const groups = sorted.map(([rule, changes], index) => ruleGroup(tab, rule, changes, index < 3));
  const rewired = moved.size ? element("p", { class: "quiet" }, `${countText(moved.size, "node")} read${moved.size === 1 ? "s" : ""} something else and stay${moved.size === 1 ? "s" : ""}.`) : "";
  tab.changes.replaceChildren(element("p", {}, note), ...groups, groups.length ? "" : element("p", { class: "quiet" }, "No rule changed anything here."), rewired);
}

function ruleGroup(tab, rule, changes, open) {
  const list = element("ol");
  const fill = (from, to) => {
    list.append(...changes.slice(from, to).map((change) => element("li", {}, changeButton(tab, change))));
    if (to < changes.length) list.append(element("li", {}, moreButton(changes.length - to, () => fill(to, changes.length))));
  };
  fill(0, CHANGES_AT_FIRST);
  tab.shown.push(...changes);
  const count = element("span", { class: "quiet" }, ` ×${changes.length}`);
  return element("details", { open }, element("summary", {}, rule, count), list);
}

function moreButton(left, call) {
  const made = element("button", {}, `${left} more`);
  made.addEventListener("click", () => {
    made.parentElement.remove();
    call();
  });
  return made;
}

function changeButton(tab, change) {
  const { removed, added } = change;
  const signs = element("span", { class: "signs" }, element("span", { class: "gone" }, `−${removed.length}`), " ", element("span", { class: "came" }, `+${added.length}`));
  const whole = `${removed.join(", ") || "nothing"} → ${added.join(", ") || "nothing"}`;
  return element("button", { class: "change", title: whole.slice(0, 2000), onclick: () => goToChange(tab, change) }, signs, ` ${namesText(removed)} → ${namesText(added)}`);
}

/** Brings what went and what came into sight, each in its graph, and what was beside it in the other. */
function goToChange(tab, change) {
  tab.at = tab.shown.indexOf(change);
  for (const [index, keys, others] of [[0, change.removed, change.added], [1, change.added, change.removed]]) {
    const view = tab.views[index];
    const there = keys.find((key) => view.tree.parents.has(`n:${key}`)) ?? besideOf(tab, index, others);
    view.highlight(keys.map((key) => `n:${key}`));
    if (there !== undefined) view.select(`n:${there}`, { jump: true });
  }
  say(`${change.rule}: ${namesText(change.removed)} became ${namesText(change.added)}`);
}

/** A node that reads or makes a value of nodes that are only in the other graph. */
function besideOf(tab, index, others) {
  const { document } = tab.model;
  const { makers, readers } = tab.views[index].tree.wiring;
  for (const { inputs, outputs } of others.map((key) => document.nodes[key])) {
    const found = [...outputs.flatMap((value) => readers.get(value) ?? []), ...outputs.concat(inputs).map((value) => makers.get(value))];
    const there = found.find((key) => key !== undefined);
    if (there !== undefined) return there;
  }
  return undefined;
}

function moveStage(tab, way) {
  const last = tab.model.document.stages.length - 1;
  const after = Math.min(last, Math.max(1, tab.after + way));
  if (after === tab.after && tab.before === after - 1) return;
  compareStages(tab, after - 1, after);
  say(`${tab.model.document.stages[after].title}: ${tab.between.gone.size} nodes go, ${tab.between.came.size} come`);
}

/** "[" and "]" go from stage to stage, "n" and "N" from change to change. */
function stagesKey(tab, key) {
  const step = { n: 1, N: -1 }[key];
  if (key === "[") moveStage(tab, -1);
  else if (key === "]") moveStage(tab, 1);
  else if (step && tab.shown.length) goToChange(tab, tab.shown.at((Math.max(tab.at, step < 0 ? 0 : -1) + step) % tab.shown.length));
  else return false;
  return true;
}
