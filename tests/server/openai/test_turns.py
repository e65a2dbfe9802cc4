"""Where a request goes on, decided in one event loop by many at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

from legato.core.facts import MessageReceived
from legato.engines import LocalEngine
from legato.server.openai.asked import Ask
from legato.server.openai.turns import begun, turn_named
from legato.server.serving import Serving
from legato.stores import SQLiteStore
from tests.server.rooms import chatting


async def test_of_many_that_go_on_after_the_same_response_at_once_one_does_and_the_others_branch(tmp_path: Path) -> None:
    workflow, store = chatting(["one"]), SQLiteStore(tmp_path / "chat.sqlite")
    serving = Serving({"chat": workflow}, store, LocalEngine(), "here", True)  # nobody drives: what is said stays as it is
    first = await begun(serving, Ask(model="chat", message=["first"], session="c"))
    await workflow.session("c", store=store).resume()
    asks = [Ask(model="chat", message=[f"number {number}"], previous=first.name()) for number in range(12)]
    turns = await asyncio.gather(*(begun(serving, ask) for ask in asks))
    assert sorted(turn.session.id for turn in turns).count("c") == 1
    assert len({turn.session.id for turn in turns}) == 12
    for turn in turns:
        said = [fact.content for fact in await store.read(turn.session.id) if isinstance(fact, MessageReceived)]
        assert said[0] == "first"
        assert len(said) == 2


async def test_a_delivery_that_is_raced_with_itself_is_made_once(tmp_path: Path) -> None:
    workflow, store = chatting(["one", "two"]), SQLiteStore(tmp_path / "chat.sqlite")
    serving = Serving({"chat": workflow}, store, LocalEngine(), "here", True)
    first = await begun(serving, Ask(model="chat", message=["first"], session="c"))
    await workflow.session("c", store=store).resume()
    await workflow.session("c", store=store).run("somebody else")
    for ask in (
        Ask(model="chat", message=["second"], previous=first.name(), key="k"),
        Ask(model="chat", message=["another"], key="k"),
        Ask(model="chat", message=["a third"], session="d", key="k"),
    ):
        names = {turn.name() for turn in await asyncio.gather(*(begun(serving, ask) for _ in range(12)))}
        assert len(names) == 1
        facts = (await turn_named(serving, names.pop())).session.facts
        assert [fact.content for fact in facts if isinstance(fact, MessageReceived)].count(*ask.message) == 1
