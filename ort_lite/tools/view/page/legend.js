// What the colours of a drawing mean.
import { heatColour } from "./colours.js";
import { providerBadge } from "./blocks.js";
import { element } from "./state.js";
import { timeText } from "./units.js";

const STEPS = 8;

/** A legend in a corner of a drawing: {refresh()}, after the colouring or the stage has changed. */
export function createLegend(root, model, view) {
  const list = element("ul", { class: "legend", "aria-label": "Colours" });
  root.append(list);
  const refresh = () => {
    list.replaceChildren(...legendLines(model, view).map((line) => element("li", {}, ...line)));
    list.hidden = !list.children.length;
  };
  refresh();
  return { refresh };
}

function legendLines(model, view) {
  if (view.colouring === "time") return [heatLine(model)];
  if (view.colouring !== "provider") return [];
  const nodes = d3.rollup(view.tree.wiring.keys, (some) => some.length, (key) => model.providerOf(key));
  const shown = new Set([...view.tree.wiring.partitions.values()].map(({ provider }) => provider));
  return [...shown].map((provider) => [providerBadge(model, provider), element("span", { class: "quiet" }, `${nodes.get(provider) ?? 0}`)]);
}

function heatLine(model) {
  const slowest = d3.max(Object.values(model.document.costs), ({ microseconds }) => microseconds);
  const steps = d3.range(STEPS).map((step) => element("span", { class: "heat", style: `background: ${heatColour(step / (STEPS - 1))}` }));
  return ["0", ...steps, timeText(slowest)];
}
