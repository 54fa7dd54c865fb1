// Light, dark, or as the system has it.
import { element, say } from "./state.js";

const THEMES = ["auto", "light", "dark"];

/** Appends the button that goes through the themes. */
export function addThemes(tools) {
  let at = 0;
  const press = () => {
    at = (at + 1) % THEMES.length;
    if (at) document.documentElement.dataset.theme = THEMES[at];
    else delete document.documentElement.dataset.theme;
    button.textContent = `Theme: ${THEMES[at]}`;
    say(`Theme: ${THEMES[at]}`);
  };
  const button = element("button", { onclick: press, title: "Light, dark, or as the system has it" }, "Theme: auto");
  tools.append(button);
}
