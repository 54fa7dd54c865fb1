// The tab of the graph: tools above, a list of what is in it at the left, the drawing, and what is known of what is chosen.
import { createGraphView } from "./graph.js";
import { element } from "./state.js";

/** Fills the panel of the graph; chosen nodes are told to others by `state`. */
export function makeExplorer(root, model, state) {
  const drawing = element("div", { class: "stage" });
  root.append(drawing);
  const view = createGraphView(drawing, model, {
    stage: state.get("stage"),
    choose: (id) => state.set("node", id?.startsWith("n:") ? id.slice(2) : null),
  });
  return view;
}
