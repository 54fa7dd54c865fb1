// What lies between two stages: which nodes went, which came, and by which rules.
import { append } from "./document.js";

const LONGEST_NAME = 32;

/**
 * {gone, came, moved, rules: rule -> changes} from stage `before` to `after`, by number. `gone` and `came` are sets of keys; a node that
 * only reads something else has another key in both stages, which `moved` maps from the one to the other. O(nodes).
 */
export function betweenStages(model, before, after) {
  const [first, second] = [model.at(before).keys, model.at(after).keys];
  const gone = new Set([...first].filter((key) => !second.has(key)));
  const came = new Set([...second].filter((key) => !first.has(key)));
  const moved = sameNodes(model.document, gone, came);
  for (const [was, is] of moved) {
    gone.delete(was);
    came.delete(is);
  }
  const rules = new Map();
  for (const { changes } of model.document.stages.slice(before + 1, after + 1)) {
    for (const change of changes) append(rules, change.rule, change);
  }
  return { gone, came, moved, rules };
}

/** Keys that went to keys that came which are the same node, by name and operator. */
function sameNodes({ nodes }, gone, came) {
  const identity = (key) => `${nodes[key].graph}\n${nodes[key].name}\n${nodes[key].operator}`;
  const names = new Map([...came].map((key) => [identity(key), key]));
  return new Map([...gone].map((key) => [key, names.get(identity(key))]).filter(([, key]) => key !== undefined));
}

/** "Conv_1, Relu_2 and 3 more"; "nothing" of none. */
export function namesText(keys, most = 3) {
  if (!keys.length) return "nothing";
  const named = keys.slice(0, most).map(shortName).join(", ");
  return keys.length > most ? `${named} and ${keys.length - most} more` : named;
}

/** Its end, with a word joiner so that the ellipsis stays with it. */
function shortName(name) {
  return name.length > LONGEST_NAME ? `…\u2060${name.slice(1 - LONGEST_NAME)}` : name;
}
