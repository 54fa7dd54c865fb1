// Where the arrow keys lead from an item: along edges, and to its neighbours.

const middle = (item) => [item.x + item.width / 2, item.y + item.height / 2];

/** The id of the item to go to, or null: "down" to a reader, "up" to the maker, "left" and "right" in the same layer. */
export function step(scene, tree, selected, direction) {
  const places = new Map(scene.items.map((item) => [item.id, item]));
  const from = places.get(selected);
  if (!from) return scene.items[0]?.id ?? null;
  if (direction === "left" || direction === "right") return sideways(scene, tree, from, direction === "right" ? 1 : -1);
  const ahead = direction === "down";
  if (ahead && from.open) return topmost(places, tree.children.get(selected));
  const linked = scene.links.filter((link) => (ahead ? link.from : link.to) === selected).map((link) => (ahead ? link.to : link.from));
  return nearest(from, linked.map((id) => places.get(id)).filter(Boolean));
}

function topmost(places, ids) {
  const items = ids.map((id) => places.get(id)).filter(Boolean);
  return d3.least(items, (item) => item.y)?.id ?? null;
}

function nearest(from, items) {
  const [x] = middle(from);
  return d3.least(items, (item) => Math.abs(middle(item)[0] - x))?.id ?? null;
}

/** The next one that overlaps in height; in the same box before others. */
function sideways(scene, tree, from, sign) {
  const [x] = middle(from);
  const home = tree.parents.get(from.id);
  const beside = scene.items.filter(
    (item) => item.id !== from.id && sign * (middle(item)[0] - x) > 1 && item.y < from.y + from.height && item.y + item.height > from.y,
  );
  const near = (items) => d3.least(items, (item) => sign * (middle(item)[0] - x))?.id ?? null;
  return near(beside.filter((item) => tree.parents.get(item.id) === home)) ?? near(beside.filter((item) => !item.open));
}

/** What to say of an item: its kind, its name and what its edges lead to. */
export function spoken(scene, face, id) {
  const kind = { n: "node", p: "partition", b: "body", i: "input", o: "output", c: "copy" }[face.kind];
  const what = [`${kind} ${face.name}`, ...face.lines].join(", ");
  if (!scene) return what;
  const makers = scene.links.filter((link) => link.to === id).length;
  const readers = scene.links.filter((link) => link.from === id).length;
  return `${what}; ${makers} in, ${readers} out`;
}
