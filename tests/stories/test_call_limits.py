"""Limits on the tool calls of one reply, their arguments and their outputs: what exceeds them is answered to the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Limits, Session, Workflow, image, tool
from legato.core.facts import Call, CallRef, CallReturned, CallStarted, HandedOff, MessageReceived, ModelReplied, Opened
from legato.core.messages import text_of
from legato.core.state import fold
from legato.errors import IllegalFact
from legato.stores import MemoryStore
from legato.stores.contract import Store
from legato.testing import ScriptedModel, call, handoff

TOO_MANY = "Not run: this reply made 4 tool calls and 2 are allowed. Call again with fewer."
PNG = b"\x89PNG\r\n\x1a\n" + bytes(2000)


class Desk:
    """A clerk with a tool `look`, and what that was called with."""

    def __init__(self, *replies: Any, **options: Any) -> None:
        self.looked: list[str] = []
        self.replies = replies
        self.options = options

    def workflow(self, **limits: Any) -> Workflow:
        def look(key: str) -> str:
            """Look something up."""
            self.looked.append(key)
            return f"found {key}"

        model = ScriptedModel(by_agent={"clerk": self.replies, "boss": ["I am the boss."]})
        agents = [Agent("clerk", model=model, tools=[tool(**self.options)(look)]), Agent("boss", model=model)]
        return HandoffBuilder("desk", agents).with_limits(Limits(turns=20, **limits)).build()


def calls(number: int) -> list[Call]:
    return [call("look", key=str(key)) for key in range(number)]


def outputs(session: Session) -> list[str]:
    """What the calls of the first reply were answered with, in call order."""
    reply = next(group for group in session.state.groups if group.calls)
    return [text_of(each.output.content) if each.output else "" for each in reply.calls]


def returning(value: Callable[[], Any], **limits: Any) -> Session:
    """A session whose agent calls a tool once that returns this."""

    @tool
    def fetch() -> Any:
        """Fetch it."""
        return value()

    clerk = Agent("clerk", model=ScriptedModel([call("fetch"), "Done."]), tools=[fetch])
    return HandoffBuilder("desk", [clerk]).with_limits(Limits(turns=20, **limits)).build().session("s", store=MemoryStore())


async def test_calls_beyond_limit_are_refused() -> None:
    desk = Desk(calls(4), "Done.")
    session = desk.workflow(calls_per_reply=2).session()
    assert (await session.run("Look")).text == "Done."
    assert outputs(session) == ["found 0", "found 1", TOO_MANY, TOO_MANY]
    assert desk.looked == ["0", "1"]


async def test_as_many_calls_as_allowed_run() -> None:
    desk = Desk(calls(2), "Done.")
    await desk.workflow(calls_per_reply=2).run("Look")
    assert desk.looked == ["0", "1"]


@pytest.mark.parametrize(("limits", "run"), [({}, 128), ({"calls_per_reply": None}, 300)])
async def test_128_calls_run_unless_told_otherwise(limits: dict[str, Any], run: int) -> None:
    desk = Desk(calls(300), "Done.")
    await desk.workflow(**limits).run("Look")
    assert len(desk.looked) == run


async def test_too_many_calls_hand_nothing_over() -> None:
    desk = Desk([handoff("boss"), *calls(3)], "I tried.")
    session = desk.workflow(calls_per_reply=2).session()
    assert (await session.run("Look")).text == "I tried."
    handed = "Not handed over: this reply made 4 tool calls and 2 are allowed. Call again with fewer."
    assert outputs(session) == [handed, "found 0", TOO_MANY, TOO_MANY]
    assert not any(isinstance(fact, HandedOff) for fact in session.facts)


async def test_handoff_beyond_limit_is_refused() -> None:
    session = Desk([*calls(3), handoff("boss")], "I tried.").workflow(calls_per_reply=2).session()
    assert (await session.run("Look")).text == "I tried."
    assert outputs(session)[2:] == [TOO_MANY, TOO_MANY]


async def test_calls_of_agents_count_too() -> None:
    child = Agent("child", model=ScriptedModel(["Looked."]))
    asked = [call("ask_child", task="a"), call("ask_child", task="b")]
    boss = Agent("boss", model=ScriptedModel([asked, "Done."]), tools=[child.as_tool()])
    session = HandoffBuilder("office", [boss]).with_limits(Limits(calls_per_reply=1)).build().session()
    assert (await session.run("Go")).text == "Done."
    assert outputs(session) == ["Looked.", "Not run: this reply made 2 tool calls and 1 are allowed. Call again with fewer."]


@pytest.mark.parametrize("options", [{}, {"needs_approval": True}, {"deferred": True}], ids=["plain", "approval", "deferred"])
async def test_too_large_arguments_are_refused(options: dict[str, Any]) -> None:
    desk = Desk([call("look", key="x" * 2000)], "Done.", **options)
    session = desk.workflow(argument_bytes=1000).session()
    assert (await session.run("Look")).text == "Done."
    assert outputs(session) == ["Not run: the arguments are 2,011 bytes; at most 1,000 are allowed. Call again with smaller arguments."]
    assert not desk.looked


@pytest.mark.parametrize(("most", "looked"), [(29, []), (30, ["é" * 10])])
async def test_argument_limit_counts_encoded_bytes(most: int, looked: list[str]) -> None:
    desk = Desk([Call("look", f'{{"key":"{"é" * 10}"}}')], "Done.")
    await desk.workflow(argument_bytes=most).run("Look")
    assert desk.looked == looked


async def test_refusals_stay_when_limits_change(store: Store) -> None:
    desk = Desk(calls(4), "Done.", needs_approval=True)
    await desk.workflow(calls_per_reply=2).session("s", store=store).run("Look")
    session = await desk.workflow(calls_per_reply=None).session("s", store=store).refresh()
    assert outputs(session) == ["", "", TOO_MANY, TOO_MANY]
    for request in session.pending:
        await session.approve(request)
    assert (await session.resume()).text == "Done."
    assert desk.looked == ["0", "1"]


async def test_calls_that_were_allowed_stay_so(store: Store) -> None:
    desk = Desk(calls(2), "Done.", needs_approval=True)
    await desk.workflow().session("s", store=store).run("Look")
    session = await desk.workflow(calls_per_reply=1, argument_bytes=1).session("s", store=store).refresh()
    for request in session.pending:
        await session.approve(request)
    await session.resume()
    assert desk.looked == ["0", "1"]


async def test_fork_anywhere_refuses_same_calls(store: Store) -> None:
    desk = Desk([*calls(3), call("look", key="x" * 2000)], "Done.")
    session = desk.workflow(calls_per_reply=3, argument_bytes=1000).session("s", store=store)
    await session.run("Look")
    reply = next(at for at, fact in enumerate(session.facts) if isinstance(fact, ModelReplied))
    for at in range(reply + 1, len(session.facts)):
        original = await desk.workflow(calls_per_reply=None, argument_bytes=None).session("s", store=store).refresh()
        branch = await original.fork(at)
        while (await branch.resume()).status == "pending":
            await branch.approve(branch.pending[0])
        assert outputs(branch)[3] == "Not run: this reply made 4 tool calls and 3 are allowed. Call again with fewer."
    assert "x" * 2000 not in desk.looked


@pytest.mark.parametrize(
    ("value", "size"), [(lambda: "x" * 2000, 2000), (lambda: "é" * 1000, 2000), (lambda: ["See.", image(PNG)], 4 + len(PNG))]
)
async def test_too_large_output_is_an_error(value: Callable[[], Any], size: int) -> None:
    session = returning(value, output_bytes=1000)
    assert (await session.run("Fetch it")).text == "Done."
    (returned,) = [fact for fact in session.facts if isinstance(fact, CallReturned)]
    assert (returned.status, returned.attempt, returned.full) == ("error", 1, "")
    words = f"'fetch' ran, and what it did stands. Its output was {size:,} bytes; at most 1,000 are passed on. Ask for less."
    assert returned.output == words


async def test_too_large_error_is_shortened() -> None:
    def fail() -> None:
        raise ValueError("x" * 2000)

    session = returning(fail, output_bytes=1000)
    await session.run("Fetch it")
    assert outputs(session)[0].startswith("'fetch' ran, and what it did stands. Its output was 2,012 bytes")


@pytest.mark.parametrize("limits", [{"output_bytes": 2000}, {"output_bytes": None}])
async def test_output_within_limit_is_passed_on(limits: dict[str, Any]) -> None:
    session = returning(lambda: "x" * 2000, **limits)
    await session.run("Fetch it")
    assert outputs(session) == ["x" * 2000]


async def test_default_output_limit_is_10_mib() -> None:
    session = returning(lambda: "x" * 30_000_000)
    await session.run("Fetch it")
    assert "Its output was 30,000,000 bytes; at most 10,485,760 are passed on." in outputs(session)[0]


def test_refused_calls_cannot_start() -> None:
    reply = ModelReplied(at=0, agent="a", frame="", upto=1, items=(Call("look"), handoff("b"), Call("look")), calls_allowed=2)
    facts = [Opened(at=0, ledger="l", workflow="w"), MessageReceived(at=0, content="go"), reply]
    with pytest.raises(IllegalFact, match="beyond a limit"):
        fold([*facts, CallStarted(at=0, call=CallRef(2, 2), attempt=1, epoch=1)])
    done = [CallReturned(at=0, call=CallRef(2, index), status="error", output="no") for index in (0, 2)]
    with pytest.raises(IllegalFact, match="not a handoff that may be taken"):
        fold([*facts, *done, HandedOff(at=0, call=CallRef(2, 1), source="a", target="b")])
