// Where things are drawn: ELK's layered layout in a worker, so that the page stays responsive.
import { around, seen, seenEdges } from "./nesting.js";

const OPTIONS = {
  "elk.algorithm": "layered",
  "elk.direction": "DOWN",
  "elk.edgeRouting": "ORTHOGONAL",
  "elk.layered.mergeEdges": "true",
  "elk.padding": "[top=40,left=18,bottom=18,right=18]",
  "elk.spacing.nodeNode": "22",
  "elk.spacing.edgeNode": "14",
  "elk.spacing.edgeEdge": "10",
  "elk.layered.spacing.nodeNodeBetweenLayers": "34",
  "elk.layered.spacing.edgeNodeBetweenLayers": "14",
  "elk.portConstraints": "FIXED_SIDE",
  "elk.json.shapeCoords": "ROOT",
  "elk.json.edgeCoords": "ROOT",
};
const HASTY_FROM = 1000; // items from which a good layout matters less than an early one

/** What is seen of a tree with some boxes folded: {ids: the items, opened: boxes among them that show what is in them, links: edges}. */
export function visible(model, tree, folded) {
  const links = seenEdges(model, tree, folded);
  const wired = new Set(links.flatMap((link) => [link.from, link.to]));
  const ids = [...tree.parents.keys()].filter((id) => seen(tree, folded, id) === id && (id[0] !== "c" || wired.has(id)));
  const opened = new Set(ids.filter((id) => tree.children.has(id) && !folded.has(id)));
  return { tree, ids, opened, links };
}

/** ELK's graph of what is visible; `size(id)` is [width, height] of an item that shows nothing in it. */
export function elkGraph(shown, size) {
  const cut = cutEdges(shown);
  const nodes = new Map([["", { id: "root" }]]);
  for (const id of shown.ids) nodes.set(id, shown.opened.has(id) ? { id } : leaf(id, size(id)));
  for (const id of shown.ids) put(nodes.get(shown.tree.parents.get(id) ?? ""), "children", nodes.get(id));
  for (const [id, { box, side }] of cut.ports) put(nodes.get(box), "ports", { id, layoutOptions: { "elk.port.side": side } });
  cut.segments.forEach((segment, index) => {
    put(nodes.get(segment.box), "edges", { id: `e${index}`, sources: [segment.source], targets: [segment.target] });
  });
  const options = shown.ids.length > HASTY_FROM ? { ...OPTIONS, "elk.layered.thoroughness": "2" } : OPTIONS;
  for (const [id, node] of nodes) if (node.children) node.layoutOptions = id ? { ...options, ...atLeast(size(id)) } : options;
  return { graph: nodes.get(""), segments: cut.segments };
}

/** An open box has room for its title. */
function atLeast([width]) {
  return { "elk.nodeSize.constraints": "MINIMUM_SIZE", "elk.nodeSize.minimum": `(${width + 16}, 60)` };
}

function leaf(id, [width, height]) {
  return { id, width, height };
}

function put(node, list, item) {
  (node[list] ??= []).push(item);
}

/** Edges cut where they cross the border of an open box: a port there for each value that goes in or out. */
function cutEdges({ tree, opened, links }) {
  const ports = new Map();
  const segments = new Map();
  const port = (box, side, value) => {
    const id = `${side}|${box}|${value}`;
    ports.set(id, { box, side });
    return id;
  };
  const join = (box, source, target, link, arrow) => {
    const id = `${box}\n${source}\n${target}`;
    const first = source === link.from || opened.has(link.from);
    if (!segments.has(id)) segments.set(id, { box, source, target, value: link.value, arrow, first, links: [] });
    segments.get(id).links.push(link);
  };
  for (const link of links) {
    const outward = [...around(tree, link.from), ""];
    const inward = [...around(tree, link.to), ""];
    const meeting = outward.find((box) => inward.includes(box));
    let source = opened.has(link.from) ? port(link.from, "SOUTH", link.value) : link.from;
    for (const box of outward.slice(0, outward.indexOf(meeting))) {
      const exit = port(box, "SOUTH", link.value);
      join(box, source, exit, link, false);
      source = exit;
    }
    let target = opened.has(link.to) ? port(link.to, "NORTH", link.value) : link.to;
    let arrow = true;
    for (const box of inward.slice(0, inward.indexOf(meeting))) {
      const entry = port(box, "NORTH", link.value);
      join(box, entry, target, link, arrow);
      target = entry;
      arrow = false;
    }
    join(meeting, source, target, link, arrow);
  }
  return { ports, segments: [...segments.values()] };
}

/** What is drawn: {items: [{id, x, y, width, height, open}], edges: [{value, points, links, arrow, first, bounds}], links, width, height}. */
export function sceneOf(shown, laid, segments) {
  const items = [];
  const edges = [];
  const visit = (node) => {
    for (const child of node.children ?? []) {
      const { id, x, y, width, height } = child;
      items.push({ id, x, y, width, height, open: shown.opened.has(id) });
      visit(child);
    }
    for (const edge of node.edges ?? []) {
      const { value, links, arrow, first } = segments[Number(edge.id.slice(1))];
      for (const { startPoint, bendPoints = [], endPoint } of edge.sections ?? []) {
        const points = [startPoint, ...bendPoints, endPoint].map((point) => [point.x, point.y]);
        edges.push({ value, points, links, arrow, first, bounds: boundsOf(points) });
      }
    }
  };
  visit(laid);
  return { items, edges, links: shown.links, width: laid.width, height: laid.height };
}

function boundsOf(points) {
  const [left, right] = d3.extent(points, (point) => point[0]);
  const [top, bottom] = d3.extent(points, (point) => point[1]);
  return [left, top, right, bottom];
}

/** The text of the worker, unpacked once for all. */
const workerAddress = (() => {
  let found = null;
  return () => (found ??= unpack());
})();

async function unpack() {
  const packed = Uint8Array.from(atob(document.getElementById("layout-worker").textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const text = await new Response(stream).text();
  return URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
}

/** A worker that cannot be started says nothing to ELK: its error goes to who waits at the time. */
function startWorker(address, waiting) {
  const worker = new Worker(address);
  worker.addEventListener("error", (event) => waiting()(new Error(event.message || "the worker for layouts does not start")));
  return worker;
}

/**
 * {run(graph), stop()}: `run` answers a promise of the graph with places, or of null where another run came after it: its worker is
 * ended then, as ELK cannot be told to stop.
 */
export function createLayouter() {
  let elk = null;
  let asked = 0;
  let busy = false;
  let fail = null;
  let leave = null;
  const stop = () => {
    elk?.terminateWorker();
    leave?.();
    elk = null;
    busy = false;
  };
  const run = async (graph) => {
    const number = ++asked;
    if (busy) stop();
    const address = await workerAddress();
    if (number !== asked) return null;
    const failed = new Promise((_, reject) => {
      fail = reject;
    });
    const left = new Promise((resolve) => {
      leave = () => resolve(null);
    });
    elk ??= new ELK({ workerFactory: () => startWorker(address, () => fail) });
    busy = true;
    const laid = await Promise.race([elk.layout(graph), failed, left]);
    if (number !== asked) return null;
    busy = false;
    return laid;
  };
  return { run, stop };
}
