// What differs between two documents of one model: who runs each node, how long it takes, and what all of it needs.

/** {kind, key, operator, here, there, why, times: [microseconds or null, of both], slower} of each node of the partitioned stages. O(nodes). */
export function nodeDifferences(one, other) {
  const keys = new Set([...Object.keys(one.placements), ...Object.keys(other.placements)]);
  return [...keys].map((key) => {
    const [here, there] = [one, other].map(({ placements }) => placements[key]?.provider ?? null);
    const times = [one, other].map(({ costs }) => costs[key]?.microseconds ?? null);
    const operator = (one.nodes[key] ?? other.nodes[key]).operator;
    const kind = here === null ? "only there" : there === null ? "only here" : here === there ? "same" : "moved";
    const slower = times.includes(null) ? null : times[1] - times[0];
    return { kind, key, operator, here, there, why: kind === "moved" ? whyMoved(one, other, key) : "", times, slower };
  });
}

/** Why the provider of a node in `one` does not have it in `other`; else why that of `other` does not have it in `one`. */
function whyMoved(one, other, key) {
  const [here, there] = [one.placements[key], other.placements[key]];
  return reasonFor(other, there, here.provider) || reasonFor(one, here, there.provider) || there.rule;
}

function reasonFor(document, { reasons }, provider) {
  if (!document.providers.some(({ name }) => name === provider)) return `${provider} is not asked`;
  const found = reasons.find((reason) => reason.provider === provider);
  if (!found) return "";
  return `${provider} ${found.verdict}: ${found.detail || found.code}`;
}

/** [{provider, nodes: [here, there], times: [here, there]}] of all providers of two documents. */
export function providerTotals(documents) {
  const names = new Set(documents.flatMap(({ providers }) => providers.map(({ name }) => name)));
  return [...names].map((provider) => ({
    provider,
    nodes: documents.map(({ placements }) => d3.sum(Object.values(placements), (place) => place.provider === provider)),
    times: documents.map((document) => sumOfTimes(document, (key) => document.placements[key]?.provider === provider)),
  }));
}

/** Of the nodes that pass a test; null where no node's time is known. */
function sumOfTimes({ costs }, test) {
  const known = Object.entries(costs);
  return known.length ? d3.sum(known.filter(([key]) => test(key)), ([, { microseconds }]) => microseconds) : null;
}

/** [title, kind of number, here, there] of what whole documents are compared by; null is not known. */
export function wholeTotals(documents) {
  const of = (title, unit, call) => [title, unit, ...documents.map(call)];
  const sum = (list, name) => (list.length ? d3.sum(list, (entry) => entry[name]) : null);
  return [
    of("Time of all nodes", "time", (document) => sumOfTimes(document, () => true)),
    of("Nodes", "count", ({ placements }) => Object.keys(placements).length),
    of("Partitions", "count", ({ partitions }) => partitions.length),
    of("Copies", "count", ({ copies }) => copies.length),
    of("Bytes copied", "bytes", ({ copies }) => copiedBytes(copies)),
    of("Memory planned", "bytes", ({ memory }) => sum(memory, "size")),
    of("No plan needs less than", "bytes", ({ memory }) => sum(memory, "bound")),
  ].filter(([, , here, there]) => here !== null || there !== null);
}

/** Null where some depend on free dimensions. */
function copiedBytes(copies) {
  return copies.every(({ bytes }) => typeof bytes === "number") ? d3.sum(copies, ({ bytes }) => bytes) : null;
}
