/* The chosen colours, before anything is painted: a page that begins white and turns dark is not calm. The rest is in parts/theme.js. */
"use strict";
try {
  const chosen = localStorage.getItem("legato.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  /* a browser that keeps nothing: the system's colours */
}
