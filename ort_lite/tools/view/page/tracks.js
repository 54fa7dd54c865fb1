// What a chart draws of a timeline: a row for each track and depth, bars of events, arrows of what flows.
import { clipped, drawFoot } from "./chart.js";
import { inkOn, mixed, providerColour } from "./colours.js";
import { fitted } from "./faces.js";
import { runWith } from "./rectangles.js";
import { bytesText, timeText } from "./units.js";

const ROW = 22; // pixels of a depth of a track
const GAP = 12; // between two tracks
const HEAD = 8;
const BOW = 16; // how far an arrow hangs below its row
const FEW_FLOWS = 40; // that are all drawn full
const LEAST_CUT = 60; // pixels from which a part of a name is worth reading
const BAR_FONT = "11px system-ui, sans-serif";

/** Events with their depths in their tracks, those of each row in order: {rows: [{track, depth, events}], rowOf: event -> row}. O(n log n). */
export function nestEvents({ tracks, events }) {
  const rows = [];
  const places = new Map();
  const parents = new Map();
  for (const track of tracks) {
    const own = d3.sort(events.filter((event) => event.track === track.id), (event) => event.start, (event) => -event.duration);
    const open = [];
    const depths = [[]];
    for (const event of own) {
      while (open.length && ends(open.at(-1)) <= event.start) open.pop();
      parents.set(event, open.at(-1) ?? null);
      (depths[open.length] ??= []).push(event);
      open.push(event);
    }
    depths.forEach((found, depth) => {
      for (const event of found) places.set(event, rows.length);
      rows.push({ track, depth, events: found });
    });
  }
  return { rows, places, parents };
}

/** When an event is over, in microseconds. */
export function ends({ start, duration }) {
  return start + duration;
}

/** An owner of a chart (see chart.js) for the timeline of `model`. `nested` is of nestEvents. */
export function timelineOwner(nested, model, state) {
  const { timeline } = model.document;
  const length = Math.max(d3.max(timeline.events, ends) ?? 0, 1);
  const tops = topsOf(nested.rows);
  const height = tops.length ? tops.at(-1) + ROW + HEAD : ROW;
  return {
    label: "Events by thread and device, time across",
    length,
    closest: Math.max(length / 1e5, 0.5),
    left: 24 + Math.min(190, Math.max(60, ...timeline.tracks.map(({ name }) => 7 * name.length))),
    height: () => height,
    draw: (pen, chart) => drawTimeline(pen, chart, { nested, model, state, tops }),
    find(chart, x, y) {
      const row = tops.findIndex((top) => y >= top && y < top + ROW);
      return row < 0 || x < chart.left ? null : eventAt(nested.rows[row].events, chart, x);
    },
    box: (event, chart) => barBox(event, chart, tops[nested.places.get(event)]),
    walk: (event, direction) => walkEvents(nested, event, direction),
    describe: aboutEvent,
    choose: (event) => state.set("node", event?.node ?? null),
  };
}

function topsOf(rows) {
  let next = HEAD;
  return rows.map(({ depth }, index) => {
    const top = next + (depth === 0 && index ? GAP : 0);
    next = top + ROW;
    return top;
  });
}

/** The event of a row that is at x, or a very short one near to it. */
function eventAt(events, chart, x) {
  const time = chart.x.invert(x);
  const near = chart.x.invert(x + 3) - time;
  const after = d3.bisector((event) => event.start).right(events, time + near);
  const event = events[after - 1];
  return event && ends(event) >= time - near ? event : null;
}

function barBox(event, chart, top) {
  const x = chart.x(event.start);
  return { x, y: top, width: Math.max(1, chart.x(ends(event)) - x), height: ROW - 2 };
}

/** Left and right in a row, and on into the next; up to what it is in, or the track above, down into it, or the track below. */
function walkEvents({ rows, places, parents }, event, direction) {
  const first = rows.find(({ events }) => events.length)?.events[0] ?? null;
  if (event === null || direction === "first") return first;
  const at = places.get(event);
  const { events } = rows[at];
  if (direction === "last") return events.at(-1);
  if (direction === "right") return events[events.indexOf(event) + 1] ?? null;
  if (direction === "left") return events[events.indexOf(event) - 1] ?? null;
  if (direction === "up" && parents.get(event)) return parents.get(event);
  const beside = rows[at + (direction === "up" ? -1 : 1)]?.events ?? [];
  const inside = beside.find((found) => parents.get(found) === event);
  return inside ?? d3.least(beside, (found) => Math.abs(found.start - event.start)) ?? null;
}

function aboutEvent({ name, category, provider, start, duration, bytes, node, details = {} }) {
  return [
    name,
    [details.op_name === name ? "" : details.op_name, category, provider].filter(Boolean).join(", "),
    `${timeText(duration)}, from ${timeText(start)}`,
    ...(bytes === undefined ? [] : [`${bytesText(bytes)}${duration > 0 ? `, ${(bytes / duration / 1000).toPrecision(3)} GB/s` : ""}`]),
    ...(details.kernel ? [details.kernel] : []),
    ...(node && node !== name ? [`node ${node}`] : []),
  ];
}

function drawTimeline(pen, chart, all) {
  const { rows } = all.nested;
  drawNames(pen, chart, all);
  const ticks = chart.x.ticks(Math.max(2, (chart.right - chart.left) / 90));
  clipped(pen, chart, () => {
    drawLines(pen, chart, ticks);
    const nodes = runWith(all.model, all.state.get("node"));
    pen.font = BAR_FONT;
    pen.textAlign = "left";
    rows.forEach(({ events }, index) => drawRow(pen, chart, events, all.tops[index], all, nodes));
    drawFlows(pen, chart, all);
    if (chart.pointed) frameBar(pen, chart, barBox(chart.pointed, chart, all.tops[all.nested.places.get(chart.pointed)]));
  });
  drawFoot(pen, chart, ticks, timeText);
}

function drawNames(pen, chart, { nested, tops }) {
  pen.textAlign = "right";
  pen.strokeStyle = chart.theme.line;
  nested.rows.forEach(({ track, depth }, index) => {
    if (depth !== 0) return;
    pen.fillStyle = chart.theme.text;
    pen.fillText(fitted(track.name, "12px system-ui, sans-serif", chart.left - 16), chart.left - 8, tops[index] + ROW / 2);
    if (index) pen.strokeRect(0, Math.round(tops[index] - GAP / 2) + 0.5, chart.right, 0);
  });
}

function drawLines(pen, chart, ticks) {
  pen.strokeStyle = chart.theme.line;
  pen.globalAlpha = 0.5;
  for (const tick of ticks) pen.strokeRect(Math.round(chart.x(tick)) + 0.5, 0, 0, chart.bottom);
  pen.globalAlpha = 1;
}

/** Bars of a row that are in sight; of those that fall on one pixel the first. */
function drawRow(pen, chart, events, top, { model }, nodes) {
  const [from, to] = chart.x.domain();
  let drawn = -Infinity;
  for (let index = firstInSight(events, from); index < events.length && events[index].start <= to; index += 1) {
    const event = events[index];
    const box = barBox(event, chart, top);
    const chosen = nodes.has(event.node);
    if (box.x + box.width <= drawn + 0.5 && !chosen) continue;
    drawBar(pen, chart, event, box, barColour(event, model, chart), nodes.size > 0 && !chosen);
    if (chosen) frameBar(pen, chart, box);
    drawn = box.x + box.width;
  }
}

/** Events of a row do not overlap, so their ends are in order. */
function firstInSight(events, from) {
  return d3.bisector(ends).left(events, from);
}

/** That of its provider: full for what computes, lighter for what holds others; grey for the session itself. */
function barColour({ category, provider }, model, chart) {
  if (!provider) return mixed(chart.theme.line, chart.theme.raised, 0.3);
  return category === "Step" || category === "Node" ? mixed(providerColour(model, provider), chart.theme.ground, 0.45) : providerColour(model, provider);
}

function drawBar(pen, chart, event, box, colour, faint) {
  pen.globalAlpha = faint ? 0.45 : 1;
  pen.fillStyle = colour;
  pen.fillRect(box.x, box.y, box.width - (box.width > 3 ? 1 : 0), box.height);
  if (event.category === "Copy") hatchBar(pen, chart, box);
  const from = Math.max(box.x, chart.left);
  const room = Math.min(box.x + box.width, chart.right) - from - 8;
  const text = barText(event, room);
  if (text) {
    pen.fillStyle = inkOn(colour);
    pen.fillText(text, from + 4, box.y + box.height / 2 + 0.5);
  }
  pen.globalAlpha = 1;
}

/** As much as fits; "" where that is too little to tell anything. */
function barText({ name, details, duration }, room) {
  if (room < 14) return "";
  const operator = details?.op_name && details.op_name !== name ? `${details.op_name}  ` : "";
  for (const text of [`${name}  ${operator}${timeText(duration)}`, name]) if (fitted(text, BAR_FONT, room) === text) return text;
  return room < LEAST_CUT ? "" : fitted(name, BAR_FONT, room);
}

/** A copy is told from a kernel without its colour as well. */
function hatchBar(pen, chart, { x, y, width, height }) {
  pen.save();
  pen.beginPath();
  pen.rect(x, y, width, height);
  pen.clip();
  pen.beginPath();
  for (let at = Math.max(x, chart.left) - height; at < Math.min(x + width, chart.right); at += 6) {
    pen.moveTo(at, y + height);
    pen.lineTo(at + height, y);
  }
  pen.strokeStyle = chart.theme.ground;
  pen.stroke();
  pen.restore();
}

function frameBar(pen, chart, { x, y, width, height }) {
  pen.strokeStyle = chart.theme.text;
  pen.lineWidth = 2;
  pen.strokeRect(x, y, width, height);
  pen.lineWidth = 1;
}

/** Arrows from where a value is ready to where it is taken; where there are many, those of other events than the one pointed at are faint. */
function drawFlows(pen, chart, all) {
  const { flows } = all.model.document.timeline;
  pen.strokeStyle = pen.fillStyle = chart.theme.copy;
  pen.lineWidth = 1.5;
  for (const { source, target } of flows) {
    const [from, to] = [source, target].map(([track, time]) => ({ x: chart.x(time), row: rowAt(all.nested, track, time), track, time }));
    const seen = from.row !== undefined && to.row !== undefined && Math.max(from.x, to.x) >= chart.left && Math.min(from.x, to.x) <= chart.right;
    if (!seen) continue;
    pen.globalAlpha = flows.length <= FEW_FLOWS || [from, to].some((end) => touches(chart.pointed, end)) ? 1 : 0.3;
    if (from.row === to.row) drawBow(pen, from.x, to.x, all.tops[from.row] + ROW - 3);
    else drawArrow(pen, from.x, all.tops[from.row] + ROW / 2, to.x, all.tops[to.row] + ROW / 2);
  }
  pen.globalAlpha = 1;
  pen.lineWidth = 1;
}

function touches(event, { track, time }) {
  return event !== null && event.track === track && event.start <= time + 0.001 && ends(event) >= time - 0.001;
}

/** The deepest row of a track that has an event at a time, else its first. */
function rowAt({ rows }, track, time) {
  const own = rows.map((row, index) => [row, index]).filter(([row]) => row.track.id === track);
  const there = own.findLast(([{ events }]) => {
    const event = events[firstInSight(events, time)];
    return event && event.start <= time + 0.001;
  });
  return (there ?? own[0])?.[1];
}

function drawArrow(pen, x1, y1, x2, y2) {
  const bend = Math.max(12, Math.abs(x2 - x1) / 2);
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2 - 5, y2);
  pen.stroke();
  drawTip(pen, [x2, y2], [x2 - 7, y2 - 4], [x2 - 7, y2 + 4]);
}

/** Within a row: below its bars, whose names it does not cross. */
function drawBow(pen, x1, x2, y) {
  pen.beginPath();
  pen.moveTo(x1, y);
  pen.bezierCurveTo(x1, y + BOW, x2, y + BOW, x2, y + 5);
  pen.stroke();
  drawTip(pen, [x2, y], [x2 - 3.5, y + 6], [x2 + 3.5, y + 6]);
}

function drawTip(pen, ...corners) {
  pen.beginPath();
  for (const corner of corners) pen.lineTo(...corner);
  pen.fill();
}
