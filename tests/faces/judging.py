"""Whether people can use a page: what a screen reader is told, whether words stand out, whether it fits. Each check names what is wrong."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

CONTROLS = {
    "button", "checkbox", "combobox", "link", "listbox", "menuitem", "option", "radio", "searchbox", "slider", "spinbutton",
    "switch", "tab", "textbox", "treeitem", "DisclosureTriangle",
}  # fmt: skip
PICTURES = {"image", "img", "graphics-document"}


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
    wrong += [f"a picture without a name: {node}" for node in nodes if node["role"] in PICTURES and not node["name"]]
    roles = [node["role"] for node in nodes]
    if roles.count("main") != 1:
        wrong.append(f"{roles.count('main')} places are the main one")
    levels = [int(node["level"]) for node in nodes if node["role"] == "heading"]
    if levels.count(1) != 1:
        wrong.append(f"{levels.count(1)} headings are the first of all: {levels}")
    wrong += [f"a heading of level {after} follows one of {before}" for before, after in pairwise(levels) if after > before + 1]
    if not page.title():
        wrong.append("the page has no title")
    if not page.evaluate("document.documentElement.lang"):
        wrong.append("the page does not say its language")
    return wrong


def faint(page: Page) -> list[str]:
    """Words that do not stand out from what is behind them, as WCAG AA measures it."""
    return list(page.evaluate(_script("contrast.js")))


def cut_off(page: Page) -> list[str]:
    """What does not fit: a page that scrolls sideways, a control that is out of reach."""
    return list(page.evaluate(_script("room.js")))


def judge(page: Page) -> None:
    """All of it, of what is shown now."""
    wrong = mute(page) + faint(page) + cut_off(page)
    assert not wrong, "\n".join(wrong)


def _script(name: str) -> str:
    return Path(__file__).with_name(name).read_text().rstrip().removesuffix(";")
