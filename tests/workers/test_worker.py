"""Workers and the handles of those who use them, without a server: what they refuse, what they look for, what they are told."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import math
import re
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from legato import Agent, HandoffBuilder, ToolContext, Workflow, guardrail, tool
from legato.core.facts import MessageReceived, ModelReplied
from legato.core.messages_to_model import ERASED
from legato.engines import Dead, Engine, Pace, Worker, engine_at, worker
from legato.engines.advance import Led, advance
from legato.engines.contract import Advance
from legato.engines.pace import Step
from legato.errors import BadInput, DamagedStore, DefinitionChanged, DrivenElsewhere, EngineUnavailable, ModelFailed, StoreRefused
from legato.runtime.clock import now_ms
from legato.runtime.session import Session
from legato.stores import MemoryStore, PostgresStore, open_store
from legato.stores.contract import LedgerInfo
from legato.testing import ScriptedModel, call
from tests import databases
from tests.databases import as_url


class Inline(Engine):
    """An engine for one process: it makes the steps it is asked for, and writes down who was woken."""

    def __init__(self) -> None:
        self.woken: list[str] = []
        self.steps: list[Step] = []
        self.reachable = True
        self.refused: set[str] = set()
        self._more = asyncio.Event()

    async def wake(self, session: str, priority: int = 0) -> None:
        if not self.reachable:
            raise ConnectionError("nobody answers")
        if session in self.refused:
            raise ValueError("this id is too long")
        self.woken.append(session)
        self._more.set()

    async def dead(self, limit: int = 100) -> Sequence[Dead]:
        return []

    async def retry(self, session: str) -> None:
        await self.wake(session)

    async def serve(self, advance: Advance, stop: asyncio.Event, ready: Callable[[], None], at_once: int, grace: float) -> None:
        ready()
        done = 0
        while not stop.is_set():
            while done < len(self.woken):
                self.steps.append(await advance(self.woken[done], 0, 0, stop))
                done += 1
            self._more.clear()
            waits = [asyncio.ensure_future(each) for each in (self._more.wait(), stop.wait())]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for each in waits:
                each.cancel()

    async def close(self) -> None:
        """It has nothing."""


def desk(*script: Any, name: str = "desk", **more: Any) -> Workflow:
    return HandoffBuilder(name, [Agent("clerk", model=ScriptedModel(list(script)), **more)]).build()


async def worked(worker: Worker, until: Callable[[], bool]) -> None:
    """Have a worker work until something is so."""
    running = asyncio.ensure_future(worker.run(signals=False))
    async with asyncio.timeout(60):
        while not until():  # noqa: ASYNC110 - it looks at what the worker has done so far
            await asyncio.sleep(0.005)
    worker.stop()
    await running


async def test_a_run_of_a_submitted_session_looks_on_while_a_worker_drives_and_gives_the_result_and_the_events() -> None:
    engine, store, workflow = Inline(), MemoryStore(), desk("Hello!", "Bye!")
    worker = Worker(workflow, engine=engine, store=store)
    running = asyncio.ensure_future(worker.run(signals=False))
    session = engine.session(workflow, "s", store)
    result = await asyncio.wait_for(session.run("Hi"), 60)
    assert (result.status, result.text, {*engine.woken}) == ("waiting", "Hello!", {"s"})
    events = [event.type async for event in session.run("Bye")]
    assert events[-1] == "status"
    worker.stop()
    await running


async def test_what_is_given_while_the_engine_is_away_is_recorded_and_found_later(caplog: pytest.LogCaptureFixture) -> None:
    engine, store, workflow = Inline(), MemoryStore(), desk("Hello!")
    engine.reachable = False
    await engine.session(workflow, "s", store).say("Hi")
    assert "the engine was not told (ConnectionError)" in caplog.text
    engine.reachable = True
    await worked(Worker(workflow, engine=engine, store=store), lambda: bool(engine.steps))
    assert engine.steps[0] == Step("waiting")


async def test_a_worker_looks_after_its_own_workflows_alone() -> None:
    engine, store = Inline(), MemoryStore()
    mine, theirs = desk("Hello!", name="mine"), desk("Hello!", name="theirs")
    await theirs.session("b", store=store).say("Hi")
    await mine.session("a", store=store).say("Hi")
    await worked(Worker(mine, engine=engine, store=store), lambda: bool(engine.steps))
    assert engine.woken == ["a"]


async def test_an_answer_to_an_agent_that_works_as_a_tool_wakes_the_session_it_works_for_although_nobody_lived_to_say_so() -> None:
    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    helper = Agent("helper", model=ScriptedModel([call("pay"), "I paid."]), tools=[pay])
    boss = Agent("boss", model=ScriptedModel([call("helper", task="pay"), "It is paid."]), tools=[helper.as_tool("helper", "Helps.")])
    workflow = HandoffBuilder("team", [boss]).build()
    engine, store = Inline(), MemoryStore()
    await engine.session(workflow, "s", store).say("Pay it")
    await worked(Worker(workflow, engine=engine, store=store), lambda: bool(engine.steps))
    assert engine.steps[-1] == Step("pending")
    outer = await workflow.session("s", store=store).refresh()
    await outer.approve(outer.pending[0])  # in the other ledger, and without waking anybody
    engine.woken, engine.steps = [], []
    await worked(Worker(workflow, engine=engine, store=store), lambda: bool(engine.steps))
    assert (engine.woken[0], engine.steps[0]) == ("s", Step("waiting"))
    assert (await outer.refresh()).messages[-1].text == "It is paid."


def team(name: str = "team") -> tuple[Workflow, Workflow, list[Any]]:
    """A boss and a helper who asks before it pays; the helper's workflow by itself; and in whose contexts it paid."""
    paid: list[Any] = []

    @tool(needs_approval=True)
    async def pay(ctx: ToolContext[Any]) -> str:
        """Pay."""
        paid.append(ctx.context)
        return "paid"

    helper = Agent("helper", model=ScriptedModel([call("pay"), "I paid."]), tools=[pay])
    boss = Agent("boss", model=ScriptedModel([call("ask_helper", task="pay"), "It is paid.", "Yes?"]), tools=[helper.as_tool()])
    return HandoffBuilder(name, [boss]).build(), HandoffBuilder("helper", [helper]).build(), paid


@pytest.mark.parametrize("name", ["team", "helper"])
async def test_what_an_agent_does_as_a_tool_is_done_for_its_caller_alone_although_its_workflow_is_served_too(name: str) -> None:
    workflow, helper, paid = team(name)
    engine, store = Inline(), MemoryStore()
    served = {each.name: each for each in (helper, workflow)}.values()  # one of a name: the caller's
    await engine.session(workflow, "s", store).say("Pay it")
    await worked(Worker(served, engine=engine, store=store), lambda: bool(engine.steps))
    outer = await workflow.session("s", store=store).refresh()
    inner = outer.asking(outer.pending[0]).id
    await outer.approve(outer.pending[0])  # and dies before it wakes anybody
    engine.woken, engine.steps = [], []
    working = Worker(served, engine=engine, store=store, context=lambda id: {"customer": id})
    await worked(working, lambda: bool(engine.steps))
    assert (engine.woken, engine.steps) == (["s"], [Step("waiting")])
    assert paid == [{"customer": "s"}]
    assert {fact.agent for fact in await store.read(inner) if isinstance(fact, ModelReplied)} == {"helper"}


async def test_what_grew_in_a_conversation_that_no_call_waits_for_any_more_wakes_nobody_and_rests() -> None:
    workflow, _, _ = team()
    engine, store = Inline(), MemoryStore()
    session = workflow.session("s", store=store)
    await session.run("Pay it")
    inner = session.asking(session.pending[0])
    await session.cancel()
    await session.run("Never mind")
    assert await store.unrested() == []
    await inner.say("Pay it all the same")
    assert [info.ledger for info in await store.unrested()] == [inner.id]
    served = Worker(workflow, engine=engine, store=store)
    await served._swept(math.inf)
    assert engine.woken == []
    assert await store.unrested() == []


async def test_what_was_set_aside_is_not_looked_for_again_and_again() -> None:
    def raises(turn: object) -> str:
        raise ValueError

    engine, store, workflow = Inline(), MemoryStore(), desk("Hello!", context_providers=[raises])
    await workflow.session("s", store=store).say("Hi")
    await worked(Worker(workflow, engine=engine, store=store, pace=Pace(raised=())), lambda: bool(engine.steps))
    assert engine.steps[0].parked
    assert await store.unrested() == []


async def test_what_raised_and_waits_for_its_timer_is_not_hastened_by_a_look_for_what_nobody_woke() -> None:
    def raises(turn: object) -> str:
        raise ValueError

    engine, store, workflow = Inline(), MemoryStore(), desk("Hello!", context_providers=[raises])
    await workflow.session("s", store=store).say("Hi")
    served = Worker(workflow, engine=engine, store=store, pace=Pace(raised=(3600,)))
    await worked(served, lambda: bool(engine.steps))
    assert (engine.steps[0].how, engine.steps[0].wait) == ("broken", 3600)
    engine.woken = []
    await served._swept(math.inf)
    assert engine.woken == []
    await Worker(workflow, engine=engine, store=store)._swept(math.inf)
    assert engine.woken == ["s"], "a worker that starts knows of no timer: that of an engine within its process is gone"


class PartlyDamaged(MemoryStore):
    """One of its ledgers cannot be read."""

    reads = looks = 0

    async def unrested(self, limit: int = 100, after: LedgerInfo | None = None) -> Sequence[LedgerInfo]:
        self.looks += 1
        return await super().unrested(limit, after)

    async def read(self, ledger: str, start: int = 0, *, born: str = "") -> Sequence[Any]:
        self.reads += 1
        if ledger == "damaged":
            raise DamagedStore("a bit has changed", readable=1)
        return await super().read(ledger, start, born=born)


async def test_a_ledger_that_cannot_be_read_is_set_aside_and_told_once_and_is_in_nobodys_way(caplog: pytest.LogCaptureFixture) -> None:
    engine, store, workflow = Inline(), PartlyDamaged(), desk("Hello!")
    for name in ("first", "second"):
        await workflow.session(name, store=store).say("Hi")
    facts = await store.read("first")
    await store.append("damaged", 0, facts)
    await workflow.session("third", store=store).say("Hi")
    served = Worker(workflow, engine=engine, store=store, pace=Pace(raised=()), sweep=0.01)
    await worked(served, lambda: len(engine.steps) > 3)
    assert {"first", "second", "third", "damaged"} == {*engine.woken}
    assert "DamagedStore" in next(step for step in engine.steps if step.parked).error
    assert caplog.text.count("its ledger cannot be read") == 1
    store.looks, engine.woken = 0, []
    await worked(Worker(workflow, engine=engine, store=store, sweep=0.01), lambda: store.looks > 5)
    assert engine.woken == [], "nobody looks for it any more"


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_ledger_of_which_a_byte_was_changed_rests_when_it_is_set_aside(kind: str, tmp_path: Path, database: str) -> None:
    engine, workflow = Inline(), desk("Hello!")
    place = f"{tmp_path}/s.sqlite" if kind == "sqlite" else as_url(database)
    store = open_store(place)
    await workflow.session("s", store=store).say("Hi")
    if kind == "sqlite":
        await store.close()
        with contextlib.closing(sqlite3.connect(place)) as file, file:
            file.execute("UPDATE facts SET body = CAST(replace(CAST(body AS TEXT), 'Hi', 'Ho') AS BLOB)")
        store = open_store(place)
    else:
        with psycopg.connect(database) as connection:
            connection.execute("UPDATE legato.facts SET body = overlay(body placing '\\x00'::bytea from 12)")
    with pytest.raises(DamagedStore):
        await store.read("s")
    assert [info.ledger for info in await store.unrested()] == ["s"]
    await worked(Worker(workflow, engine=engine, store=store, pace=Pace(raised=())), lambda: bool(engine.steps))
    assert engine.steps[0].parked
    assert await store.unrested() == []
    await store.close()


async def test_a_session_that_the_engine_refuses_is_told_and_is_in_nobodys_way(caplog: pytest.LogCaptureFixture) -> None:
    engine, store, workflow = Inline(), MemoryStore(), desk("Hello!")
    engine.refused = {"a"}
    for name in "abcdefghijklmnopqrst":
        await workflow.session(name, store=store).say("Hi")
    await worked(Worker(workflow, engine=engine, store=store), lambda: len(engine.steps) == 19)
    assert engine.woken == [*"bcdefghijklmnopqrst"]
    assert "could not wake 1 sessions that nobody had woken, such as 'a' (ValueError)" in caplog.text


async def test_any_number_of_ledgers_that_are_not_ours_hide_nothing_and_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "PAGE", 3)
    engine, store, mine, theirs = Inline(), PartlyDamaged(), desk("Hello!", name="mine"), desk(name="theirs")
    for number in range(6):
        await theirs.session(f"t{number}", store=store).say("Hi")
    engine.refused = {"a"}
    await mine.session("a", store=store).say("Hi")
    served = Worker(mine, engine=engine, store=store)
    await served._swept(now_ms())
    store.reads = 0
    await served._swept(now_ms())
    assert store.reads == 0
    engine.refused = set()
    await served._swept(now_ms())
    assert engine.woken == ["a"]


async def test_what_a_machine_said_whose_clock_is_ahead_is_found_at_the_second_look_or_by_a_new_worker() -> None:
    engine, store, workflow = Inline(), MemoryStore(), desk("Hello!")
    served = Worker(workflow, engine=engine, store=store)
    await workflow.session("s", store=store).say("Hi")
    an_hour_ago = now_ms() - 3_600_000
    await served._swept(an_hour_ago)
    assert engine.woken == [], "whoever said it may be about to wake it"
    await workflow.session("s", store=store).say("Are you there?")
    await served._swept(an_hour_ago)
    assert engine.woken == [], "it was given something more"
    await served._swept(an_hour_ago)
    assert engine.woken == ["s"]
    await store.append("s", 3, [MessageReceived(at=now_ms() + 3_600_000, content="Hello?")])
    engine.woken = []
    await worked(Worker(workflow, engine=engine, store=store), lambda: engine.steps == [Step("waiting")])


async def test_an_id_like_those_of_conversations_that_are_held_for_another_is_refused_and_nobody_drives_it_by_itself() -> None:
    engine, store, workflow = Inline(), MemoryStore(), desk("Hello!")
    id = f"x/{'0' * 32}:2.0"
    with pytest.raises(BadInput, match="is held for a call of 'x'"):
        engine.session(workflow, id, store)
    await workflow.session(id, store=store).say("Hi")
    await Worker(workflow, engine=engine, store=store)._swept(math.inf)
    assert engine.woken == []
    assert (await advance({"desk": workflow}, store, id, asyncio.Event())).how == "held"
    assert len(await store.read(id)) == 2


def test_the_queues_of_one_server_share_no_names() -> None:
    one, other = (engine_at(f"temporal://h?queue={queue}") for queue in ("legato", "legato/acme"))
    assert one.workflow_id("acme/42") != other.workflow_id("42")  # type: ignore[attr-defined]
    assert one.workflow_id("acme/42") == "legato/acme/42"  # type: ignore[attr-defined]


async def test_whoever_may_only_lead_is_told_that_another_drives() -> None:
    store, workflow = MemoryStore(), desk("Hello!")
    await workflow.session("s", store=store).say("Hi")
    await store.lease("s")
    with pytest.raises(DrivenElsewhere, match="somebody else drives session 's'"):
        await Led(workflow, "s", store).resume()


async def test_a_run_that_is_left_before_it_begins_starts_nothing() -> None:
    workflow, store = desk("Hello!"), MemoryStore()
    session = workflow.session("s", store=store)
    await session.say("Hi")
    run = session.resume()
    run.leave()
    assert (await run).status == "running"
    assert (await session.resume()).text == "Hello!"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"workflows": []}, "a worker serves workflows"),
        ({"workflows": [desk(), desk()]}, "two workflows have the same name"),
        ({"workflows": desk(), "concurrency": 0}, "at least one session"),
    ],
)
def test_a_worker_that_cannot_work_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        Worker(**given, engine=Inline(), store=MemoryStore())


@pytest.mark.parametrize(
    "address",
    [
        "http://x",
        "temporal://",
        "temporal://h:no",
        "temporal://h?quue=x",
        "temporal://h?heartbeat=soon",
        "restate://u:p@h",
        "restate://h?admin=9070",
    ],
)
def test_an_address_that_is_none_is_refused_with_what_one_looks_like(address: str) -> None:
    with pytest.raises(BadInput):
        engine_at(address)


@pytest.mark.parametrize(
    ("missing", "engine", "extra"), [("temporalio", "temporal://h", ".[temporal]"), ("restate", "restate://h", ".[restate]")]
)
def test_an_engine_whose_package_is_missing_names_the_extra(missing: str, engine: str, extra: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; from legato.cli.app import run; run()"
    ran = subprocess.run([sys.executable, "-c", code, "worker", "dead", "--engine", engine], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 2
    assert extra in ran.stderr


TYPED = ["tests.engines.desk:desk", "--engine", "temporal://h", "--store"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["desk:desk"], "a worker needs --engine"),
        (["desk", "--engine", "temporal://h", "--store", "x.sqlite"], "'desk' names no workflow"),
        (["nowhere:desk", "--engine", "temporal://h", "--store", "x.sqlite"], "there is no module 'nowhere'"),
        (["legato:tool", "--engine", "temporal://h", "--store", "x.sqlite"], "legato:tool is a function"),
        (["desk:desk", "--engine", "temporal://h", "--store", "x.sqlite", "--limit", "m fast=1"], "this is no limit"),
        ([*TYPED, "x.sqlite", "--limit", "scriptd at_once=1"], "write 'scripted'"),
        ([*TYPED, "x.sqlite", "--limit", "openai:gpt-5.1 at_once=1"], "expected  'scripted'"),
        ([*TYPED, "memory:"], "would be the only one to know them"),
        ([*TYPED, "x.sqlite", "--tenant", "acme"], "add queue=acme"),
        ([*TYPED, "x.sqlite", "--lease-seconds", "20"], "only Postgres has lease_seconds"),
        (["retry"], "say which sessions"),
    ],
)
def test_what_was_typed_wrong_is_told(words: list[str], told: str) -> None:
    ran = subprocess.run([sys.executable, "-m", "legato.cli", "worker", *words], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 2
    assert told in ran.stderr


async def test_a_session_is_redacted_while_a_worker_drives_it_and_the_worker_goes_on_without_the_words() -> None:
    thinking, asked = asyncio.Event(), []

    async def reply(seen: Any) -> str:
        asked.append(seen.messages[0].text)
        if len(asked) == 1:
            thinking.set()
            await asyncio.Event().wait()
        return f"you said {asked[-1]}"

    engine, store = Inline(), MemoryStore()
    workflow = HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(reply))]).build()
    session = engine.session(workflow, "s", store)

    async def erase() -> None:
        await thinking.wait()
        await session.redact(1)

    await session.say("I am Ann")
    erasing = asyncio.ensure_future(erase())
    await worked(Worker(workflow, engine=engine, store=store), lambda: len(engine.steps) >= 2)
    await erasing
    assert asked == ["I am Ann", ERASED]
    assert "Ann" not in str(await store.read("s"))


async def test_a_call_whose_arguments_are_erased_is_answered_by_a_worker_that_is_woken() -> None:
    @tool(needs_approval=True)
    async def pay(name: str) -> str:
        """Pay somebody."""
        raise AssertionError("it is not to run")

    engine, store, workflow = Inline(), MemoryStore(), desk(call("pay", name="Ann"), "Never mind.", tools=[pay])
    session = engine.session(workflow, "s", store)
    await session.say("Pay her")
    await worked(Worker(workflow, engine=engine, store=store), lambda: len(engine.steps) == 1)
    await session.refresh()
    await session.redact(2)
    assert engine.woken[1:] == ["s"]
    engine.woken = ["s"]
    await worked(Worker(workflow, engine=engine, store=store), lambda: engine.steps[-1].how == "waiting")
    assert (await session.refresh()).messages[-1].text == "Never mind."


async def test_whatever_a_session_is_given_wakes_its_engine() -> None:
    @tool(needs_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    engine, store, workflow = Inline(), MemoryStore(), desk(call("pay"), "Done.", tools=[pay])
    session = engine.session(workflow, "s", store)
    assert (await session.resume()).status == "new"
    assert engine.woken == [], "there is nobody to be woken yet"
    woken: list[str] = []

    async def wakes(given: Awaitable[object], name: str) -> None:
        before = len(engine.woken)
        await given
        woken.extend([name] * (len(engine.woken) - before))

    await wakes(session.open("Pay"), "open")
    assert (await advance({workflow.name: workflow}, store, "s", asyncio.Event())).how == "pending"
    await wakes(session.resume(), "resume")
    await wakes(session.approve(session.pending[0]), "approve")
    await wakes(session.say("And then?"), "say")
    await wakes(session.cancel(), "cancel")
    await wakes(session.redact(1), "redact")
    assert woken == ["open", "resume", "approve", "say", "cancel", "redact"]


async def test_of_a_session_that_failed_the_log_says_which_model_how_and_where_and_none_of_its_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def overloaded(seen: object) -> str:
        raise ModelFailed("the order of Jane Doe is too much", retryable=True, reason="overloaded", status=529)

    def forbidden(seen: object) -> str:
        raise ModelFailed("the key of Jane Doe", reason="the words of Jane Doe")

    def wrong(seen: object) -> str:
        raise ValueError("Jane Doe")

    caplog.set_level("INFO", "legato")
    for model, (kind, when) in {
        overloaded: ("ModelFailed (overloaded, HTTP:529)", "; again in 15 s"),
        forbidden: ("ModelFailed", ""),
        wrong: ("ValueError", ""),
    }.items():
        caplog.clear()
        engine, store = Inline(), MemoryStore()
        workflow = HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(model))]).with_model_attempts(1).build()
        await workflow.session("s", store=store).say("I am Jane Doe")
        await worked(Worker(workflow, engine=engine, store=store), lambda engine=engine: bool(engine.steps))
        line = model.__code__.co_firstlineno + 1
        assert f"session 's' is failed: scripted, the model of 'clerk': {kind}{when}" in caplog.messages
        place = f"at test_worker.py:{line} in {model.__name__}"
        assert f"session 's': scripted, the model of 'clerk': {kind} {place}" in caplog.messages
        assert "Jane Doe" not in caplog.text
    assert [record.levelname for record in caplog.records if "is failed" in record.message] == ["WARNING"]


async def test_the_workers_of_a_tenant_drive_its_sessions_and_no_others() -> None:
    engine, store, workflow = Inline(), MemoryStore(), desk("Hello!")
    await workflow.session("s", store=store.tenant("acme")).say("Hi")
    await workflow.session("s", store=store).say("Hi")
    await worked(Worker(workflow, engine=engine, store=store.tenant("acme")), lambda: bool(engine.steps))
    lengths = [len(await each.read("s")) for each in (store.tenant("acme"), store)]
    assert lengths == [3, 2]


async def test_a_worker_whose_store_does_not_let_it_in_says_so_and_does_not_begin(postgres_server: databases.Server) -> None:
    engine = Inline()
    async with PostgresStore(databases.on(postgres_server.dsn, "nonesuch")) as store:
        with pytest.raises(StoreRefused, match="no such database"):
            await Worker(desk("Hello!"), engine=engine, store=store).run(signals=False)
    assert engine.steps == []


async def test_a_worker_may_be_started_before_its_store(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    engine = Inline()
    async with PostgresStore(f"postgresql:///talks?host={tmp_path}") as store:
        await worked(Worker(desk("Hello!"), engine=engine, store=store), lambda: "could not look" in caplog.text)
    assert "cannot be reached" in caplog.messages[0]


async def test_who_knows_only_the_name_of_a_workflow_may_say_something_and_guardrails_look_at_it_all_the_same() -> None:
    @guardrail("input")
    def no_secrets(ctx: object, text: str) -> str | None:
        return "not here" if "secret" in text else None

    for guards, expected in (((), ["Hello!", "Hello!"]), ((no_secrets,), ["Hello!", "not here"])):
        engine, store = Inline(), MemoryStore()
        workflow = HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(lambda seen: "Hello!"), guardrails=guards)]).build()
        worker = Worker(workflow, engine=engine, store=store)
        running = asyncio.ensure_future(worker.run(signals=False))
        for _ in range(2):
            await engine.say("s", "desk", "Hi", store=store, key="mail-1")  # delivered twice, recorded once
        session = engine.session(workflow, "s", store)
        await session.say("Hi", key="mail-1")  # and by whoever has the code, the same
        await asyncio.wait_for(rested(session), 60)
        await engine.say("s", "desk", "A secret", store=store)
        await asyncio.wait_for(rested(session), 60)
        assert [message.text for message in session.messages if message.role == "assistant"] == expected
        assert sum(isinstance(fact, MessageReceived) for fact in session.facts) == 2
        worker.stop()
        await running


async def rested(session: Session) -> None:
    """Wait until whoever drives it has brought it to rest."""
    while (await session.refresh()).status not in ("waiting", "pending"):
        await session.store.wait(session.id, session.state.length, 1)


async def test_a_name_that_is_not_the_sessions_is_refused_and_nothing_is_recorded() -> None:
    engine, store = Inline(), MemoryStore()
    await engine.say("s", "desk", "Hi", store=store)
    with pytest.raises(DefinitionChanged, match="'desk'"):
        await engine.say("s", "billing", "Hi", store=store)
    with pytest.raises(BadInput, match="the name of a workflow"):
        await engine.say("t", "", "Hi", store=store)
    assert (len(await store.read("s")), engine.woken) == (2, ["s"])


SECRETS = (
    "restate://127.0.0.1:9?admin=http://ops:hunter2@127.0.0.1:9",
    "restate://127.0.0.1:9?admin=http%3A%2F%2Fops:hunter2%40127.0.0.1:9",
)


@pytest.mark.parametrize("address", SECRETS)
async def test_who_comes_with_which_password_is_in_no_log_and_no_error_of_an_engine(address: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    async with engine_at(address) as engine:
        told = repr(engine)
        with pytest.raises(EngineUnavailable, match="no Restate server answers at http://127") as away:
            await engine.dead()
    told += str(away.value)
    assert "127.0.0.1:9" in repr(engine_at("restate://127.0.0.1:9?reached=http://ops:hunter2@127.0.0.1:9"))
    told += repr(engine_at("restate://127.0.0.1:9?reached=http://ops:hunter2@127.0.0.1:9"))
    for wrong in (
        "restate://ops:hunter2@h:9",
        "nothing://ops:hunter2@h:9",
        "ops:hunter2@h",
        f"{address}&x=1",
        "restate://h?admin=ops:hunter2@h",
    ):
        with pytest.raises(BadInput) as refused:
            engine_at(wrong)
        told += str(refused.value)
    assert not {"ops", "hunter2"} & {*re.split(r"\W+", told + caplog.text)}


async def test_a_server_that_wants_a_name_and_a_password_is_given_them_and_the_log_is_not(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        body = b"http://ops:hunter2@elsewhere is no place"
        writer.write(b"HTTP/1.1 400 Bad\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with engine_at(f"restate://127.0.0.1:9?admin=http://ops:hunter2@127.0.0.1:{port}") as engine:
            with pytest.raises(EngineUnavailable, match="400 http://elsewhere is no place"):
                await engine.dead()
    assert b"basic " + base64.b64encode(b"ops:hunter2") in asked[0].replace(b"Basic", b"basic")
    assert f"127.0.0.1:{port}/query" in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("seconds", ["nan", "inf", "1e7", "0", "-1"])
def test_seconds_that_nobody_can_wait_for_are_refused(seconds: str) -> None:
    with pytest.raises(BadInput, match="lease_seconds is a number of seconds, above 0 and at most a day"):
        PostgresStore("postgresql://127.0.0.1/x", lease_seconds=float(seconds))
    with pytest.raises(BadInput, match="lock_timeout is a number of seconds"):
        PostgresStore("postgresql://127.0.0.1/x", lock_timeout=float(seconds))
    with pytest.raises(BadInput, match="not a number of seconds above 0"):
        engine_at(f"temporal://127.0.0.1?heartbeat={seconds}")
