// Horizontal bars with their labels, in the theme's colours.

const SHORT = { start: (name, most) => `${name.slice(0, most - 1)}…`, end: (name, most) => `…${name.slice(1 - most)}` };
const MOST_LETTERS = 17;

/** An SVG by Observable Plot: `marks` over `names` from top to bottom, of which `keep` "start" or "end" is shown where they are long. */
export function drawBars({ label, names, keep, marks, rowHeight, ...options }) {
  const drawn = Plot.plot({
    ariaLabel: label,
    width: 360,
    height: rowHeight * names.length + 10,
    margin: 5,
    marginLeft: 132,
    style: { background: "none", color: "var(--text)", fontSize: "12px", maxWidth: "100%" },
    y: { domain: names, label: null, tickSize: 0, tickFormat: (name) => (name.length > MOST_LETTERS ? SHORT[keep](name, MOST_LETTERS) : name) },
    marks,
    ...options,
    x: { axis: null, ...options.x },
  });
  drawn.setAttribute("role", "img");
  for (const part of drawn.querySelectorAll("[aria-label]")) part.removeAttribute("aria-label"); // Plot names groups, which have no role
  return drawn;
}
