"""A session as a file. S4."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from legato.inspection.exporting import document, page
from legato.inspection.plain import harmless
from legato.stores import MemoryStore
from legato.testing import handoff
from tests.inspection.desk import PIN, desk, refunded
from tests.inspection.test_browsing import office


async def test_a_document_has_all_that_is_recorded_but_secrets() -> None:
    session = await refunded()
    text = await document(session)
    told = json.loads(text)
    assert [fact["position"] for fact in told["facts"]] == list(range(len(session.facts)))
    assert {fact["frame"] for fact in told["facts"] if fact["fact"] == "model_replied"} == set(told["frames"])
    assert PIN not in text
    assert PIN in await session.to_string(), "the exact form is the session itself"


async def test_what_was_said_cannot_become_markup_of_the_page() -> None:
    session = desk("# not a heading\n</div><script>\x1b[2J").session("s", store=MemoryStore())
    await session.run("Hello\n\n# nor this")
    lines = (await page(session)).splitlines()
    assert [line for line in lines if line.startswith("#")] == ["# s"]
    assert "> \\# not a heading" in lines
    assert any("&lt;/div>&lt;script>" in line for line in lines)
    assert "\x1b" not in await page(session)
    assert PIN not in await page(await refunded())


SIGNS = "<>[]()!*_`~#+-=|&;:\\/.$ \n\ta1\"'\x1b\u202e"
MARKUP = ("<script>", "<img src=x onerror=y>", "![t](http://e.example/p.png)", "```", "---", "&lt;", "&#60;", "    ", "1. ", "[a]: /b")
HOSTILE = st.lists(st.sampled_from((*SIGNS, *MARKUP, "<!--", "http://e.example", "\r\n", "\u2028", "| a |")), max_size=14).map("".join)
PLAIN = {"heading_open", "heading_close", "paragraph_open", "paragraph_close", "blockquote_open", "blockquote_close", "inline", "text"}
PLAIN |= {"strong_open", "strong_close", "em_open", "em_close", "softbreak", "hardbreak", "code_inline", "code_block"}


def rendered(page: str) -> Iterator[Token]:
    """What a page is to a reader that knows HTML, tables and what is struck out."""
    for token in MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(page):
        yield token
        yield from token.children or ()


@settings(max_examples=150)
@given(HOSTILE, HOSTILE, HOSTILE)
@example("<script>alert(1)</script> ![t](http://e.example/p.png) [x](javascript:alert(1))\n# heading", "<b>", "![c](http://e.example) \x1b")
def test_whatever_is_said_a_page_has_no_markup_of_it(said: str, reason: str, told: str) -> None:
    async def write() -> str:
        id = harmless(told).replace("\n", "").replace("\t", "") or "s"
        session = desk(triage=[handoff("refunds", reason)], refunds=[told or "-"]).session(id, store=MemoryStore())
        await session.run(said or "-")
        await session.cancel(reason or "-")
        return await page(session)

    text = asyncio.run(write())
    tokens = list(rendered(text))
    assert {token.type for token in tokens} <= PLAIN
    assert sum(token.type == "heading_open" for token in tokens) == 1, "its own"
    assert [token.level for token in tokens if token.type == "blockquote_open"] == [0, 0]
    assert text.replace("\n", "").replace("\t", "").isprintable()
    shown = "".join(token.content for token in tokens if token.type in ("text", "text_special"))
    if "    " not in said and "\t" not in said:  # such a line is code, whose signs are as they stand
        assert "".join(harmless(said).split()) in "".join(shown.split())


async def test_exports_contain_child_sessions() -> None:
    session = office().session("work", store=MemoryStore())
    await session.run("Pay the bill")
    [child] = json.loads(await document(session))["children"]
    assert child["session"].startswith("work/")
    assert child["status"] == "pending"
    assert f"# {child['session'][:10]}" in (await page(session)).replace("\\", "")
