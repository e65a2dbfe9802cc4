/** Icons. They are decorative: every control has a text or label besides. */

import { svg } from "../lib/dom.js";

const ICON_PATHS = {
  back: "M10 3 5 8l5 5",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  fork: "M4 2.5v11M4 9c4 0 7-1.5 7-5.5M8.7 5.4 11 3l2.3 2.4",
  copy: "M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z",
  play: "M5 3l8 5-8 5z",
  pause: "M5.5 3v10M10.5 3v10",
  step: "M4 3l6 5-6 5zM12 3v10",
  unstep: "M12 3 6 8l6 5zM4 3v10",
  attach: "M12.5 7.5 7.6 12.4a3 3 0 0 1-4.2-4.2l5.6-5.6a2 2 0 0 1 2.8 2.8L6.3 10.9a1 1 0 0 1-1.4-1.4l4.6-4.6",
  send: "M2.5 8h10M8.5 3.5 13 8l-4.5 4.5",
  stop: "M4 4h8v8H4z",
  again: "M13 8a5 5 0 1 1-1.6-3.7M13 2.5v3h-3",
  light: "M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6M8 1v1.6M8 13.4V15M1 8h1.6M13.4 8H15M3 3l1.2 1.2M12 12l1 1M3 13l1.2-1.2M12 4l1-1",
  dark: "M13.2 9.6A5.8 5.8 0 0 1 6.4 2.8a5.6 5.6 0 1 0 6.8 6.8z",
  system: "M8 2.2v11.6M8 2.2a5.8 5.8 0 0 1 0 11.6M8 2.2a5.8 5.8 0 0 0 0 11.6",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  cross: "M4 4l8 8M12 4l-8 8",
  check: "M3 8.5 6.5 12 13 4.5",
  eye: "M1.5 8S4 3.5 8 3.5 14.5 8 14.5 8 12 12.5 8 12.5 1.5 8 1.5 8zM8 6.2a1.8 1.8 0 1 0 0 3.6 1.8 1.8 0 0 0 0-3.6",
  tool: "M9.6 6.4a3 3 0 0 1 3.9-3.9L11.6 4.4l.4 1.6 1.6.4 1.9-1.9a3 3 0 0 1-3.9 3.9L5.6 14.4a1.4 1.4 0 0 1-2-2z",
};

export function createIcon(name) {
  return svg(
    "svg",
    { viewBox: "0 0 16 16", class: "icon", "aria-hidden": "true", focusable: "false" },
    svg("path", { d: ICON_PATHS[name] }),
  );
}
