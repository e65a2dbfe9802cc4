/** A unified diff. Adjacent lines of one kind are one element, so that long diffs are cheap to show. */

import { el } from "../lib/dom.js";

const LINE_KINDS = { "+": "added", "-": "removed", "@": "hunk" };

export function renderDiff(text, emptyText = "No difference.") {
  if (!text) return el("p", { class: "soft" }, emptyText);
  const lines = text.split("\n").filter((line) => !line.startsWith("---") && !line.startsWith("+++"));
  const runs = [];
  for (const line of lines) {
    const kind = LINE_KINDS[line[0]] ?? "same";
    const last = runs.at(-1);
    if (last && last.kind === kind && kind !== "hunk") last.lines.push(line);
    else runs.push({ kind, lines: [line] });
  }
  const tag = { added: "ins", removed: "del" };
  return el(
    "pre",
    { class: "code diff", tabindex: "0" },
    runs.map(({ kind, lines: run }) => el(tag[kind] ?? "span", { class: kind }, `${run.join("\n")}\n`)),
  );
}
