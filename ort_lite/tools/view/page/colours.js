// Colours of providers, of heat and of the theme: for canvases, which know no CSS variables, and for legends.

/** Okabe and Ito's palette, which colour-blind people tell apart; never alone: what is coloured is also named. */
const PALETTE = ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#d55e00", "#0072b2", "#8a8f98"];
const THEME = ["ground", "raised", "line", "text", "quiet", "accent", "came", "gone", "edge", "end", "copy", "badge"];

/** The colour of a provider by its name; that of no provider is grey. */
export function providerColour(model, provider) {
  const index = model.colour(provider);
  return index < 0 ? PALETTE.at(-1) : PALETTE[index % (PALETTE.length - 1)];
}

/** Neighbours of a list get different colours. */
export function listColour(index) {
  return PALETTE[index % (PALETTE.length - 1)];
}

/** From 0, cool, to 1, hot: Cividis, which grows lighter all the way, less its darkest part, which a dark page would swallow. */
export function heatColour(part) {
  return d3.color(d3.interpolateCividis(0.2 + 0.8 * Math.min(1, Math.max(0, part)))).formatHex();
}

/** What is legible on a colour: black or white, by WCAG's contrast. */
export function inkOn(colour) {
  const light = luminance(d3.rgb(colour));
  return (light + 0.05) / 0.05 > 1.05 / (light + 0.05) ? "#000000" : "#ffffff";
}

function luminance({ r, g, b }) {
  const [red, green, blue] = [r, g, b].map((part) => (part <= 10 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** A colour mixed into another: 0 is the first, 1 the second. */
export function mixed(first, second, part) {
  return d3.interpolateRgb(first, second)(part);
}

/** The colours of the theme by the names of style.css's variables, as they are now. */
export function themeColours() {
  const probe = document.createElement("span");
  document.body.append(probe);
  const found = {};
  for (const name of THEME) {
    probe.style.color = `var(--${name})`;
    found[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return found;
}

/** Calls when the theme changes, by the page's button or by the system's; answers a function that ends that. */
export function onTheme(call) {
  const observer = new MutationObserver(call);
  const system = matchMedia("(prefers-color-scheme: dark)");
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  system.addEventListener("change", call);
  return () => {
    observer.disconnect();
    system.removeEventListener("change", call);
  };
}
