// The document with what is looked up in it: who reads and makes a value, which nodes a stage has.

/** Indexes of a document. O(nodes). */
export function createModel(document) {
  const colours = new Map(document.providers.map((provider, index) => [provider.name, index]));
  return {
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
  };
}
