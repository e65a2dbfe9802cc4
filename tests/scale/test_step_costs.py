"""The work of a step is a constant, checked exactly: it depends on the new facts, and on nothing before them."""

import pytest

from legato import Agent, HandoffBuilder, Limits, tool
from legato.core.facts import Call, OutputText
from legato.models import Anthropic, ModelReply, OpenAIChat, OpenAIResponses
from legato.runtime.session_cache import SESSION_CACHE
from legato.stores import MemoryStore, SQLiteStore
from tests.scale.work_counters import WorkCounter

UNREACHABLE_PROVIDER = {"api_key": "none", "base_url": "http://127.0.0.1:9"}
HANDOFF_COUNT = 120
"""The number of handoffs. Steps in the middle are compared: their positions have three digits, so that bytes are equal too."""


@pytest.fixture
def work(monkeypatch):
    monkeypatch.setattr("legato.stores.sqlite.store.POLL_INTERVAL_S", 60)  # so that a slow machine does not poll more often
    monkeypatch.setattr(
        "legato.stores.sqlite.store.MAX_CONSECUTIVE_INLINE_OPERATIONS", 1_000_000
    )  # otherwise every sixteenth operation yields to other tasks
    monkeypatch.setattr("legato.runtime.clock.Clock.now_ms", lambda clock: 1_700_000_000_000)  # so that times have equal lengths
    monkeypatch.setattr("legato.runtime.clock.Clock.monotonic", lambda clock: 0.0)
    return WorkCounter(monkeypatch)


class CountedModel:
    """A model that replies by a function, and first encodes the request for a provider if there is one."""

    name = "counted"

    def __init__(self, reply, work, encoder=None):
        self._reply, self._work, self._sends = reply, work, encoder

    async def reply(self, request, emit):
        if self._sends is not None:
            await self._sends.body(request)
        return ModelReply(items=self._reply(request))


def build_ping_pong(work, times, encoder=None):
    """Build two agents that hand over to one another, with one step per handoff."""

    def reply(request):
        work.end_step()
        if request.reply_count >= times:
            return (OutputText("done"),)
        return OutputText(f"I pass this on for the {request.reply_count:05} time."), Call(
            f"handoff_to_{'b' if request.agent == 'a' else 'a'}", "{}"
        )

    model = CountedModel(reply, work, encoder)
    agents = [Agent("a", "You are a.", model), Agent("b", "You are b.", model)]
    return HandoffBuilder("ping-pong", agents).with_limits(Limits(turns=1_000_000)).build()


def build_chat(work):
    """Build a chat whose model calls three tools for each message, then answers."""

    async def look(key: str) -> str:
        return f"found {key}"

    def reply(request):
        if request.groups[-1].kind == "said":
            return tuple(Call(f"look_{number}", f'{{"key": "{request.reply_count:05}"}}') for number in range(3))
        return (OutputText(f"Answer {request.reply_count:05}."),)

    tools = [tool(name=f"look_{number}")(look) for number in range(3)]
    return HandoffBuilder("chat", [Agent("clerk", "You are a clerk.", CountedModel(reply, work), tools)]).build()


HANDOFF_WORK = {
    "appends": 1,  # one, with the reply and the handoff that follows from it
    "facts appended": 2,
    "facts folded": 2,
    "plans": 2,  # after the reply, and after the handoff
    "turns of the event loop": 2,  # the model's task, and the driver again
}
VALIDATION_WORK = {"facts encoded": 1, "facts decoded": 1}
"""Facts with content from outside are encoded and decoded before they are recorded: of a handoff, the reply."""


def test_handoff_in_memory_is_one_append(work):
    work.run(build_ping_pong(work, HANDOFF_COUNT).session("s", store=MemoryStore()).run("go"))
    assert work.get_work_per_step(60, HANDOFF_COUNT - 1) == {**HANDOFF_WORK, **VALIDATION_WORK, "bytes encoded": 253}


def test_handoff_in_file_is_six_statements(work, tmp_path):
    async def run():
        async with SQLiteStore(tmp_path / "s.db") as store:
            await build_ping_pong(work, HANDOFF_COUNT).session("s", store=store).run("go")

    work.run(run())
    in_a_file = {"facts encoded": 3, "bytes encoded": 587, "SQL statements": 6}
    assert work.get_work_per_step(60, HANDOFF_COUNT - 1) == {**HANDOFF_WORK, **VALIDATION_WORK, **in_a_file}


@pytest.mark.parametrize("durability", ["full", "process"])
def test_durability_level_decides_disk_waits(work, tmp_path, durability):
    async def run():
        async with SQLiteStore(tmp_path / "s.db", durability) as store:
            await build_ping_pong(work, HANDOFF_COUNT).session("s", store=store).run("go")

    work.run(run())
    (waits,) = {step["waits for the disk"] for step in work.steps[60 : HANDOFF_COUNT - 1]}
    assert waits == (1 if durability == "full" else 0)


def test_chat_turn_with_tools_is_four_appends(work):
    async def run():
        session = build_chat(work).session("s", store=MemoryStore())
        for number in range(60):
            await session.run(f"Question {number:05}")
            work.end_step()

    work.run(run())
    assert work.get_work_per_step(15, 59) == {
        "reads of the store": 2,  # before the message is sent, and after the lease is taken
        "appends": 4,  # the message; the reply with the tools' starts; their outcomes; the answer
        "facts appended": 9,
        "facts folded": 9,
        "facts encoded": 7,  # six that are validated, and all nine at once, to measure them for the session cache
        "facts decoded": 6,
        "bytes encoded": 2000,
        "plans": 5,
        "turns of the event loop": 6,  # two model requests, three parallel tools
    }


def test_chat_turn_in_file_waits_for_disk_once(work, tmp_path):
    async def run():
        async with SQLiteStore(tmp_path / "s.db") as store:
            session = build_chat(work).session("s", store=store)
            for number in range(60):
                await session.run(f"Question {number:05}")
                work.end_step()

    work.run(run())
    (waits,) = {step["waits for the disk"] for step in work.steps[15:59]}
    assert waits == 1
    (appends,) = {step["appends"] for step in work.steps[15:59]}
    assert appends == 4


@pytest.mark.parametrize("model_class", [OpenAIResponses, OpenAIChat, Anthropic])
def test_requests_are_encoded_from_new_groups_only(work, model_class):
    encoder = model_class("gpt-5.1" if model_class is not Anthropic else "claude-sonnet-5", **UNREACHABLE_PROVIDER)
    work.run(build_ping_pong(work, HANDOFF_COUNT, encoder).session("s", store=MemoryStore()).run("go"))
    (group_count,) = {step["groups encoded"] for step in work.steps[60 : HANDOFF_COUNT - 1]}
    assert group_count == 2, "each agent's request encodes the groups since its last request: two replies"


def test_new_handle_folds_only_new_facts(work):
    async def run():
        store, workflow = MemoryStore(), build_chat(work)
        for number in range(60):
            await workflow.session("s", store=store).run(f"Question {number:05}")
            work.end_step()

    work.run(run())
    assert work.get_work_per_step(15, 59)["facts folded"] == 9


def test_work_counter_detects_growing_work(work, monkeypatch):
    monkeypatch.setattr(SESSION_CACHE, "_max_bytes", 0)  # so that each handle reads the whole conversation

    async def run():
        store = MemoryStore()
        for number in range(30):
            store = MemoryStore() if number == 20 else store
            await build_chat(work).session("s", store=store).run(f"Question {number:05}")
            work.end_step()

    work.run(run())
    with pytest.raises(AssertionError, match="facts folded"):
        work.get_work_per_step(10, 19)
