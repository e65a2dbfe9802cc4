"""Concurrent requests that continue the same response."""

from __future__ import annotations

import asyncio
from pathlib import Path

from legato.core.facts import MessageReceived
from legato.engines import LocalEngine
from legato.server.openai.parsed_requests import ParsedRequest
from legato.server.openai.turns import find_turn, start_turn
from legato.server.session_registry import SessionRegistry
from legato.stores import SQLiteStore
from tests.server.workflows import make_chat


async def test_concurrent_continuations_fork_except_one(tmp_path: Path) -> None:
    workflow, store = make_chat(["one"]), SQLiteStore(tmp_path / "chat.sqlite")
    serving = SessionRegistry({"chat": workflow}, store, LocalEngine(), "here", True)  # nobody drives: what is said stays as it is
    first = await start_turn(serving, ParsedRequest(model="chat", message=["first"], session_id="c"))
    await workflow.session("c", store=store).resume()
    asks = [ParsedRequest(model="chat", message=[f"number {number}"], previous_response_id=first.response_id()) for number in range(12)]
    turns = await asyncio.gather(*(start_turn(serving, ask) for ask in asks))
    assert sorted(turn.session.id for turn in turns).count("c") == 1
    assert len({turn.session.id for turn in turns}) == 12
    for turn in turns:
        said = [fact.content for fact in await store.read(turn.session.id) if isinstance(fact, MessageReceived)]
        assert said[0] == "first"
        assert len(said) == 2


async def test_concurrent_identical_deliveries_are_recorded_once(tmp_path: Path) -> None:
    workflow, store = make_chat(["one", "two"]), SQLiteStore(tmp_path / "chat.sqlite")
    serving = SessionRegistry({"chat": workflow}, store, LocalEngine(), "here", True)
    first = await start_turn(serving, ParsedRequest(model="chat", message=["first"], session_id="c"))
    await workflow.session("c", store=store).resume()
    await workflow.session("c", store=store).run("somebody else")
    for ask in (
        ParsedRequest(model="chat", message=["second"], previous_response_id=first.response_id(), key="k"),
        ParsedRequest(model="chat", message=["another"], key="k"),
        ParsedRequest(model="chat", message=["a third"], session_id="d", key="k"),
    ):
        names = {turn.response_id() for turn in await asyncio.gather(*(start_turn(serving, ask) for _ in range(12)))}
        assert len(names) == 1
        facts = (await find_turn(serving, names.pop())).session.facts
        assert [fact.content for fact in facts if isinstance(fact, MessageReceived)].count(*ask.message) == 1
