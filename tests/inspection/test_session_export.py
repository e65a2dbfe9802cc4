"""Exports of a session as JSON and Markdown. S4."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from legato.inspection.session_export import export_json, export_markdown
from legato.inspection.terminal_safe_text import escape_unprintable
from legato.stores import MemoryStore
from legato.testing import handoff
from tests.inspection.support_desk import PIN, build_desk, run_edited_refund
from tests.inspection.test_session_browser import build_office


async def test_json_export_has_everything_but_secrets() -> None:
    session = await run_edited_refund()
    text = await export_json(session)
    told = json.loads(text)
    assert [fact["position"] for fact in told["facts"]] == list(range(len(session.facts)))
    assert {fact["frame"] for fact in told["facts"] if fact["fact"] == "model_replied"} == set(told["frames"])
    assert PIN not in text
    assert PIN in await session.to_string(), "the exact form is the session itself"


async def test_messages_cannot_become_markup_of_page() -> None:
    session = build_desk("# not a heading\n</div><script>\x1b[2J").session("s", store=MemoryStore())
    await session.run("Hello\n\n# nor this")
    lines = (await export_markdown(session)).splitlines()
    assert [line for line in lines if line.startswith("#")] == ["# s"]
    assert "> \\# not a heading" in lines
    assert any("&lt;/div>&lt;script>" in line for line in lines)
    assert "\x1b" not in await export_markdown(session)
    assert PIN not in await export_markdown(await run_edited_refund())


SPECIAL_CHARS = "<>[]()!*_`~#+-=|&;:\\/.$ \n\ta1\"'\x1b\u202e"
MARKUP = ("<script>", "<img src=x onerror=y>", "![t](http://e.example/p.png)", "```", "---", "&lt;", "&#60;", "    ", "1. ", "[a]: /b")
MARKUP_TEXTS = st.lists(st.sampled_from((*SPECIAL_CHARS, *MARKUP, "<!--", "http://e.example", "\r\n", "\u2028", "| a |")), max_size=14).map(
    "".join
)
ALLOWED_TOKENS = {
    "heading_open",
    "heading_close",
    "paragraph_open",
    "paragraph_close",
    "blockquote_open",
    "blockquote_close",
    "inline",
    "text",
}
ALLOWED_TOKENS |= {"strong_open", "strong_close", "em_open", "em_close", "softbreak", "hardbreak", "code_inline", "code_block"}


def parse_markdown(page: str) -> Iterator[Token]:
    """Parse a page with HTML, tables and strikethrough."""
    for token in MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(page):
        yield token
        yield from token.children or ()


@settings(max_examples=150)
@given(MARKUP_TEXTS, MARKUP_TEXTS, MARKUP_TEXTS)
@example("<script>alert(1)</script> ![t](http://e.example/p.png) [x](javascript:alert(1))\n# heading", "<b>", "![c](http://e.example) \x1b")
def test_no_text_becomes_markup_of_page(said: str, reason: str, told: str) -> None:
    async def write() -> str:
        id = escape_unprintable(told).replace("\n", "").replace("\t", "") or "s"
        session = build_desk(triage=[handoff("refunds", reason)], refunds=[told or "-"]).session(id, store=MemoryStore())
        await session.run(said or "-")
        await session.cancel(reason or "-")
        return await export_markdown(session)

    text = asyncio.run(write())
    tokens = list(parse_markdown(text))
    assert {token.type for token in tokens} <= ALLOWED_TOKENS
    assert sum(token.type == "heading_open" for token in tokens) == 1, "its own"
    assert [token.level for token in tokens if token.type == "blockquote_open"] == [0, 0]
    assert text.replace("\n", "").replace("\t", "").isprintable()
    shown = "".join(token.content for token in tokens if token.type in ("text", "text_special"))
    if "    " not in said and "\t" not in said:  # such a line is code, whose signs are as they stand
        assert "".join(escape_unprintable(said).split()) in "".join(shown.split())


async def test_exports_contain_the_child_sessions() -> None:
    session = build_office().session("work", store=MemoryStore())
    await session.run("Pay the bill")
    [child] = json.loads(await export_json(session))["children"]
    assert child["session"].startswith("work/")
    assert child["status"] == "pending"
    assert f"# {child['session'][:10]}" in (await export_markdown(session)).replace("\\", "")
