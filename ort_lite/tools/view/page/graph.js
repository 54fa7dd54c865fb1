// The drawing of a graph: a canvas that is panned, zoomed and walked through.
import { onTheme, themeColours } from "./colours.js";
import { firstStage } from "./document.js";
import { COLOURINGS, colourFaces, faceOf } from "./faces.js";
import { createLayouter, elkGraph, sceneOf, visible } from "./layout.js";
import { around, boxes, nest, nodesIn, seen } from "./nesting.js";
import { paint, titlePlace } from "./paint.js";
import { element, say, zoomedByKey } from "./state.js";
import { countText } from "./units.js";
import { spoken, step } from "./walk.js";

const MANY = 300; // nodes from which partitions are folded at first
const LEAST_FIT = 0.35; // zoom below which a whole drawing is not legible: its beginning is shown instead
const FIRST_ZOOM = 0.8;
const ARROWS = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" };
const SHIFTS = { ArrowUp: [0, 80], ArrowDown: [0, -80], ArrowLeft: [80, 0], ArrowRight: [-80, 0] };

/**
 * Draws a stage of a model in `root`, which has a size of its own.
 *
 * Options: `stage`, its number; `marks`, a Map of node keys to "came" or "gone"; `choose(id)` hears what is selected, null of nothing;
 * `changed()` hears of folding and of other stages; `colouring`: an id of COLOURINGS; `label`: what the drawing is called; `scenes`, a
 * Map that keeps layouts, which views of one model may share. Ids are those of nesting.js: "n:" and a node's key. `close()` ends what a
 * view listens to, once it is no longer on the page.
 */
export function createGraphView(root, model, options = {}) {
  const view = new GraphView(root, model, options);
  view.show(options.stage ?? firstStage(model.document), options.marks);
  return view;
}

class GraphView {
  constructor(root, model, { choose = () => {}, changed = () => {}, colouring = "provider", label = "Graph", scenes = new Map() }) {
    Object.assign(this, { model, choose, changed, colouring });
    Object.assign(this, { selected: null, found: [], matches: new Set(), marks: new Map(), folded: new Set(), scenes, scene: null });
    this.layouter = createLayouter();
    this.transform = d3.zoomIdentity;
    this.theme = themeColours();
    const help = "arrow keys walk along edges, Enter folds and unfolds, plus and minus zoom, 0 fits, question mark lists all keys";
    this.canvas = element("canvas", { tabindex: 0, role: "application", "aria-label": `${label}: ${help}` });
    this.progress = element("p", { class: "progress", role: "status", hidden: true });
    root.classList.add("drawing");
    root.append(this.canvas, this.progress);
    this.#listen(root);
  }

  #listen(root) {
    this.zoom = d3.zoom().scaleExtent([0.002, 4]).on("zoom", ({ transform }) => {
      this.transform = transform;
      this.redraw();
    });
    d3.select(this.canvas).call(this.zoom).on("dblclick.zoom", null);
    this.canvas.addEventListener("click", (event) => this.#click(event));
    this.canvas.addEventListener("dblclick", (event) => this.#open(this.#itemAt(event)?.id));
    this.canvas.addEventListener("pointermove", (event) => this.#hover(event));
    this.canvas.addEventListener("keydown", (event) => this.#key(event));
    const sizes = new ResizeObserver(() => this.#resize());
    sizes.observe(root);
    const endThemes = onTheme(() => {
      this.theme = themeColours();
      this.redraw();
    });
    this.close = () => {
      sizes.disconnect();
      endThemes();
      this.layouter.stop();
    };
  }

  /** Shows another stage; what is selected stays so where it is there. */
  show(stage, marks = new Map()) {
    this.stage = stage;
    this.scene = null; // its items are of another stage
    this.marks = new Map([...marks].map(([key, mark]) => [`n:${key}`, mark]));
    this.tree = nest(this.model, stage);
    this.faces = new Map([...this.tree.parents.keys()].map((id) => [id, faceOf(this.model, this.tree, id)]));
    if (this.selected !== null && !this.tree.parents.has(this.selected)) this.select(null);
    this.folded = firstFolded(this.tree);
    this.colourBy(this.colouring);
    this.first = true;
    this.scene = null;
    this.goal = null;
    this.#lay();
  }

  /** Colours nodes by "provider", "time" or "partition". */
  colourBy(colouring) {
    this.colouring = colouring;
    const way = COLOURINGS.find(({ id, has }) => id === colouring && has(this.model, this.tree)) ?? COLOURINGS[0];
    colourFaces(this.faces, way.colour(this.model, this.tree));
    this.redraw();
  }

  /** Selects an item, null for nothing. `jump`: unfolds what hides it and brings it into sight. */
  select(id, { jump = false } = {}) {
    const changes = id !== this.selected;
    this.selected = id;
    if (jump && id !== null) this.reveal(id);
    this.redraw();
    if (!changes) return;
    if (id !== null) say(spoken(this.scene, this.faces.get(id), id));
    this.choose(id);
  }

  /** Unfolds what hides an item and moves it into sight. */
  reveal(id) {
    const hiding = around(this.tree, id).filter((box) => this.folded.has(box));
    for (const box of hiding) this.folded.delete(box);
    if (hiding.length) this.#lay(null, id);
    else this.#centre(id);
  }

  /** Folds a box or unfolds it. */
  fold(id, folded = !this.folded.has(id)) {
    if (!this.tree.children.has(id) || folded === this.folded.has(id)) return;
    if (folded) this.folded.add(id);
    else this.folded.delete(id);
    say(`${this.faces.get(id).title} ${folded ? "folded" : "unfolded"}`);
    this.#lay(id);
  }

  foldAll(folded) {
    this.folded = new Set(folded ? boxes(this.tree) : []);
    this.first = true;
    this.#lay();
  }

  /** Outlines items, such as those that a search has found, or the folded boxes that they are in. */
  highlight(ids) {
    this.found = ids;
    this.matches = new Set(ids.filter((id) => this.tree.parents.has(id)).map((id) => seen(this.tree, this.folded, id)));
    this.redraw();
  }

  /** All of the drawing in sight. */
  fit() {
    const { width, height } = this.scene ?? {};
    if (width) this.#move(this.#fitted(width, height));
  }

  zoomBy(factor) {
    this.#animated().call(this.zoom.scaleBy, factor);
  }

  #fitted(width, height) {
    const k = Math.min(1.5, this.width / (width + 40), this.height / (height + 40));
    return d3.zoomIdentity.translate((this.width - width * k) / 2, (this.height - height * k) / 2).scale(k);
  }

  /** The whole where that is legible, else the beginning. */
  #firstTransform() {
    const { width, height, items } = this.scene;
    const whole = this.#fitted(width, height);
    if (whole.k >= LEAST_FIT || !items.length) return whole;
    const top = d3.min(items, (item) => item.y);
    const first = items.filter((item) => !item.open && item.y < top + this.height / FIRST_ZOOM);
    const middle = d3.median(first, (item) => item.x + item.width / 2);
    return d3.zoomIdentity.translate(this.width / 2 - middle * FIRST_ZOOM, 24 - top * FIRST_ZOOM).scale(FIRST_ZOOM);
  }

  /** Lays out what is visible. `anchor`: a box that stays where it is on the screen; `goal`: an item to move to afterwards. */
  async #lay(anchor = null, goal = null) {
    const id = [this.stage, ...[...this.folded].sort()].join("\n");
    const before = anchor && this.#place(anchor);
    let scene = this.scenes.get(id);
    this.wanted = id;
    if (!scene) {
      const shown = visible(this.model, this.tree, this.folded);
      scene = await this.#laid(shown);
      if (!scene) return;
      this.scenes.set(id, scene);
      if (this.wanted !== id) return;
    }
    this.scene = scene;
    const after = anchor && this.#place(anchor);
    if (before && after) this.#jumpBy((before.x - after.x) * this.transform.k, (before.y - after.y) * this.transform.k);
    if (this.first && this.width) this.#jumpTo(this.#firstTransform());
    if (this.width) this.first = false;
    if (goal ?? this.goal) this.#centre(goal ?? this.goal);
    this.goal = null;
    this.highlight(this.found);
    this.changed();
  }

  async #laid(shown) {
    this.canvas.setAttribute("aria-busy", "true");
    const started = performance.now();
    const told = setInterval(() => {
      const seconds = Math.round((performance.now() - started) / 1000);
      this.#tell(`Laying out ${countText(shown.ids.length, "item")}${seconds ? `, ${seconds} s` : ""} …`);
    }, 200);
    try {
      const { graph, segments } = elkGraph(shown, (id) => [this.faces.get(id).width, this.faces.get(id).height]);
      const laid = await this.layouter.run(graph);
      if (laid) this.#settle();
      return laid && sceneOf(shown, laid, segments);
    } catch (error) {
      this.#tell(`The graph cannot be laid out: ${error.message ?? error}`);
      return null;
    } finally {
      clearInterval(told);
    }
  }

  #settle() {
    this.canvas.setAttribute("aria-busy", "false");
    this.#tell("");
  }

  #tell(text) {
    this.progress.textContent = text;
    this.progress.hidden = !text;
  }

  #place(id) {
    return this.scene?.items.find((item) => item.id === id);
  }

  #animated() {
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    return still ? d3.select(this.canvas) : d3.select(this.canvas).transition().duration(220);
  }

  #move(transform) {
    this.#animated().call(this.zoom.transform, transform);
  }

  #jumpTo(transform) {
    d3.select(this.canvas).interrupt().call(this.zoom.transform, transform);
  }

  #jumpBy(x, y) {
    this.#jumpTo(d3.zoomIdentity.translate(this.transform.x + x, this.transform.y + y).scale(this.transform.k));
  }

  #centre(id) {
    const item = this.#place(id);
    if (!this.scene) this.goal = id; // while it is laid out
    if (!item || !this.width) return;
    const k = Math.max(this.transform.k, 0.7);
    const [x, y] = [item.x + Math.min(item.width / 2, 200), item.y + Math.min(item.height / 2, 100)];
    this.#move(d3.zoomIdentity.translate(this.width / 2 - x * k, this.height / 2 - y * k).scale(k));
  }

  /** Moves only where an item is out of sight. */
  #approach(id) {
    const item = this.#place(id);
    if (!item) return;
    const [left, top] = this.transform.apply([item.x, item.y]);
    const [right, bottom] = this.transform.apply([item.x + Math.min(item.width, 300), item.y + Math.min(item.height, 200)]);
    if (left < 0 || top < 0 || right > this.width || bottom > this.height) this.#centre(id);
  }

  #itemAt(event) {
    const [x, y] = this.transform.invert(d3.pointer(event, this.canvas));
    return this.scene?.items.findLast((item) => x >= item.x && y >= item.y && x <= item.x + item.width && y <= item.y + item.height);
  }

  #onTitle(event, item) {
    const [x, y] = this.transform.invert(d3.pointer(event, this.canvas));
    const place = titlePlace(this.faces.get(item.id), item, this.transform.k);
    return this.tree.children.has(item.id) && x <= item.x + place.width && y <= item.y + place.height;
  }

  #click(event) {
    const item = this.#itemAt(event);
    this.canvas.focus();
    this.select(item?.id ?? null);
    if (item && event.detail < 2 && this.#onTitle(event, item)) this.fold(item.id);
  }

  #hover(event) {
    const item = this.#itemAt(event);
    const face = item && this.faces.get(item.id);
    this.canvas.style.cursor = item && (!item.open || this.#onTitle(event, item)) ? "pointer" : "grab";
    this.canvas.title = face && !item.open ? [face.name, ...face.lines].join("\n") : "";
  }

  #open(id) {
    if (id) this.fold(id);
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const done = event.key in ARROWS ? this.#arrow(event) : this.#command(event.key);
    if (done) event.preventDefault();
  }

  #arrow({ key, shiftKey }) {
    if (shiftKey || this.selected === null) {
      d3.select(this.canvas).call(this.zoom.translateBy, ...SHIFTS[key].map((pixels) => pixels / this.transform.k));
      return true;
    }
    const next = this.scene && step(this.scene, this.tree, this.selected, ARROWS[key]);
    if (next) {
      this.select(next);
      this.#approach(next);
    } else say("nothing there");
    return true;
  }

  #command(key) {
    if (key === "Enter" || key === " ") {
      if (this.selected === null && this.scene) this.select(step(this.scene, this.tree, null, "down"));
      else this.#open(this.selected);
    } else if (key === "Escape") this.select(null);
    else return zoomedByKey(this, key);
    return true;
  }

  #resize() {
    const { clientWidth, clientHeight } = this.canvas.parentElement;
    if (!clientWidth || !clientHeight) return;
    Object.assign(this, { width: clientWidth, height: clientHeight, ratio: devicePixelRatio });
    this.canvas.width = Math.round(clientWidth * this.ratio);
    this.canvas.height = Math.round(clientHeight * this.ratio);
    if (this.first && this.scene) {
      this.first = false;
      this.#jumpTo(this.#firstTransform());
    }
    this.#paint();
  }

  redraw() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.#paint();
    });
  }

  #paint() {
    if (this.width) paint(this.canvas.getContext("2d", { alpha: false }), this);
  }
}

/** What is folded at first: partitions of a large graph, if there are several, and the bodies of control flow. */
function firstFolded(tree) {
  const partitions = boxes(tree).filter((id) => id[0] === "p");
  if (tree.wiring.keys.size <= MANY || partitions.length < 2) return new Set();
  return new Set([...partitions, ...boxes(tree).filter((id) => id[0] === "n" && nodesIn(tree, id).length > 1)]);
}
