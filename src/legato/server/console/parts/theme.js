/** Light and dark. May know: the browser's store. Decides: which of three choices is in force: the system's, light, dark. */

import { show } from "./dom.js";
import { icon } from "./icons.js";

const NAME = "legato.theme";
const NEXT = { system: "light", light: "dark", dark: "system" };
const TOLD = { system: "Colours: as the system has them", light: "Colours: light", dark: "Colours: dark" };

export function themeButton(button) {
  const set = (chosen) => {
    if (chosen === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = chosen;
    try {
      localStorage.setItem(NAME, chosen);
    } catch {
      /* it lasts as long as the page */
    }
    show(button, icon(chosen));
    button.setAttribute("aria-label", TOLD[chosen]);
    button.title = `${TOLD[chosen]} (t)`;
  };
  const now = () => document.documentElement.dataset.theme ?? "system";
  button.addEventListener("click", () => set(NEXT[now()]));
  set(now());
}
