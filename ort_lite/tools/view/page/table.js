// A table that sorts by a click on a head, and whose rows are walked through by keyboard.
import { element } from "./state.js";

const ROWS_AT_FIRST = 300; // rows at a time: all of a large model would take a second

/**
 * `columns`: {title, value(row), text?(row), numeric?, note?}; `value` is sorted by, `text` is shown.
 * `choose(row)` hears of clicks and Enter. Answers {root, mark(test)}, which marks the rows that pass a test.
 */
export function createTable({ label, columns, rows, choose = null, sortedBy = null, descending = true }) {
  const table = { columns, rows: [...rows], choose, by: sortedBy, descending, shown: ROWS_AT_FIRST, test: () => false };
  table.body = element("tbody");
  table.heads = columns.map((column, index) => headOf(table, column, index));
  table.more = element("button", { class: "more", onclick: () => showMore(table) });
  table.body.addEventListener("keydown", (event) => walkRows(table, event));
  const drawn = element("table", {}, element("caption", {}, label), element("thead", {}, element("tr", {}, ...table.heads)), table.body);
  sortRows(table);
  return {
    root: element("div", { class: "rows" }, drawn, table.more),
    mark(test) {
      table.test = test;
      markRows(table);
    },
  };
}

function headOf(table, column, index) {
  const press = () => {
    table.descending = table.by === index ? !table.descending : Boolean(column.numeric);
    table.by = index;
    sortRows(table);
  };
  const button = element("button", { onclick: press, title: column.note }, column.title);
  return element("th", { scope: "col", class: column.numeric ? "number" : null }, button);
}

function sortRows(table) {
  const column = table.columns[table.by];
  if (column) table.rows.sort((a, b) => (table.descending ? -1 : 1) * d3.ascending(column.value(a), column.value(b)));
  table.heads.forEach((head, index) => {
    const order = table.descending ? "descending" : "ascending";
    head.setAttribute("aria-sort", index === table.by ? order : "none");
  });
  fillRows(table);
}

function fillRows(table) {
  table.body.replaceChildren(...table.rows.slice(0, table.shown).map((row) => tableRow(table, row)));
  if (table.body.firstChild && table.choose) table.body.firstChild.tabIndex = 0;
  const left = table.rows.length - table.shown;
  table.more.hidden = left <= 0;
  table.more.textContent = `${left.toLocaleString("en")} more`;
  markRows(table);
}

function showMore(table) {
  table.shown = table.rows.length;
  fillRows(table);
}

function tableRow(table, row) {
  const cells = table.columns.map((column) => {
    const text = column.text ? column.text(row) : String(column.value(row) ?? "");
    return element("td", { class: column.numeric ? "number" : null, title: text.length > 24 ? text : null }, text);
  });
  const made = element("tr", { tabindex: table.choose ? -1 : null }, ...cells);
  if (table.choose) made.addEventListener("click", () => table.choose(row));
  return made;
}

function markRows(table) {
  [...table.body.children].forEach((made, index) => {
    made.classList.toggle("chosen", table.test(table.rows[index]));
  });
}

function walkRows(table, event) {
  const rows = [...table.body.children];
  const at = rows.indexOf(document.activeElement);
  const last = rows.length - 1;
  const goal = { ArrowDown: Math.min(at + 1, last), ArrowUp: Math.max(at - 1, 0), Home: 0, End: last }[event.key];
  if (at < 0) return;
  if (event.key === "Enter" || event.key === " ") table.choose?.(table.rows[at]);
  else if (goal === undefined) return;
  else {
    rows[at].tabIndex = -1;
    rows[goal].tabIndex = 0;
    rows[goal].focus();
  }
  event.preventDefault();
}
