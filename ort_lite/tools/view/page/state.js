// What is chosen, and who wants to hear of it: the parts of the page know each other only through this.

/** A state of {document, stage, node, tab}; `listen(name, call)` hears each new value of one of them. */
export function createState(first) {
  const values = { ...first };
  const listeners = new Map();
  return {
    get: (name) => values[name],
    set(name, value) {
      if (values[name] === value) return;
      values[name] = value;
      for (const call of listeners.get(name) ?? []) call(value);
    },
    listen(name, call) {
      if (!listeners.has(name)) listeners.set(name, []);
      listeners.get(name).push(call);
    },
  };
}

/** Tells it to who cannot see the page. */
export function say(text) {
  document.getElementById("said").textContent = text;
}

/** Does what a key asks of a view: + and - zoom, 0 and f fit. Whether it was one of these. */
export function zoomedByKey(view, key) {
  if (key === "+" || key === "=") view.zoomBy(1.5);
  else if (key === "-") view.zoomBy(1 / 1.5);
  else if (key === "0" || key === "f") view.fit();
  else return false;
  return true;
}

/** An element with attributes and children: element("p", {class: "quiet"}, "text", other). */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}
