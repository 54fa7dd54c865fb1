// The graph as a list that folds: for who reads it rather than looks at it, and to find one's way.
import { around } from "./nesting.js";
import { element } from "./state.js";

const CLOSED = "▸";
const OPEN = "▾";

/** A tree in `root` beside a view of graph.js: {refresh(), select(id)}. It folds and selects by way of the view. */
export function createTree(root, view) {
  const list = element("div", { role: "tree", class: "tree", "aria-label": "Partitions and nodes" });
  root.append(list);
  const shown = { list, view, rows: new Map(), order: [] };
  list.addEventListener("keydown", (event) => treeKey(shown, event));
  list.addEventListener("click", (event) => treeClick(shown, event));
  return {
    refresh: () => fillTree(shown),
    select: (id) => markRow(shown, id),
  };
}

function fillTree(shown) {
  const focused = shown.list.contains(document.activeElement) ? document.activeElement.dataset.id : null;
  shown.rows.clear();
  shown.order = [];
  addRows(shown, "", 1);
  shown.list.replaceChildren(...shown.rows.values());
  markRow(shown, shown.view.selected);
  if (focused !== null) shown.rows.get(focused)?.focus();
}

function addRows(shown, parent, level) {
  const { tree, folded } = shown.view;
  const children = (tree.children.get(parent) ?? []).filter((id) => id[0] !== "c");
  children.forEach((id, index) => {
    shown.rows.set(id, rowOf(shown.view, id, { level, position: index + 1, count: children.length }));
    shown.order.push(id);
    if (tree.children.has(id) && !folded.has(id)) addRows(shown, id, level + 1);
  });
}

function rowOf({ tree, folded, faces }, id, { level, position, count }) {
  const face = faces.get(id);
  const holds = tree.children.has(id);
  const mark = holds ? (folded.has(id) ? CLOSED : OPEN) : "";
  return element(
    "div",
    {
      role: "treeitem",
      "data-id": id,
      title: [face.name, ...face.lines].join("\n"),
      tabindex: -1,
      style: `--level: ${level}`,
      "aria-level": level,
      "aria-posinset": position,
      "aria-setsize": count,
      "aria-expanded": holds ? String(!folded.has(id)) : null,
      "aria-selected": "false",
    },
    element("span", { class: "fold", "aria-hidden": "true" }, mark),
    element("span", { class: `swatch ${face.kind}`, style: face.fill ? `--fill: ${face.fill}` : null, "aria-hidden": "true" }),
    element("span", { class: "what" }, face.title),
    element("span", { class: "quiet" }, face.lines[0] ?? ""),
  );
}

/** Marks what is selected, or the folded box that it is in, and moves the keyboard's place there. */
function markRow(shown, id) {
  const seen = id === null ? null : [id, ...around(shown.view.tree, id)].find((one) => shown.rows.has(one));
  for (const [one, row] of shown.rows) if (row.tabIndex === 0 || row.ariaSelected === "true") setRow(row, false, one === id);
  const row = shown.rows.get(seen ?? shown.order[0]);
  if (!row) return;
  setRow(row, true, seen === id && id !== null);
  if (seen) row.scrollIntoView({ block: "nearest" });
}

function setRow(row, reached, selected) {
  row.tabIndex = reached ? 0 : -1;
  row.setAttribute("aria-selected", String(selected));
}

function treeClick({ view }, event) {
  const id = event.target.closest("[data-id]")?.dataset.id;
  if (id === undefined) return;
  if (event.target.classList.contains("fold")) view.fold(id);
  else view.select(id, { jump: true });
}

function treeKey(shown, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const id = document.activeElement.dataset.id;
  const next = MOVES[event.key]?.(shown, id, shown.order.indexOf(id));
  if (next === undefined) return;
  event.preventDefault();
  if (next === null || next === id) return;
  for (const row of [shown.rows.get(id), shown.rows.get(next)]) row.tabIndex = row.dataset.id === next ? 0 : -1;
  shown.rows.get(next).focus();
}

/** By key: what to go to, null for nothing. */
const MOVES = {
  ArrowDown: ({ order }, id, index) => order[index + 1] ?? null,
  ArrowUp: ({ order }, id, index) => order[index - 1] ?? null,
  Home: ({ order }) => order[0],
  End: ({ order }) => order.at(-1),
  ArrowRight({ view, order }, id, index) {
    if (!view.tree.children.has(id)) return null;
    if (!view.folded.has(id)) return order[index + 1];
    view.fold(id, false);
    return null;
  },
  ArrowLeft({ view }, id) {
    if (!view.tree.children.has(id) || view.folded.has(id)) return view.tree.parents.get(id);
    view.fold(id, true);
    return null;
  },
  Enter({ view }, id) {
    view.select(id, { jump: true });
    return null;
  },
  " ": (shown, id) => MOVES.Enter(shown, id),
};
