"""Workers and engine sessions without a server: sweeps, wakes, refusals and logs."""

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
from legato.core.texts_for_model import REDACTED_TEXT
from legato.engines import Engine, ParkedSession, RetryPolicy, Worker, open_engine, worker
from legato.engines.engine import StepFunction
from legato.engines.retry_policy import NextStep
from legato.engines.session_step import LeaderSession, advance_session
from legato.errors import BadInput, DamagedStore, DefinitionChanged, DrivenElsewhere, EngineUnavailable, ModelFailed, StoreRefused
from legato.runtime.clock import now_ms
from legato.runtime.session import Session
from legato.stores import MemoryStore, PostgresStore, open_store
from legato.stores.contract import LedgerInfo
from legato.testing import ScriptedModel, call
from tests import databases
from tests.databases import convert_dsn_to_url


class InlineEngine(Engine):
    """An engine for one process that runs steps, and records the woken sessions."""

    def __init__(self) -> None:
        self.woken: list[str] = []
        self.steps: list[NextStep] = []
        self.reachable = True
        self.refused: set[str] = set()
        self._more = asyncio.Event()

    async def wake(self, session: str, priority: int = 0) -> None:
        if not self.reachable:
            raise ConnectionError("no answer")
        if session in self.refused:
            raise ValueError("this id is too long")
        self.woken.append(session)
        self._more.set()

    async def list_parked(self, limit: int = 100) -> Sequence[ParkedSession]:
        return []

    async def retry(self, session: str) -> None:
        await self.wake(session)

    async def serve(
        self, run_step: StepFunction, stop: asyncio.Event, on_ready: Callable[[], None], concurrency: int, grace: float
    ) -> None:
        on_ready()
        done = 0
        while not stop.is_set():
            while done < len(self.woken):
                self.steps.append(await run_step(self.woken[done], 0, 0, stop))
                done += 1
            self._more.clear()
            waits = [asyncio.ensure_future(each) for each in (self._more.wait(), stop.wait())]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for each in waits:
                each.cancel()

    async def close(self) -> None:
        """Do nothing."""


def desk(*script: Any, name: str = "desk", **more: Any) -> Workflow:
    return HandoffBuilder(name, [Agent("clerk", model=ScriptedModel(list(script)), **more)]).build()


async def run_worker_until(worker: Worker, until: Callable[[], bool]) -> None:
    """Run a worker until a condition is true."""
    running_task = asyncio.ensure_future(worker.run(signals=False))
    async with asyncio.timeout(60):
        while not until():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.005)
    worker.stop()
    await running_task


async def test_engine_session_run_follows_the_worker() -> None:
    engine, store, workflow = InlineEngine(), MemoryStore(), desk("Hello!", "Bye!")
    worker = Worker(workflow, engine=engine, store=store)
    running_task = asyncio.ensure_future(worker.run(signals=False))
    session = engine.session(workflow, "s", store)
    result = await asyncio.wait_for(session.run("Hi"), 60)
    assert (result.status, result.text, {*engine.woken}) == ("waiting", "Hello!", {"s"})
    events = [event.type async for event in session.run("Bye")]
    assert events[-1] == "status"
    worker.stop()
    await running_task


async def test_input_without_engine_is_found_later(caplog: pytest.LogCaptureFixture) -> None:
    engine, store, workflow = InlineEngine(), MemoryStore(), desk("Hello!")
    engine.reachable = False
    await engine.session(workflow, "s", store).say("Hi")
    assert "the engine was not woken (ConnectionError)" in caplog.text
    engine.reachable = True
    await run_worker_until(Worker(workflow, engine=engine, store=store), lambda: bool(engine.steps))
    assert engine.steps[0] == NextStep("waiting")


async def test_worker_wakes_only_its_own_workflows() -> None:
    engine, store = InlineEngine(), MemoryStore()
    mine, theirs = desk("Hello!", name="mine"), desk("Hello!", name="theirs")
    await theirs.session("b", store=store).say("Hi")
    await mine.session("a", store=store).say("Hi")
    await run_worker_until(Worker(mine, engine=engine, store=store), lambda: bool(engine.steps))
    assert engine.woken == ["a"]


async def test_approval_in_child_session_wakes_root_session() -> None:
    """The approval is in the ledger of an agent as a tool, and its client died before it woke the engine."""

    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    helper = Agent("helper", model=ScriptedModel([call("pay"), "I paid."]), tools=[pay])
    boss = Agent("boss", model=ScriptedModel([call("helper", task="pay"), "It is paid."]), tools=[helper.as_tool("helper", "Helps.")])
    workflow = HandoffBuilder("team", [boss]).build()
    engine, store = InlineEngine(), MemoryStore()
    await engine.session(workflow, "s", store).say("Pay it")
    await run_worker_until(Worker(workflow, engine=engine, store=store), lambda: bool(engine.steps))
    assert engine.steps[-1] == NextStep("pending")
    outer = await workflow.session("s", store=store).refresh()
    await outer.approve(outer.pending[0])  # in the child's ledger, and without waking the engine
    engine.woken, engine.steps = [], []
    await run_worker_until(Worker(workflow, engine=engine, store=store), lambda: bool(engine.steps))
    assert (engine.woken[0], engine.steps[0]) == ("s", NextStep("waiting"))
    assert (await outer.refresh()).messages[-1].text == "It is paid."


def team(name: str = "team") -> tuple[Workflow, Workflow, list[Any]]:
    """Return a workflow with a helper that needs approval, the helper's own workflow, and the contexts in which it paid."""
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
async def test_agent_as_tool_works_for_parent_alone(name: str) -> None:
    """This holds even if the worker serves the tool's workflow too."""
    workflow, helper, paid = team(name)
    engine, store = InlineEngine(), MemoryStore()
    served_worker = {each.name: each for each in (helper, workflow)}.values()  # with equal names, the parent's workflow
    await engine.session(workflow, "s", store).say("Pay it")
    await run_worker_until(Worker(served_worker, engine=engine, store=store), lambda: bool(engine.steps))
    outer = await workflow.session("s", store=store).refresh()
    inner = outer.find_session_of(outer.pending[0]).id
    await outer.approve(outer.pending[0])  # the client dies before it wakes the engine
    engine.woken, engine.steps = [], []
    working = Worker(served_worker, engine=engine, store=store, context=lambda id: {"customer": id})
    await run_worker_until(working, lambda: bool(engine.steps))
    assert (engine.woken, engine.steps) == (["s"], [NextStep("waiting")])
    assert paid == [{"customer": "s"}]
    assert {fact.agent for fact in await store.read(inner) if isinstance(fact, ModelReplied)} == {"helper"}


async def test_orphaned_child_session_is_marked_idle() -> None:
    workflow, _, _ = team()
    engine, store = InlineEngine(), MemoryStore()
    session = workflow.session("s", store=store)
    await session.run("Pay it")
    inner = session.find_session_of(session.pending[0])
    await session.cancel()
    await session.run("Never mind")
    assert await store.list_runnable() == []
    await inner.say("Pay it all the same")
    assert [info.ledger for info in await store.list_runnable()] == [inner.id]
    served_worker = Worker(workflow, engine=engine, store=store)
    await served_worker._sweep_once(math.inf)
    assert engine.woken == []
    assert await store.list_runnable() == []


async def test_parked_session_is_marked_idle() -> None:
    def raises(turn: object) -> str:
        raise ValueError

    engine, store, workflow = InlineEngine(), MemoryStore(), desk("Hello!", context_providers=[raises])
    await workflow.session("s", store=store).say("Hi")
    await run_worker_until(
        Worker(workflow, engine=engine, store=store, retry_policy=RetryPolicy(error_delays=())), lambda: bool(engine.steps)
    )
    assert engine.steps[0].parked
    assert await store.list_runnable() == []


async def test_sweep_leaves_session_with_timer_alone() -> None:
    def raises(turn: object) -> str:
        raise ValueError

    engine, store, workflow = InlineEngine(), MemoryStore(), desk("Hello!", context_providers=[raises])
    await workflow.session("s", store=store).say("Hi")
    served_worker = Worker(workflow, engine=engine, store=store, retry_policy=RetryPolicy(error_delays=(3600,)))
    await run_worker_until(served_worker, lambda: bool(engine.steps))
    assert (engine.steps[0].status, engine.steps[0].wait) == ("broken", 3600)
    engine.woken = []
    await served_worker._sweep_once(math.inf)
    assert engine.woken == []
    await Worker(workflow, engine=engine, store=store)._sweep_once(math.inf)
    assert engine.woken == ["s"], "a new worker knows no timer: that of an engine in its process is gone"


class PartlyDamaged(MemoryStore):
    """A store in which one ledger cannot be read."""

    reads = looks = 0

    async def list_runnable(self, limit: int = 100, after: LedgerInfo | None = None) -> Sequence[LedgerInfo]:
        self.looks += 1
        return await super().list_runnable(limit, after)

    async def read(self, ledger: str, start: int = 0, *, ledger_id: str = "") -> Sequence[Any]:
        self.reads += 1
        if ledger == "damaged":
            raise DamagedStore("a bit has changed", readable=1)
        return await super().read(ledger, start, ledger_id=ledger_id)


async def test_unreadable_ledger_is_parked_once(caplog: pytest.LogCaptureFixture) -> None:
    """It stops no other session, is logged once, and later sweeps ignore it."""
    engine, store, workflow = InlineEngine(), PartlyDamaged(), desk("Hello!")
    for name in ("first", "second"):
        await workflow.session(name, store=store).say("Hi")
    facts = await store.read("first")
    await store.append("damaged", 0, facts)
    await workflow.session("third", store=store).say("Hi")
    served_worker = Worker(workflow, engine=engine, store=store, retry_policy=RetryPolicy(error_delays=()), sweep_interval=0.01)
    await run_worker_until(served_worker, lambda: len(engine.steps) > 3)
    assert {"first", "second", "third", "damaged"} == {*engine.woken}
    assert "DamagedStore" in next(step for step in engine.steps if step.parked).error
    assert caplog.text.count("its ledger cannot be read") == 1
    store.looks, engine.woken = 0, []
    await run_worker_until(Worker(workflow, engine=engine, store=store, sweep_interval=0.01), lambda: store.looks > 5)
    assert engine.woken == [], "later sweeps ignore it"


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_damaged_ledger_is_idle_when_parked(kind: str, tmp_path: Path, database: str) -> None:
    engine, workflow = InlineEngine(), desk("Hello!")
    place = f"{tmp_path}/s.sqlite" if kind == "sqlite" else convert_dsn_to_url(database)
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
    assert [info.ledger for info in await store.list_runnable()] == ["s"]
    await run_worker_until(
        Worker(workflow, engine=engine, store=store, retry_policy=RetryPolicy(error_delays=())), lambda: bool(engine.steps)
    )
    assert engine.steps[0].parked
    assert await store.list_runnable() == []
    await store.close()


async def test_session_refused_by_engine_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    engine, store, workflow = InlineEngine(), MemoryStore(), desk("Hello!")
    engine.refused = {"a"}
    for name in "abcdefghijklmnopqrst":
        await workflow.session(name, store=store).say("Hi")
    await run_worker_until(Worker(workflow, engine=engine, store=store), lambda: len(engine.steps) == 19)
    assert engine.woken == [*"bcdefghijklmnopqrst"]
    assert "could not wake 1 sessions that were not woken by their clients, such as 'a' (ValueError)" in caplog.text


async def test_foreign_ledgers_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "PAGE_SIZE", 3)
    engine, store, mine, theirs = InlineEngine(), PartlyDamaged(), desk("Hello!", name="mine"), desk(name="theirs")
    for number in range(6):
        await theirs.session(f"t{number}", store=store).say("Hi")
    engine.refused = {"a"}
    await mine.session("a", store=store).say("Hi")
    served_worker = Worker(mine, engine=engine, store=store)
    await served_worker._sweep_once(now_ms())
    store.reads = 0
    await served_worker._sweep_once(now_ms())
    assert store.reads == 0
    engine.refused = set()
    await served_worker._sweep_once(now_ms())
    assert engine.woken == ["a"]


async def test_input_with_future_time_is_found_later() -> None:
    """It is found by the second sweep that sees it unchanged, or by the first sweep of a new worker."""
    engine, store, workflow = InlineEngine(), MemoryStore(), desk("Hello!")
    served_worker = Worker(workflow, engine=engine, store=store)
    await workflow.session("s", store=store).say("Hi")
    an_hour_ago = now_ms() - 3_600_000
    await served_worker._sweep_once(an_hour_ago)
    assert engine.woken == [], "its client may be about to wake it"
    await workflow.session("s", store=store).say("Are you there?")
    await served_worker._sweep_once(an_hour_ago)
    assert engine.woken == [], "the session got new input"
    await served_worker._sweep_once(an_hour_ago)
    assert engine.woken == ["s"]
    await store.append("s", 3, [MessageReceived(at=now_ms() + 3_600_000, content="Hello?")])
    engine.woken = []
    await run_worker_until(Worker(workflow, engine=engine, store=store), lambda: engine.steps == [NextStep("waiting")])


async def test_child_session_id_is_never_driven_alone() -> None:
    engine, store, workflow = InlineEngine(), MemoryStore(), desk("Hello!")
    id = f"x/{'0' * 32}:2.0"
    with pytest.raises(BadInput, match="is a child session of 'x'"):
        engine.session(workflow, id, store)
    await workflow.session(id, store=store).say("Hi")
    await Worker(workflow, engine=engine, store=store)._sweep_once(math.inf)
    assert engine.woken == []
    assert (await advance_session({"desk": workflow}, store, id, asyncio.Event())).status == "child_session"
    assert len(await store.read(id)) == 2


def test_queues_of_a_server_share_no_names() -> None:
    one, other = (open_engine(f"temporal://h?queue={queue}") for queue in ("legato", "legato/acme"))
    assert one.workflow_id("acme/42") != other.workflow_id("42")  # type: ignore[attr-defined]
    assert one.workflow_id("acme/42") == "legato/acme/42"  # type: ignore[attr-defined]


async def test_leader_session_raises_driven_elsewhere() -> None:
    store, workflow = MemoryStore(), desk("Hello!")
    await workflow.session("s", store=store).say("Hi")
    await store.lease("s")
    with pytest.raises(DrivenElsewhere, match="another driver drives session 's'"):
        await LeaderSession(workflow, "s", store).resume()


async def test_run_drained_before_start_does_nothing() -> None:
    workflow, store = desk("Hello!"), MemoryStore()
    session = workflow.session("s", store=store)
    await session.say("Hi")
    run = session.resume()
    run.drain()
    assert (await run).status == "running"
    assert (await session.resume()).text == "Hello!"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"workflows": []}, "a worker serves workflows"),
        ({"workflows": [desk(), desk()]}, "two workflows have the same name"),
        ({"workflows": desk(), "concurrency": 0}, "at least one session"),
    ],
)
def test_invalid_worker_arguments_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        Worker(**arguments, engine=InlineEngine(), store=MemoryStore())


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
def test_invalid_engine_url_is_refused(address: str) -> None:
    with pytest.raises(BadInput):
        open_engine(address)


@pytest.mark.parametrize(
    ("missing", "engine", "extra"), [("temporalio", "temporal://h", ".[temporal]"), ("restate", "restate://h", ".[restate]")]
)
def test_missing_engine_package_names_the_extra(missing: str, engine: str, extra: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; from legato.cli.app import run; run()"
    completed = subprocess.run(
        [sys.executable, "-c", code, "worker", "dead", "--engine", engine], capture_output=True, text=True, timeout=60
    )
    assert completed.returncode == 2
    assert extra in completed.stderr


TYPED = ["tests.engines.desk:desk", "--engine", "temporal://h", "--store"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["desk:desk"], "a worker needs --engine"),
        (["desk", "--engine", "temporal://h", "--store", "x.sqlite"], "'desk' does not name a workflow"),
        (["nowhere:desk", "--engine", "temporal://h", "--store", "x.sqlite"], "there is no module 'nowhere'"),
        (["legato:tool", "--engine", "temporal://h", "--store", "x.sqlite"], "legato:tool is a function"),
        (["desk:desk", "--engine", "temporal://h", "--store", "x.sqlite", "--limit", "m fast=1"], "--limit cannot be read"),
        ([*TYPED, "x.sqlite", "--limit", "scriptd at_once=1"], "write 'scripted'"),
        ([*TYPED, "x.sqlite", "--limit", "openai:gpt-5.1 at_once=1"], "expected  'scripted'"),
        ([*TYPED, "memory:"], "needs a store that other processes can open"),
        ([*TYPED, "x.sqlite", "--tenant", "acme"], "add queue=acme"),
        ([*TYPED, "x.sqlite", "--lease-seconds", "20"], "only Postgres has lease_seconds"),
        (["retry"], "the sessions to retry are not named"),
    ],
)
def test_wrong_worker_command_names_the_mistake(words: list[str], text: str) -> None:
    completed = subprocess.run([sys.executable, "-m", "legato.cli", "worker", *words], capture_output=True, text=True, timeout=60)
    assert completed.returncode == 2
    assert text in completed.stderr


async def test_redaction_during_drive_restarts_the_request() -> None:
    thinking, requests = asyncio.Event(), []

    async def reply(seen: Any) -> str:
        requests.append(seen.messages[0].text)
        if len(requests) == 1:
            thinking.set()
            await asyncio.Event().wait()
        return f"you said {requests[-1]}"

    engine, store = InlineEngine(), MemoryStore()
    workflow = HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(reply))]).build()
    session = engine.session(workflow, "s", store)

    async def erase() -> None:
        await thinking.wait()
        await session.redact(1)

    await session.say("I am Ann")
    redacting = asyncio.ensure_future(erase())
    await run_worker_until(Worker(workflow, engine=engine, store=store), lambda: len(engine.steps) >= 2)
    await redacting
    assert requests == ["I am Ann", REDACTED_TEXT]
    assert "Ann" not in str(await store.read("s"))


async def test_redacted_call_is_answered_by_worker() -> None:
    @tool(needs_approval=True)
    async def pay(name: str) -> str:
        """Pay a person."""
        raise AssertionError("the tool must not run")

    engine, store, workflow = InlineEngine(), MemoryStore(), desk(call("pay", name="Ann"), "Never mind.", tools=[pay])
    session = engine.session(workflow, "s", store)
    await session.say("Pay her")
    await run_worker_until(Worker(workflow, engine=engine, store=store), lambda: len(engine.steps) == 1)
    await session.refresh()
    await session.redact(2)
    assert engine.woken[1:] == ["s"]
    engine.woken = ["s"]
    await run_worker_until(Worker(workflow, engine=engine, store=store), lambda: engine.steps[-1].status == "waiting")
    assert (await session.refresh()).messages[-1].text == "Never mind."


async def test_every_input_wakes_the_engine() -> None:
    @tool(needs_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    engine, store, workflow = InlineEngine(), MemoryStore(), desk(call("pay"), "Done.", tools=[pay])
    session = engine.session(workflow, "s", store)
    assert (await session.resume()).status == "new"
    assert engine.woken == [], "an empty session has no work"
    woken: list[str] = []

    async def wakes(arguments: Awaitable[object], name: str) -> None:
        before = len(engine.woken)
        await arguments
        woken.extend([name] * (len(engine.woken) - before))

    await wakes(session.open("Pay"), "open")
    assert (await advance_session({workflow.name: workflow}, store, "s", asyncio.Event())).status == "pending"
    await wakes(session.resume(), "resume")
    await wakes(session.approve(session.pending[0]), "approve")
    await wakes(session.say("And then?"), "say")
    await wakes(session.cancel(), "cancel")
    await wakes(session.redact(1), "redact")
    assert woken == ["open", "resume", "approve", "say", "cancel", "redact"]


async def test_failure_log_has_model_and_no_text(
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
        engine, store = InlineEngine(), MemoryStore()
        workflow = HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(model))]).with_model_attempts(1).build()
        await workflow.session("s", store=store).say("I am Jane Doe")
        await run_worker_until(Worker(workflow, engine=engine, store=store), lambda engine=engine: bool(engine.steps))
        line = model.__code__.co_firstlineno + 1
        assert f"session 's' is failed: scripted, the model of 'clerk': {kind}{when}" in caplog.messages
        place = f"at test_worker.py:{line} in {model.__name__}"
        assert f"session 's': scripted, the model of 'clerk': {kind} {place}" in caplog.messages
        assert "Jane Doe" not in caplog.text
    assert [record.levelname for record in caplog.records if "is failed" in record.message] == ["WARNING"]


async def test_workers_of_tenant_drive_its_sessions_only() -> None:
    engine, store, workflow = InlineEngine(), MemoryStore(), desk("Hello!")
    await workflow.session("s", store=store.tenant("acme")).say("Hi")
    await workflow.session("s", store=store).say("Hi")
    await run_worker_until(Worker(workflow, engine=engine, store=store.tenant("acme")), lambda: bool(engine.steps))
    lengths = [len(await each.read("s")) for each in (store.tenant("acme"), store)]
    assert lengths == [3, 2]


async def test_worker_refused_by_store_does_not_start(postgres_server: databases.DatabaseServer) -> None:
    engine = InlineEngine()
    async with PostgresStore(databases.replace_database(postgres_server.dsn, "nonesuch")) as store:
        with pytest.raises(StoreRefused, match="no such database"):
            await Worker(desk("Hello!"), engine=engine, store=store).run(signals=False)
    assert engine.steps == []


async def test_worker_may_start_before_its_store(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    engine = InlineEngine()
    async with PostgresStore(f"postgresql:///talks?host={tmp_path}") as store:
        await run_worker_until(Worker(desk("Hello!"), engine=engine, store=store), lambda: "could not look" in caplog.text)
    assert "cannot be reached" in caplog.messages[0]


async def test_say_by_workflow_name_runs_guardrails() -> None:
    @guardrail("input")
    def no_secrets(ctx: object, text: str) -> str | None:
        return "not here" if "secret" in text else None

    for guards, expected in (((), ["Hello!", "Hello!"]), ((no_secrets,), ["Hello!", "not here"])):
        engine, store = InlineEngine(), MemoryStore()
        workflow = HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(lambda seen: "Hello!"), guardrails=guards)]).build()
        worker = Worker(workflow, engine=engine, store=store)
        running_task = asyncio.ensure_future(worker.run(signals=False))
        for _ in range(2):
            await engine.say("s", "desk", "Hi", store=store, key="mail-1")  # delivered twice, recorded once
        session = engine.session(workflow, "s", store)
        await session.say("Hi", key="mail-1")  # a client with the code has the same key
        await asyncio.wait_for(wait_until_idle(session), 60)
        await engine.say("s", "desk", "A secret", store=store)
        await asyncio.wait_for(wait_until_idle(session), 60)
        assert [message.text for message in session.messages if message.role == "assistant"] == expected
        assert sum(isinstance(fact, MessageReceived) for fact in session.facts) == 2
        worker.stop()
        await running_task


async def wait_until_idle(session: Session) -> None:
    """Wait until the session is idle."""
    while (await session.refresh()).status not in ("waiting", "pending"):
        await session.store.wait(session.id, session.state.length, 1)


async def test_say_with_wrong_workflow_name_is_refused() -> None:
    engine, store = InlineEngine(), MemoryStore()
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
async def test_credentials_are_in_no_log_or_error(address: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    async with open_engine(address) as engine:
        text = repr(engine)
        with pytest.raises(EngineUnavailable, match="no Restate server answers at http://127") as error_info:
            await engine.list_parked()
    text += str(error_info.value)
    assert "127.0.0.1:9" in repr(open_engine("restate://127.0.0.1:9?reached=http://ops:hunter2@127.0.0.1:9"))
    text += repr(open_engine("restate://127.0.0.1:9?reached=http://ops:hunter2@127.0.0.1:9"))
    for wrong in (
        "restate://ops:hunter2@h:9",
        "nothing://ops:hunter2@h:9",
        "ops:hunter2@h",
        f"{address}&x=1",
        "restate://h?admin=ops:hunter2@h",
    ):
        with pytest.raises(BadInput) as error_info:
            open_engine(wrong)
        text += str(error_info.value)
    assert not {"ops", "hunter2"} & {*re.split(r"\W+", text + caplog.text)}


async def test_credentials_are_sent_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    requests: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        body = b"http://ops:hunter2@elsewhere is no place"
        writer.write(b"HTTP/1.1 400 Bad\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with open_engine(f"restate://127.0.0.1:9?admin=http://ops:hunter2@127.0.0.1:{port}") as engine:
            with pytest.raises(EngineUnavailable, match="400 http://elsewhere is no place"):
                await engine.list_parked()
    assert b"basic " + base64.b64encode(b"ops:hunter2") in requests[0].replace(b"Basic", b"basic")
    assert f"127.0.0.1:{port}/query" in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("seconds", ["nan", "inf", "1e7", "0", "-1"])
def test_impossible_durations_are_refused(seconds: str) -> None:
    with pytest.raises(BadInput, match="lease_seconds is a number of seconds, above 0 and at most a day"):
        PostgresStore("postgresql://127.0.0.1/x", lease_seconds=float(seconds))
    with pytest.raises(BadInput, match="lock_timeout is a number of seconds"):
        PostgresStore("postgresql://127.0.0.1/x", lock_timeout=float(seconds))
    with pytest.raises(BadInput, match="not a number of seconds above 0"):
        open_engine(f"temporal://127.0.0.1?heartbeat={seconds}")
