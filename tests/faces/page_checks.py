"""Accessibility checks of a page: names and structure for screen readers, contrast, and overflow."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

CONTROL_ROLES = {
    "button", "checkbox", "combobox", "link", "listbox", "menuitem", "option", "radio", "searchbox", "slider", "spinbutton",
    "switch", "tab", "textbox", "treeitem", "DisclosureTriangle",
}  # fmt: skip
IMAGE_ROLES = {"image", "img", "graphics-document"}


def read_accessibility_tree(page: Page) -> list[dict[str, Any]]:
    """Return the accessibility tree, in order: nodes with `role`, `name` and their properties."""
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


def find_missing_semantics(page: Page) -> list[str]:
    """Return what screen readers lack: names, landmarks, headings, the title and the language."""
    nodes = read_accessibility_tree(page)
    wrong = [f"a {node['role']} without a name: {node}" for node in nodes if node["role"] in CONTROL_ROLES and not node["name"]]
    wrong += [f"an image without a name: {node}" for node in nodes if node["role"] in IMAGE_ROLES and not node["name"]]
    roles = [node["role"] for node in nodes]
    if roles.count("main") != 1:
        wrong.append(f"{roles.count('main')} elements are the main landmark")
    levels = [int(node["level"]) for node in nodes if node["role"] == "heading"]
    if levels.count(1) != 1:
        wrong.append(f"{levels.count(1)} headings have level 1: {levels}")
    wrong += [f"a heading of level {after} follows one of {before}" for before, after in pairwise(levels) if after > before + 1]
    if not page.title():
        wrong.append("the page has no title")
    if not page.evaluate("document.documentElement.lang"):
        wrong.append("the page has no language")
    return wrong


def find_low_contrast(page: Page) -> list[str]:
    """Return texts whose contrast is below WCAG AA."""
    return list(page.evaluate(_read_script("contrast.js")))


def find_overflow(page: Page) -> list[str]:
    """Return what does not fit: horizontal scrolling, and controls that are cut off."""
    return list(page.evaluate(_read_script("overflow.js")))


def check_page(page: Page) -> None:
    """Run all checks on the current page."""
    wrong = find_missing_semantics(page) + find_low_contrast(page) + find_overflow(page)
    assert not wrong, "\n".join(wrong)


def _read_script(name: str) -> str:
    return Path(__file__).with_name(name).read_text().rstrip().removesuffix(";")
