// The list of providers: which take part, and in what order they are asked. By mouse: drag a row; by keyboard: Alt and an arrow key.
import { element, say } from "../../../view/page/state.js";

function neighbour(row, step) {
  return step < 0 ? row.previousElementSibling : row.nextElementSibling;
}

function move(row, step) {
  const other = neighbour(row, step);
  if (!other) return false;
  if (step < 0) other.before(row);
  else other.after(row);
  const place = [...row.parentElement.children].indexOf(row) + 1;
  say(`${row.dataset.name} is number ${place} of ${row.parentElement.children.length}.`);
  return true;
}

function mover(row, step, changed) {
  const label = `${row.dataset.name} ${step < 0 ? "earlier" : "later"}`;
  const press = (event) => {
    if (!move(row, step)) return;
    event.currentTarget.focus();
    changed();
  };
  return element("button", { type: "button", class: "mover", "aria-label": label, title: label, onclick: press }, step < 0 ? "↑" : "↓");
}

function listenToKeys(row, changed) {
  row.addEventListener("keydown", (event) => {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!event.altKey || !step) return;
    event.preventDefault();
    const focused = document.activeElement;
    if (!move(row, step)) return;
    focused.focus();
    changed();
  });
}

/** While it is dragged a row stands where it would be dropped. */
function listenToDrags(list, changed) {
  let dragged = null;
  let order = "";
  const names = () => [...list.children].map((row) => row.dataset.name).join();
  list.addEventListener("dragstart", (event) => {
    dragged = event.target.closest("li");
    order = names();
    event.dataTransfer.effectAllowed = "move";
    dragged.classList.add("dragged");
  });
  list.addEventListener("dragover", (event) => {
    if (!dragged) return;
    event.preventDefault();
    const row = event.target.closest("li");
    if (!row || row === dragged) return;
    const { top, height } = row.getBoundingClientRect();
    if (event.clientY < top + height / 2) row.before(dragged);
    else row.after(dragged);
  });
  list.addEventListener("drop", (event) => event.preventDefault());
  list.addEventListener("dragend", () => {
    dragged?.classList.remove("dragged");
    dragged = null;
    if (names() !== order) changed();
  });
}

function makeRow({ name, device, about }, chosen, changed) {
  const box = element("input", { type: "checkbox", checked: chosen, onchange: changed });
  const row = element("li", { draggable: "true", "data-name": name, title: about });
  const text = element("span", {}, name.replace(/ExecutionProvider$/, ""), element("small", {}, device || "cannot be loaded"));
  row.append(element("label", {}, box, text), mover(row, -1, changed), mover(row, 1, changed));
  listenToKeys(row, changed);
  return row;
}

/** {root, names()}: those that are chosen come first. */
export function makeProviders(installed, chosen, changed) {
  const place = ({ name }) => (chosen.includes(name) ? chosen.indexOf(name) : installed.length);
  const sorted = [...installed].sort((one, other) => place(one) - place(other));
  const list = element("ol", {}, ...sorted.map((each) => makeRow(each, chosen.includes(each.name), changed)));
  listenToDrags(list, changed);
  const hint = "The first that takes a node runs it; the CPU provider takes what is left. Drag, or press Alt and an arrow key.";
  return {
    root: element("fieldset", { class: "playground-providers" }, element("legend", {}, "Providers"), list, element("p", { class: "quiet" }, hint)),
    names: () => [...list.children].filter((row) => row.querySelector("input").checked).map((row) => row.dataset.name),
  };
}
