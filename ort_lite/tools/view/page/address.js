// What is looked at, in the page's address: a link leads to a tab, a stage and a node.
import { firstStage } from "./document.js";

/** {tab, stage, node} of "#tab=graph&stage=2&node=Conv_0", what the document does not have replaced by the first stage to show and null. */
export function readAddress(shown) {
  const { stages, nodes } = shown;
  const asked = new URLSearchParams(location.hash.slice(1));
  const number = Number(asked.get("stage") ?? NaN) - 1;
  const node = asked.get("node");
  return { tab: asked.get("tab"), stage: stages[number] ? number : firstStage(shown), node: node !== null && nodes[node] ? node : null };
}

/** Puts it there without another entry of the history. A frame of a notebook has no address of its own. */
export function writeAddress(shown, state) {
  if (location.protocol === "about:") return;
  const told = new URLSearchParams({ tab: state.get("tab") });
  if (state.get("stage") !== firstStage(shown)) told.set("stage", state.get("stage") + 1);
  if (state.get("node") !== null) told.set("node", state.get("node"));
  history.replaceState(null, "", `#${told}`);
}
