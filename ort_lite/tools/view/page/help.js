// The keys of the page.
import { element } from "./state.js";

const KEYS = [
  ["/", "search"],
  ["n, N", "next match, match before"],
  ["?", "these keys"],
  ["In the drawing", ""],
  ["↓ ↑", "to a reader, to the maker"],
  ["← →", "to a neighbour in the same layer"],
  ["Enter, Space", "fold or unfold a box; the first item where none is selected"],
  ["Escape", "select nothing"],
  ["+ −", "larger, smaller (also the wheel, and two fingers)"],
  ["0, f", "all of it in sight"],
  ["Shift and arrows", "move the drawing (also by dragging it)"],
  ["In the list", ""],
  ["↓ ↑, Home, End", "to another line"],
  ["→ ←", "unfold, fold"],
  ["Enter", "select, and bring into sight"],
  ["In a chart of memory or time", ""],
  ["← →", "to the tensor or event before, after"],
  ["↑ ↓", "to that above, below"],
  ["Enter", "select its node"],
  ["+ − 0", "larger, smaller, all of it (also the wheel; Shift and dragging over a part)"],
  ["Shift and ← →", "move it (also by dragging)"],
  ["Among stages", ""],
  ["[ ]", "the stage before, after"],
  ["n, N", "next change, change before"],
  ["Tabs", ""],
  ["← →, Home, End", "to another tab"],
];

/** Appends the button for it, and answers the dialog. */
export function addHelp(tools) {
  const rows = KEYS.map(([key, does]) =>
    does
      ? element("tr", {}, element("td", {}, element("kbd", {}, key)), element("td", {}, does))
      : element("tr", {}, element("th", { colspan: 2, scope: "rowgroup" }, key)),
  );
  const close = element("button", { onclick: () => dialog.close() }, "Close");
  const dialog = element("dialog", { "aria-label": "Keys" }, element("h2", {}, "Keys"), element("table", {}, ...rows), close);
  tools.append(element("button", { onclick: () => dialog.showModal(), title: "Keys (?)", "aria-label": "Keys" }, "?"));
  document.body.append(dialog);
  return dialog;
}
