// The tab that compares: what became of the model here, and in another session.
import { drawBars } from "./bars.js";
import { providerBadge } from "./blocks.js";
import { nodeDifferences, providerTotals, wholeTotals } from "./differences.js";
import { element } from "./state.js";
import { createTable } from "./table.js";
import { bytesText, countText, timeText } from "./units.js";

const BARS_SHOWN = 24;
const TEXTS = { time: timeText, bytes: bytesText, count: (count) => count.toLocaleString("en") };
const FILTERS = [
  ["Moved", ({ kind }) => kind === "moved"],
  ["Only here", ({ kind }) => kind === "only here"],
  ["Only there", ({ kind }) => kind === "only there"],
  ["With times", ({ slower }) => slower !== null],
  ["All nodes", () => true],
];

/** Fills the panel that compares a document with its `other`, "here" with "there". */
export function makeCompare(root, model, state) {
  const documents = [model.document, model.document.other];
  const rows = nodeDifferences(...documents);
  const tab = { model, state, documents, rows, holder: element("div", { class: "rows" }) };
  const side = element("aside", { "aria-label": "Totals", tabindex: 0 }, ...totalsOf(tab), ...slowerBars(rows));
  root.append(element("div", { class: "plot compare" }, filterBar(tab), tab.holder, side));
  state.listen("node", () => markDifferent(tab));
}

function filterBar(tab) {
  const filters = FILTERS.map(([title, test]) => ({ title, rows: tab.rows.filter(test) })).filter(({ rows }) => rows.length);
  const buttons = filters.map(({ title, rows }) => {
    const button = element("button", { "aria-pressed": "false" }, `${title} (${rows.length.toLocaleString("en")})`);
    button.addEventListener("click", () => {
      for (const each of buttons) each.setAttribute("aria-pressed", each === button);
      showDifferent(tab, title, rows);
    });
    return button;
  });
  buttons[0]?.click();
  return element("div", { class: "bar" }, element("div", { role: "group", "aria-label": "Which nodes" }, ...buttons));
}

function showDifferent(tab, title, rows) {
  const timed = rows.some(({ slower }) => slower !== null);
  const time = (label, index) => ({ title: label, numeric: true, value: ({ times }) => times[index] ?? -1, text: ({ times }) => knownTime(times[index]) });
  const times = [
    { title: "Slower there", numeric: true, note: "Sorted by how much", value: ({ slower }) => Math.abs(slower ?? 0), text: ({ slower }) => signedTime(slower) },
    time("Time here", 0),
    time("Time there", 1),
  ];
  tab.table = createTable({
    label: title,
    columns: [
      { title: "Node", value: ({ key }) => key },
      ...(timed ? times : []),
      { title: "Here", value: ({ here }) => here ?? "" },
      { title: "There", value: ({ there }) => there ?? "" },
      { title: "Operator", value: ({ operator }) => operator },
      ...(rows.some(({ why }) => why) ? [{ title: "Why", value: ({ why }) => why }] : []),
    ],
    rows,
    sortedBy: timed ? 1 : 0,
    descending: timed,
    choose: ({ kind, key }) => tab.state.set("node", kind === "only there" ? null : key),
  });
  tab.holder.replaceChildren(tab.table.root);
  markDifferent(tab);
}

function markDifferent({ table, state }) {
  table?.mark(({ key, kind }) => kind !== "only there" && key === state.get("node"));
}

function knownTime(microseconds) {
  return microseconds === null ? "" : timeText(microseconds);
}

function signedTime(microseconds) {
  return microseconds === null ? "" : `${microseconds > 0 ? "+" : ""}${timeText(microseconds)}`;
}

function totalsOf({ model, documents }) {
  const line = (head, unit, here, there) =>
    element("tr", {}, element("th", { scope: "row" }, head), ...[here, there].map((number) => element("td", {}, number === null ? "–" : TEXTS[unit](number))), element("td", {}, changeText(here, there)));
  const whole = wholeTotals(documents).map(([title, unit, here, there]) => line(title, unit, here, there));
  const byProvider = providerTotals(documents).flatMap(({ provider, nodes, times }) => [
    element("tr", {}, element("th", { scope: "rowgroup", colspan: 4, class: "of" }, providerBadge(model, provider))),
    line("nodes", "count", ...nodes),
    ...(times.every((time) => time === null) ? [] : [line("time", "time", ...times)]),
  ]);
  const heads = ["Total", "Here", "There", "Change"].map((title) => element("th", { scope: "col" }, title));
  const lists = documents.map(({ providers }) => providers.map(({ name }) => name).join(", ") || "none");
  return [
    element("dl", {}, element("dt", {}, "Here"), element("dd", {}, lists[0]), element("dt", {}, "There"), element("dd", {}, lists[1])),
    element("table", { class: "totals" }, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...whole, ...byProvider)),
  ];
}

/** "+12 %", of what is here; "" where that says nothing. */
function changeText(here, there) {
  if (!here || there === null || here === there) return "";
  const part = (100 * (there - here)) / here;
  return Math.abs(part) > 999 ? `×${(there / here).toPrecision(2)}` : `${part > 0 ? "+" : ""}${part.toFixed(Math.abs(part) < 9.95 ? 1 : 0)} %`;
}

function slowerBars(rows) {
  const known = rows.filter(({ slower }) => slower);
  if (!known.length) return [];
  const shown = d3.sort(known, ({ slower }) => -Math.abs(slower)).slice(0, BARS_SHOWN).sort((a, b) => b.slower - a.slower);
  const most = d3.max(shown, ({ slower }) => Math.abs(slower));
  const text = (side) => ({ x: "slower", y: "key", text: ({ slower }) => signedTime(slower), textAnchor: side > 0 ? "start" : "end", dx: 4 * side, filter: ({ slower }) => Math.sign(slower) === side });
  const plot = drawBars({
    label: "How much slower nodes are there",
    names: shown.map(({ key }) => key),
    keep: "end",
    rowHeight: 20,
    x: { domain: [-1.7 * most, 1.7 * most] },
    marks: [
      Plot.barX(shown, { x: "slower", y: "key", fill: ({ slower }) => (slower > 0 ? "var(--gone)" : "var(--came)"), title: ({ key, slower }) => `${key}: ${signedTime(slower)}` }),
      Plot.ruleX([0], { stroke: "currentColor" }),
      Plot.text(shown, text(1)),
      Plot.text(shown, text(-1)),
    ],
  });
  const note = known.length > shown.length ? `, the ${shown.length} largest of ${countText(known.length, "difference")}` : "";
  return [element("h2", {}, `Slower (+) and faster (−) there${note}`), plot];
}
