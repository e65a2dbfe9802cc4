"""What a step costs is a constant, checked exactly: it depends on what is new, and on nothing that was before."""

import pytest

from legato import Agent, HandoffBuilder, Limits, tool
from legato.core.facts import Call, OutputText
from legato.models import Anthropic, ModelReply, OpenAIChat, OpenAIResponses
from legato.runtime.session_cache import SESSION_CACHE
from legato.stores import MemoryStore, SQLiteStore
from tests.scale.work_counters import WorkCounter

UNREACHABLE_PROVIDER = {"api_key": "none", "base_url": "http://127.0.0.1:9"}
HANDOFF_COUNT = 120
"""Handoffs; and sixty turns. Looked at are those in the middle, where positions have three digits: so the bytes are the same, too."""


@pytest.fixture
def work(monkeypatch):
    monkeypatch.setattr("legato.stores.sqlite.store.POLL_INTERVAL_S", 60)  # a slow machine does not look out for others more often
    monkeypatch.setattr(
        "legato.stores.sqlite.store.MAX_CONSECUTIVE_INLINE_OPERATIONS", 1_000_000
    )  # every sixteenth operation lets others run: not in these
    monkeypatch.setattr("legato.runtime.clock.Clock.now_ms", lambda clock: 1_700_000_000_000)  # nor write longer numbers
    monkeypatch.setattr("legato.runtime.clock.Clock.monotonic", lambda clock: 0.0)
    return WorkCounter(monkeypatch)


class CountedModel:
    """Says what a function of the turn tells it to, after it has written the request for a provider."""

    name = "counted"

    def __init__(self, reply, work, sends=None):
        self._reply, self._work, self._sends = reply, work, sends

    async def reply(self, request, emit):
        if self._sends is not None:
            await self._sends.body(request)
        return ModelReply(items=self._reply(request))


def build_ping_pong(work, times, sends=None):
    """Hands over to the other agent, and ends a step each time."""

    def reply(request):
        work.end_step()
        if request.reply_count >= times:
            return (OutputText("done"),)
        return OutputText(f"I pass this on for the {request.reply_count:05} time."), Call(
            f"handoff_to_{'b' if request.agent == 'a' else 'a'}", "{}"
        )

    model = CountedModel(reply, work, sends)
    agents = [Agent("a", "You are a.", model), Agent("b", "You are b.", model)]
    return HandoffBuilder("ping-pong", agents).with_limits(Limits(turns=1_000_000)).build()


def build_chat(work):
    """Calls three tools for each message, then answers."""

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
"""What somebody else wrote is proved to be readable before it is recorded: of a handoff, the reply."""


def test_handoff_in_memory_is_one_append(work):
    work.run(build_ping_pong(work, HANDOFF_COUNT).session("s", store=MemoryStore()).run("go"))
    assert work.get_work_per_step(60, HANDOFF_COUNT - 1) == {**HANDOFF_WORK, **VALIDATION_WORK, "bytes encoded": 253}


def test_handoff_in_file_is_six_statements(work, tmp_path):
    async def play():
        async with SQLiteStore(tmp_path / "s.db") as store:
            await build_ping_pong(work, HANDOFF_COUNT).session("s", store=store).run("go")

    work.run(play())
    in_a_file = {"facts encoded": 3, "bytes encoded": 587, "SQL statements": 6}
    assert work.get_work_per_step(60, HANDOFF_COUNT - 1) == {**HANDOFF_WORK, **VALIDATION_WORK, **in_a_file}


@pytest.mark.parametrize("durability", ["full", "process"])
def test_durability_level_decides_disk_waits(work, tmp_path, durability):
    async def play():
        async with SQLiteStore(tmp_path / "s.db", durability) as store:
            await build_ping_pong(work, HANDOFF_COUNT).session("s", store=store).run("go")

    work.run(play())
    (waits,) = {step["waits for the disk"] for step in work.steps[60 : HANDOFF_COUNT - 1]}
    assert waits == (1 if durability == "full" else 0)


def test_chat_turn_with_tools_is_four_appends(work):
    async def play():
        session = build_chat(work).session("s", store=MemoryStore())
        for number in range(60):
            await session.run(f"Question {number:05}")
            work.end_step()

    work.run(play())
    assert work.get_work_per_step(15, 59) == {
        "looks into the store": 2,  # before the message is said, and once the right to drive is had
        "appends": 4,  # the message; the reply with the tools' starts; their outcomes; the answer
        "facts appended": 9,
        "facts folded": 9,
        "facts encoded": 7,  # six that are proved, and all nine at once, to be measured for the cache of sessions
        "facts decoded": 6,
        "bytes encoded": 2000,
        "plans": 5,
        "turns of the event loop": 6,  # two models, three tools beside each other
    }


def test_chat_turn_in_file_waits_for_disk_once(work, tmp_path):
    async def play():
        async with SQLiteStore(tmp_path / "s.db") as store:
            session = build_chat(work).session("s", store=store)
            for number in range(60):
                await session.run(f"Question {number:05}")
                work.end_step()

    work.run(play())
    (waits,) = {step["waits for the disk"] for step in work.steps[15:59]}
    assert waits == 1
    (appends,) = {step["appends"] for step in work.steps[15:59]}
    assert appends == 4


@pytest.mark.parametrize("wire", [OpenAIResponses, OpenAIChat, Anthropic])
def test_requests_are_encoded_from_new_groups_only(work, wire):
    sends = wire("gpt-5.1" if wire is not Anthropic else "claude-sonnet-5", **UNREACHABLE_PROVIDER)
    work.run(build_ping_pong(work, HANDOFF_COUNT, sends).session("s", store=MemoryStore()).run("go"))
    (compiled,) = {step["groups compiled"] for step in work.steps[60 : HANDOFF_COUNT - 1]}
    assert compiled == 2, "each of the two agents goes through what was said since it was last asked: two replies"


def test_new_handle_folds_only_new_facts(work):
    async def play():
        store, workflow = MemoryStore(), build_chat(work)
        for number in range(60):
            await workflow.session("s", store=store).run(f"Question {number:05}")
            work.end_step()

    work.run(play())
    assert work.get_work_per_step(15, 59)["facts folded"] == 9


def test_work_counter_detects_growing_work(work, monkeypatch):
    monkeypatch.setattr(SESSION_CACHE, "_max_bytes", 0)  # so each handle reads the whole conversation

    async def play():
        store = MemoryStore()
        for number in range(30):
            store = MemoryStore() if number == 20 else store
            await build_chat(work).session("s", store=store).run(f"Question {number:05}")
            work.end_step()

    work.run(play())
    with pytest.raises(AssertionError, match="facts folded"):
        work.get_work_per_step(10, 19)
