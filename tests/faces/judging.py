"""Whether people can use a page: what a screen reader is told, whether words stand out, whether it fits. Each check names what is wrong."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

CONTROLS = {
    "button", "checkbox", "combobox", "link", "listbox", "menuitem", "option", "radio", "searchbox", "slider", "spinbutton",
    "switch", "tab", "textbox", "treeitem", "DisclosureTriangle",
}  # fmt: skip

CONTRAST = """() => {
  const wrong = new Map(), canvas = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
  const rgba = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255]; };
  const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
  const light = ([r, g, b]) => { const [R, G, B] = [r, g, b].map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * R + 0.7152 * G + 0.0722 * B; };
  const behind = (element) => { const layers = []; for (let at = element; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), rgba(getComputedStyle(document.documentElement).colorScheme.includes('dark')
      && matchMedia('(prefers-color-scheme: dark)').matches ? 'black' : 'white')); };
  const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (words.nextNode()) {
    const element = words.currentNode.parentElement, text = words.currentNode.data.trim();
    if (!text || !element.checkVisibility({opacityProperty: true, visibilityProperty: true}) || element.closest('[disabled], [aria-disabled=true]')) continue;
    const box = element.getBoundingClientRect(), style = getComputedStyle(element);
    if (box.width < 2 || box.height < 2 || style.clipPath !== 'none' || /rect\\(/.test(style.clip)) continue;
    const size = parseFloat(style.fontSize), bold = parseInt(style.fontWeight) >= 700, large = size >= 24 || (size >= 18.66 && bold);
    let fade = 1; for (let at = element; at; at = at.parentElement) fade *= parseFloat(getComputedStyle(at).opacity);
    const ground = behind(element), [r, g, b0, alpha] = rgba(element.ownerSVGElement ? style.fill : style.color), fore = over([r, g, b0, alpha * fade], ground);
    const [a, b] = [light(fore), light(ground)].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
    if (ratio < (large ? 3 : 4.5) - 0.01) wrong.set(element.className + text.slice(0, 40), `"${text.slice(0, 40)}" has a contrast of ${ratio.toFixed(2)}`);
  }
  return [...wrong.values()];
}"""

TOO_WIDE = """() => {
  const wrong = [], room = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > room) wrong.push(`the page is ${document.documentElement.scrollWidth} wide, and there is room for ${room}`);
  for (const element of document.querySelectorAll('button, a, input, select, textarea, [role=button], [role=tab]')) {
    if (!element.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    const box = element.getBoundingClientRect(), scrolls = (at) => at && (/auto|scroll/.test(getComputedStyle(at).overflowX) || scrolls(at.parentElement));
    if (box.width > 1 && (box.right > room + 1 || box.left < -1) && !scrolls(element.parentElement))
      wrong.push(`${element.outerHTML.slice(0, 80)} is cut off`);
  }
  return wrong;
}"""


def heard(page: Page) -> list[dict[str, Any]]:
    """What a screen reader is told, in its order: nodes with `role`, `name` and their properties."""
    session = page.context.new_cdp_session(page)
    try:
        nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    finally:
        session.detach()
    return [
        {
            "role": node.get("role", {}).get("value", ""),
            "name": node.get("name", {}).get("value", "").strip(),
            **{each["name"]: each["value"].get("value") for each in node.get("properties", [])},
        }
        for node in nodes
        if not node.get("ignored")
    ]


def mute(page: Page) -> list[str]:
    """What a person who cannot see the page would not know."""
    nodes = heard(page)
    wrong = [f"a {node['role']} without a name: {node}" for node in nodes if node["role"] in CONTROLS and not node["name"]]
    wrong += [f"a picture without a name: {node}" for node in nodes if node["role"] in ("image", "img", "graphics-document") and not node["name"]]
    roles = [node["role"] for node in nodes]
    if roles.count("main") != 1:
        wrong.append(f"{roles.count('main')} places are the main one")
    levels = [int(node["level"]) for node in nodes if node["role"] == "heading"]
    if levels.count(1) != 1:
        wrong.append(f"{levels.count(1)} headings are the first of all: {levels}")
    wrong += [f"a heading of level {after} follows one of {before}" for before, after in zip(levels, levels[1:], strict=False) if after > before + 1]
    if not page.title():
        wrong.append("the page has no title")
    if not page.evaluate("document.documentElement.lang"):
        wrong.append("the page does not say its language")
    return wrong


def faint(page: Page) -> list[str]:
    """Words that do not stand out from what is behind them, as WCAG AA measures it."""
    return list(page.evaluate(CONTRAST))


def cut_off(page: Page) -> list[str]:
    """What does not fit: a page that scrolls sideways, a control that is out of reach."""
    return list(page.evaluate(TOO_WIDE))


def judge(page: Page) -> None:
    """All of it, of what is shown now."""
    wrong = mute(page) + faint(page) + cut_off(page)
    assert not wrong, "\n".join(wrong)
