// The document with what is looked up in it: which nodes a stage has, who makes and reads a value, what is in what.

/** Names of all providers, the CPU's first: whatever their order is in a list, each keeps its colour. */
function coloured(document) {
  const names = new Set([...document.providers, ...(document.other?.providers ?? [])].map((provider) => provider.name));
  names.delete("CPUExecutionProvider");
  return ["CPUExecutionProvider", ...[...names].sort()];
}

/** Indexes of a document. O(nodes). */
export function createModel(document) {
  const colours = new Map(coloured(document).map((name, index) => [name, index]));
  const wiring = new Map();
  const compiled = new Map();
  for (const { provider, fused } of document.partitions) for (const { name, parts } of fused) compiled.set(name, { provider, parts });
  const kernels = new Map();
  for (const [key, kernel] of Object.entries(document.kernels)) {
    const parts = compiled.get(key)?.parts ?? [document.nodes[key].name];
    for (const name of [...parts, document.nodes[key].name, key]) kernels.set(name, { ...kernel, parts });
  }
  const model = {
    document,
    /** The number of a provider's colour, -1 of none. */
    colour: (provider) => colours.get(provider) ?? -1,
    /** Keys of the nodes of a stage, by its number. */
    keysAt(stage) {
      const keys = new Set();
      for (const { removed, added } of document.stages.slice(0, stage + 1)) {
        for (const key of removed) keys.delete(key);
        for (const key of added) keys.add(key);
      }
      return keys;
    },
    /** The wiring of a stage (see `wire`), made when it is first asked for. */
    at(stage) {
      if (!wiring.has(stage)) wiring.set(stage, wire(document, stage, model.keysAt(stage)));
      return wiring.get(stage);
    },
    /** The provider of a node that is partitioned or compiled. */
    providerOf: (key) => (compiled.get(key) ?? document.placements[key] ?? document.placements[document.nodes[key].name])?.provider,
    /** The nodes of the stage "partitioned" that a compiled node is made of, else the node itself. */
    partsOf: (key) => compiled.get(key)?.parts ?? [document.placements[key] ? key : document.nodes[key].name],
    /** The kernel that computes a node that is partitioned or compiled, with the `parts` that it computes together; undefined where it is unknown. */
    kernelOf: (key) => kernels.get(key) ?? kernels.get(document.nodes[key].name),
  };
  return model;
}

/** The stage that is shown at first: the one that says who runs what, else the last. */
export function firstStage(document) {
  const stage = partitionedStage(document);
  return stage < Infinity ? stage : document.stages.length - 1;
}

/** The number of the first stage whose nodes have providers; Infinity where none has. */
export function partitionedStage(document) {
  const found = document.stages.findIndex((stage) => stage.id === "partitioned");
  return found < 0 ? Infinity : found;
}

/** {keys, makers: value -> node, readers: value -> nodes, graphs: path -> body, partitions: name -> partition, partitionOf: node -> name, isConstant(value)}. */
function wire(document, stage, unordered) {
  const makers = new Map();
  const readers = new Map();
  for (const key of unordered) {
    for (const value of document.nodes[key].outputs) if (value !== null) makers.set(value, key);
  }
  const keys = inOrder(document, unordered, makers);
  for (const key of keys) {
    for (const value of new Set(document.nodes[key].inputs)) if (value !== null) append(readers, value, key);
  }
  // An initializer may be among a graph's inputs: a feed can replace it, but need not.
  const given = new Set(document.graphs.flatMap(({ inputs }) => inputs).filter((value) => document.values[value]?.constant === undefined));
  const graphs = new Map(document.graphs.filter((body) => body.node === null || keys.has(body.node)).map((body) => [body.path, body]));
  const partitions = new Map();
  const partitionOf = new Map();
  if (stage >= partitionedStage(document)) {
    for (const partition of document.partitions) partitions.set(partition.name, partition);
    const homes = new Map(document.partitions.flatMap(({ name, nodes, fused }) => [...nodes, ...fused.map((made) => made.name)].map((key) => [key, name])));
    for (const key of keys) {
      const home = homes.get(key) ?? homes.get(document.nodes[key].name); // a key with a number: it reads what a fusion made
      if (home !== undefined) partitionOf.set(key, home);
    }
  }
  /** A weight: what no node makes at this stage, and no feed or outer graph gives. */
  const isConstant = (value) => !makers.has(value) && !given.has(value);
  return { keys, makers, readers, graphs, partitions, partitionOf, isConstant };
}

/** Makers before readers. Without recursion: a chain may be as long as the model. */
function inOrder(document, keys, makers) {
  const ordered = new Set();
  const entered = new Set();
  const waiting = [...keys].reverse();
  while (waiting.length) {
    const key = waiting.at(-1);
    if (entered.has(key)) {
      ordered.add(waiting.pop());
      continue;
    }
    entered.add(key);
    const { inputs, captures = [] } = document.nodes[key];
    for (const value of [...captures, ...inputs].reverse()) {
      const maker = makers.get(value);
      if (maker !== undefined && !entered.has(maker)) waiting.push(maker);
    }
  }
  return ordered;
}

/** Appends to the list of a key in a map of lists. */
export function append(lists, key, value) {
  if (lists.has(key)) lists.get(key).push(value);
  else lists.set(key, [value]);
}
