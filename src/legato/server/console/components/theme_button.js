/** The button that switches between the system's colours, light and dark, and stores the choice. */

import { setChildren } from "../lib/dom.js";
import { createIcon } from "./icons.js";

const STORAGE_KEY = "legato.theme";
const NEXT_THEME = { system: "light", light: "dark", dark: "system" };
const LABELS = { system: "Colours: same as the system", light: "Colours: light", dark: "Colours: dark" };

export function themeButton(button) {
  const set = (chosen) => {
    if (chosen === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = chosen;
    try {
      localStorage.setItem(STORAGE_KEY, chosen);
    } catch {
      /* without storage, the choice lasts until the page is reloaded */
    }
    setChildren(button, createIcon(chosen));
    button.setAttribute("aria-label", LABELS[chosen]);
    button.title = `${LABELS[chosen]} (t)`;
  };
  const now = () => document.documentElement.dataset.theme ?? "system";
  button.addEventListener("click", () => set(NEXT_THEME[now()]));
  set(now());
}
