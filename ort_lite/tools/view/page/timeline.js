// The tab of the timeline: a run as it was profiled, and below it what took longest.
import { drawBars } from "./bars.js";
import { Chart, zoomButtons } from "./chart.js";
import { providerBadge } from "./blocks.js";
import { providerColour } from "./colours.js";
import { append } from "./document.js";
import { operatorTitle } from "./faces.js";
import { runWith } from "./rectangles.js";
import { element } from "./state.js";
import { createTable } from "./table.js";
import { ends, nestEvents, timelineOwner } from "./tracks.js";
import { bytesText, countText, shareText, timeText } from "./units.js";

const HOLDS = new Set(["Step", "Node"]); // Node: of a profile that onnxruntime wrote
const WORK = new Set(["Kernel", ...HOLDS]); // categories whose time is somebody's; a device's Copy is in the Step that waits for it
const OPERATORS_SHOWN = 12;

/** Fills the panel of the timeline: {close()}. */
export function makeTimeline(root, model, state) {
  const nested = nestEvents(model.document.timeline);
  const chart = new Chart(timelineOwner(nested, model, state));
  const rows = timesOf(nested, model);
  const table = timeTable(rows, chart, state);
  const side = element("aside", { "aria-label": "Time by operator", tabindex: 0 });
  root.append(element("div", { class: "plot run" }, runBar(model, chart), chart.root, table.root, side));
  side.replaceChildren(element("h2", {}, "Time by operator"), operatorBars(rows, model));
  const mark = (key) => {
    const nodes = runWith(model, key);
    table.mark(({ node }) => nodes.has(node));
    chart.redraw();
  };
  state.listen("node", (key) => {
    mark(key);
    const row = rows.find(({ node }) => node !== undefined && runWith(model, key).has(node));
    if (row && state.get("tab") !== "timeline") chart.show(row.events[0].start, ends(row.events[0]));
  });
  mark(state.get("node"));
  return { close: () => chart.close() };
}

function runBar(model, chart) {
  const { document } = model;
  const { events } = document.timeline;
  const whole = timeText(d3.max(events, ends) - d3.min(events, ({ start }) => start));
  const shown = new Set(events.map(({ provider }) => provider));
  const badges = document.providers.filter(({ name }) => shown.has(name)).map(({ name }) => providerBadge(model, name));
  return element("div", { class: "bar" }, element("strong", {}, whole), countText(events.length, "event"), ...badges, zoomButtons(chart));
}

/** Events that are somebody's work, outermost of a kind, put together by what is run: slowest first. */
function timesOf({ parents }, { document }) {
  const holders = new Set([...parents].filter(([event]) => WORK.has(event.category)).map(([, parent]) => parent));
  const known = partitionsWithKernels(document);
  for (const event of parents.keys()) if (event.category === "Step" && known.has(event.name)) holders.add(event);
  const found = new Map();
  for (const event of parents.keys()) if (isWork(event, parents, holders)) append(found, `${event.provider}\n${event.name}`, event);
  const copies = new Set(document.timeline.events.filter(({ category }) => category === "Copy").map(({ name }) => name));
  const rows = [...found.values()].map((events) => timeRow(events, document, copies));
  const whole = d3.sum(rows, ({ time }) => time) || 1;
  for (const row of rows) row.share = row.time / whole;
  return d3.sort(rows, ({ time }) => -time);
}

/** The names of partitions some of whose nodes have kernels, which may run on a track of their device while the partition's step waits. */
function partitionsWithKernels({ partitions, timeline }) {
  const timed = new Set(timeline.events.filter(({ category, node }) => category === "Kernel" && node).map(({ node }) => node));
  const has = ({ nodes, fused }) => nodes.some((key) => timed.has(key)) || fused.some(({ name }) => timed.has(name));
  return new Set(partitions.filter(has).map(({ name }) => name));
}

/** A partition's time is that of the kernels in it, where those are known. */
function isWork(event, parents, holders) {
  if (!WORK.has(event.category) || (HOLDS.has(event.category) && holders.has(event))) return false;
  const parent = parents.get(event);
  return !parent || HOLDS.has(parent.category) || !isWork(parent, parents, holders);
}

function timeRow(events, document, copies) {
  const [{ name, node, provider, category, details }] = events;
  const whole = document.partitions.some((partition) => partition.name === name);
  const known = details?.op_name ?? document.nodes[node]?.operator ?? category;
  const operator = whole ? "whole partitions" : copies.has(name) ? "copies" : operatorTitle(known);
  return { name, node, provider, operator, events, time: d3.sum(events, ({ duration }) => duration), bytes: d3.sum(events, ({ bytes }) => bytes ?? 0) };
}

function timeTable(rows, chart, state) {
  const number = (title, value, text, note) => ({ title, value, text, note, numeric: true });
  return createTable({
    label: "Slowest first",
    columns: [
      { title: "Node", value: ({ name }) => name },
      number("Time", ({ time }) => time, ({ time }) => timeText(time)),
      number("Share", ({ share }) => share, ({ share }) => shareText(share), "of the time of all that is listed"),
      { title: "Operator", value: ({ operator }) => operator },
      { title: "Provider", value: ({ provider }) => provider },
      number("Runs", ({ events }) => events.length),
      number("Bytes", ({ bytes }) => bytes, ({ bytes }) => (bytes ? bytesText(bytes) : "")),
      number("GB/s", speed, (row) => (speed(row) ? speed(row).toPrecision(3) : "")),
    ],
    rows,
    sortedBy: 1,
    choose({ node, events }) {
      state.set("node", node ?? null);
      chart.show(events[0].start, ends(events[0]));
      chart.point(events[0]);
    },
  });
}

function speed({ bytes, time }) {
  return time > 0 ? bytes / time / 1000 : 0;
}

function operatorBars(rows, model) {
  const parts = operatorTimes(rows);
  const order = d3.groupSort(parts, (some) => -d3.sum(some, ({ time }) => time), ({ operator }) => operator);
  const totals = d3.rollups(parts, (some) => d3.sum(some, ({ time }) => time), ({ operator }) => operator).map(([operator, time]) => ({ operator, time }));
  const title = ({ operator, provider, time }) => `${operator}, ${provider}: ${timeText(time)}`;
  return drawBars({
    label: "Time by operator",
    names: order,
    keep: "start",
    rowHeight: 24,
    marginRight: 62,
    marks: [
      Plot.barX(parts, { x: "time", y: "operator", fill: ({ provider }) => providerColour(model, provider), title }),
      Plot.text(totals, { x: "time", y: "operator", text: ({ time }) => timeText(time), textAnchor: "start", dx: 5 }),
    ],
  });
}

/** [{operator, provider, time}], small ones put together. */
function operatorTimes(rows) {
  const sums = d3.rollups(rows, (some) => d3.sum(some, ({ time }) => time), ({ operator }) => operator).sort((a, b) => b[1] - a[1]);
  const shown = new Set(sums.slice(0, OPERATORS_SHOWN).map(([operator]) => operator));
  const name = ({ operator }) => (shown.has(operator) ? operator : "others");
  const times = d3.flatRollup(rows, (some) => d3.sum(some, ({ time }) => time), name, ({ provider }) => provider);
  return times.map(([operator, provider, time]) => ({ operator, provider, time }));
}
