/** A unified diff. May know: its lines. Decides: how it reads; lines of one kind are one element, so that a long one is cheap. */

import { el } from "./dom.js";

const KIND = { "+": "added", "-": "removed", "@": "place" };

export function difference(text, nothing = "No difference.") {
  if (!text) return el("p", { class: "soft" }, nothing);
  const lines = text.split("\n").filter((line) => !line.startsWith("---") && !line.startsWith("+++"));
  const runs = [];
  for (const line of lines) {
    const kind = KIND[line[0]] ?? "same";
    const last = runs.at(-1);
    if (last && last.kind === kind && kind !== "place") last.lines.push(line);
    else runs.push({ kind, lines: [line] });
  }
  const tag = { added: "ins", removed: "del" };
  return el(
    "pre",
    { class: "code difference", tabindex: "0" },
    runs.map(({ kind, lines: run }) => el(tag[kind] ?? "span", { class: kind }, `${run.join("\n")}\n`)),
  );
}
