/* Applies the stored theme before the first paint, so that a dark page does not flash white. components/theme_button.js changes it. */
"use strict";
try {
  const chosen = localStorage.getItem("legato.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  /* without storage, the system's colours are used */
}
