// A picture over an axis, on a canvas: zoomed, dragged, and walked through by keyboard. What is in it its owner draws.
import { onTheme, themeColours } from "./colours.js";
import { element, say, zoomedByKey } from "./state.js";

const CHART_LEFT = 70; // pixels beside the picture, for the other axis
const CHART_RIGHT = 14;
const CHART_FOOT = 26; // below it, for this one
const CHART_FONT = "12px system-ui, sans-serif";
const CHART_KEYS = "Arrow keys walk, Enter selects, plus and minus zoom, Shift and arrows move, 0 shows all.";
const WALKS = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down", Home: "first", End: "last" };

/**
 * A chart over 0 to `length`. Its owner has
 * - `label`, what it shows; `closest`, the shortest length to zoom to; `left`, pixels of the other axis;
 * - `height(available)`: how high it is in pixels, by what its frame has;
 * - `draw(pen, chart)`: draws, in CSS pixels; `chart` has x (a scale), left, right, bottom, theme, pointed;
 * - `find(chart, x, y)`: the item at a point, or null; `box(item, chart)`: its {x, y, width, height};
 * - `walk(item, direction)`: the item to go to from one, or from null: left, right, up, down, first, last;
 * - `describe(item)`: lines of text, the first a title; `choose(item)`: hears of clicks and of Enter.
 */
export class Chart {
  constructor(owner) {
    Object.assign(this, { owner, pointed: null, band: null, frame: null, transform: d3.zoomIdentity, width: 0, theme: themeColours() });
    this.left = owner.left ?? CHART_LEFT;
    this.canvas = element("canvas", { tabindex: 0, role: "application", "aria-label": `${owner.label}. ${CHART_KEYS}` });
    this.tip = element("div", { class: "tip", hidden: true });
    this.inner = element("div", { class: "chart-inner" }, this.canvas, this.tip);
    this.root = element("div", { class: "chart" }, this.inner);
    this.#addZoom();
    this.#listen();
  }

  /** Draws it anew before the next frame. */
  redraw() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.#paint();
    });
  }

  /** Takes another owner's items, from the beginning. */
  reset(owner) {
    Object.assign(this, { owner });
    this.canvas.setAttribute("aria-label", `${owner.label}. ${CHART_KEYS}`);
    this.#point(null);
    this.#resize();
    this.fit();
  }

  /** All of it in sight. */
  fit() {
    this.#moved().call(this.zoom.transform, d3.zoomIdentity);
  }

  /** About what is pointed at, or the middle. */
  zoomBy(factor) {
    const box = this.pointed && this.owner.box(this.pointed, this);
    this.#moved().call(this.zoom.scaleBy, factor, box ? [box.x + box.width / 2, 0] : undefined);
  }

  /** Shows `from` to `to`, and something beside them. */
  show(from, to) {
    const k = Math.min(this.owner.length / Math.max((to - from) * 1.2, this.owner.closest), this.#most());
    const middle = this.#base()((from + to) / 2);
    const wanted = (this.left + this.right) / 2 - k * middle;
    const x = Math.max(this.right * (1 - k), Math.min(this.left * (1 - k), wanted));
    this.#moved().call(this.zoom.transform, d3.zoomIdentity.translate(x, 0).scale(k));
  }

  /** Points at an item and brings it into sight. */
  point(item) {
    this.#point(item);
    if (item === null) return;
    const { x, width } = this.owner.box(item, this);
    const [from, to] = [this.x.invert(x), this.x.invert(x + width)];
    const [first, last] = this.x.domain();
    if (to < first || from > last || (from < first && to < last) || (to > last && from > first)) this.show(from, to + (last - first) / 2);
  }

  #base() {
    return d3.scaleLinear([0, this.owner.length], [this.left, this.right]);
  }

  #most() {
    return Math.max(1, this.owner.length / this.owner.closest);
  }

  #moved() {
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    return still ? d3.select(this.canvas) : d3.select(this.canvas).transition().duration(180);
  }

  #addZoom() {
    this.zoom = d3
      .zoom()
      .filter((event) => !event.shiftKey && !event.button && (event.type !== "wheel" || Math.abs(event.deltaY) > Math.abs(event.deltaX)))
      .on("zoom", ({ transform, sourceEvent }) => {
        this.transform = transform;
        if (sourceEvent?.type === "mousemove") this.root.scrollTop -= sourceEvent.movementY;
        if (sourceEvent && this.pointed !== null) this.#point(null);
        this.redraw();
      });
    d3.select(this.canvas).call(this.zoom).on("dblclick.zoom", null);
  }

  #listen() {
    const { canvas } = this;
    canvas.addEventListener("pointermove", (event) => this.#hover(event));
    canvas.addEventListener("pointerleave", () => this.#point(null));
    canvas.addEventListener("blur", () => this.#point(null));
    canvas.addEventListener("click", (event) => this.#click(event));
    canvas.addEventListener("wheel", (event) => this.#pan(event), { passive: false });
    canvas.addEventListener("keydown", (event) => this.#key(event));
    canvas.addEventListener("pointerdown", (event) => this.#startBand(event));
    canvas.addEventListener("pointerup", () => this.#endBand());
    const sizes = new ResizeObserver(() => this.#resize());
    sizes.observe(this.root);
    const endThemes = onTheme(() => {
      this.theme = themeColours();
      this.redraw();
    });
    this.close = () => {
      sizes.disconnect();
      endThemes();
    };
  }

  #itemAt(event) {
    return this.x ? this.owner.find(this, ...d3.pointer(event, this.canvas)) : null;
  }

  #hover(event) {
    if (this.band) this.band[1] = d3.pointer(event, this.canvas)[0];
    if (this.band) return this.redraw();
    const item = event.buttons ? null : this.#itemAt(event);
    this.canvas.style.cursor = item === null ? "grab" : "pointer";
    return this.#point(item, d3.pointer(event, this.canvas));
  }

  #point(item, place = null) {
    if (item === this.pointed && place === null) return;
    if (item !== this.pointed) this.redraw();
    this.pointed = item;
    this.tip.hidden = item === null;
    if (item === null) return;
    const [title, ...lines] = this.owner.describe(item);
    this.tip.replaceChildren(element("strong", {}, title), ...lines.map((line) => element("div", {}, line)));
    this.walked = place === null;
    this.#placeTip(...(place ?? this.#below(item)));
  }

  /** Beside a point, where it covers nothing of it and is in sight. */
  #placeTip(x, y) {
    const { offsetWidth, offsetHeight } = this.tip;
    const right = x + 14 + offsetWidth < this.width;
    const below = y + 14 + offsetHeight < this.root.scrollTop + this.root.clientHeight;
    this.tip.style.left = `${Math.max(2, right ? x + 14 : x - 14 - offsetWidth)}px`;
    this.tip.style.top = `${Math.max(this.root.scrollTop + 2, below ? y + 14 : y - 14 - offsetHeight)}px`;
  }

  #click(event) {
    if (event.shiftKey) return;
    this.canvas.focus();
    this.owner.choose(this.#itemAt(event));
  }

  /** A wheel that turns sideways, or with Shift, moves. */
  #pan(event) {
    const way = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    if (!event.shiftKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return;
    event.preventDefault();
    this.#shift(-way);
  }

  #shift(pixels) {
    d3.select(this.canvas).call(this.zoom.translateBy, pixels / this.transform.k, 0);
  }

  #startBand(event) {
    if (!event.shiftKey || event.button) return;
    const [x] = d3.pointer(event, this.canvas);
    this.band = [x, x];
    this.canvas.setPointerCapture(event.pointerId);
    this.#point(null);
  }

  #endBand() {
    const band = this.band?.map((x) => this.x.invert(x)).sort(d3.ascending);
    this.band = null;
    if (band && this.x(band[1]) - this.x(band[0]) > 4) this.show(...band);
    else this.redraw();
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.x) return;
    if (this.#walk(event) || this.#command(event.key)) event.preventDefault();
  }

  #walk({ key, shiftKey }) {
    const direction = WALKS[key];
    if (shiftKey && (direction === "left" || direction === "right")) this.#shift(direction === "left" ? 80 : -80);
    else if (direction) {
      const next = this.owner.walk(this.pointed, direction);
      if (next === null) say("nothing there");
      else {
        this.point(next);
        say(this.owner.describe(next).join(", "));
      }
    }
    return direction !== undefined;
  }

  #command(key) {
    if (key === "Enter" || key === " ") this.owner.choose(this.pointed);
    else if (key === "Escape" && this.pointed !== null) this.#point(null);
    else if (key === "Escape") this.owner.choose(null);
    else return zoomedByKey(this, key);
    return true;
  }

  #resize() {
    const { clientWidth, clientHeight } = this.root;
    if (!clientWidth || !clientHeight) return;
    const height = Math.max(60, this.owner.height(clientHeight - CHART_FOOT) + CHART_FOOT);
    Object.assign(this, { width: clientWidth, height, right: clientWidth - CHART_RIGHT, bottom: height - CHART_FOOT });
    Object.assign(this.canvas, { width: Math.round(clientWidth * devicePixelRatio), height: Math.round(height * devicePixelRatio) });
    this.canvas.style.height = `${height}px`;
    const extent = [[this.left, 0], [this.right, height]];
    this.zoom.extent(extent).translateExtent(extent).scaleExtent([1, this.#most()]);
    this.#paint();
  }

  #paint() {
    if (!this.width) return;
    this.x = this.transform.rescaleX(this.#base()).clamp(false);
    const pen = this.canvas.getContext("2d", { alpha: false });
    pen.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    pen.fillStyle = this.theme.ground;
    pen.fillRect(0, 0, this.width, this.height);
    pen.font = CHART_FONT;
    pen.textBaseline = "middle";
    this.owner.draw(pen, this);
    if (this.band) this.#paintBand(pen);
    if (this.walked && this.pointed !== null) this.#placeTip(...this.#below(this.pointed));
  }

  /** Where the tip of an item stands that was walked to. */
  #below(item) {
    const { x, y, width, height } = this.owner.box(item, this);
    return [Math.min(Math.max(this.left, x + width / 2), this.right), y + height];
  }

  #paintBand(pen) {
    const [from, to] = this.band;
    pen.globalAlpha = 0.2;
    pen.fillStyle = this.theme.accent;
    pen.fillRect(from, 0, to - from, this.bottom);
    pen.globalAlpha = 1;
  }
}

/** Draws within the picture alone, beside which names of rows stand. */
export function clipped(pen, chart, draw) {
  pen.save();
  pen.beginPath();
  pen.rect(chart.left, 0, chart.right - chart.left, chart.bottom);
  pen.clip();
  draw();
  pen.restore();
}

/** The axis below: `text` of each tick. */
export function drawFoot(pen, chart, ticks, text) {
  pen.strokeStyle = chart.theme.line;
  pen.fillStyle = chart.theme.quiet;
  pen.textAlign = "center";
  pen.font = CHART_FONT;
  pen.beginPath();
  pen.moveTo(chart.left, chart.bottom + 0.5);
  pen.lineTo(chart.right, chart.bottom + 0.5);
  for (const tick of ticks) {
    const x = Math.round(chart.x(tick)) + 0.5;
    pen.moveTo(x, chart.bottom);
    pen.lineTo(x, chart.bottom + 5);
    pen.fillText(text(tick), x, chart.bottom + 15);
  }
  pen.stroke();
}

/** Buttons that zoom a chart, for who has no wheel. */
export function zoomButtons(chart) {
  const button = (title, text, call) => element("button", { title, "aria-label": title, onclick: call }, text);
  return element(
    "span",
    { class: "zooms", role: "group", "aria-label": "Zoom" },
    button("Zoom in (+)", "+", () => chart.zoomBy(1.5)),
    button("Zoom out (-)", "−", () => chart.zoomBy(1 / 1.5)),
    button("All of it (0)", "Fit", () => chart.fit()),
  );
}
