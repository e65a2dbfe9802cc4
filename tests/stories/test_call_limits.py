"""Limits on the tool calls of one reply, their arguments and their outputs: the model receives an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Limits, Session, Workflow, image, tool
from legato.core.facts import Call, CallRef, CallReturned, CallStarted, HandedOff, MessageReceived, ModelReplied, Opened
from legato.core.messages import render_content
from legato.core.state import fold
from legato.errors import IllegalFact
from legato.stores import MemoryStore
from legato.stores.contract import Store
from legato.testing import ScriptedModel, call, handoff

TOO_MANY_CALLS_ERROR = "Not run: this reply made 4 tool calls and 2 are allowed. Call again with fewer."
PNG = b"\x89PNG\r\n\x1a\n" + bytes(2000)


class LookupDesk:
    """A clerk with a tool `look`, and the keys that it was called with."""

    def __init__(self, *replies: Any, **options: Any) -> None:
        self.looked_up: list[str] = []
        self.replies = replies
        self.options = options

    def build_workflow(self, **limits: Any) -> Workflow:
        def look(key: str) -> str:
            """Look something up."""
            self.looked_up.append(key)
            return f"found {key}"

        model = ScriptedModel(by_agent={"clerk": self.replies, "boss": ["I am the boss."]})
        agents = [Agent("clerk", model=model, tools=[tool(**self.options)(look)]), Agent("boss", model=model)]
        return HandoffBuilder("desk", agents).with_limits(Limits(turns=20, **limits)).build()


def make_calls(number: int) -> list[Call]:
    return [call("look", key=str(key)) for key in range(number)]


def list_first_outputs(session: Session) -> list[str]:
    """Return the outputs of the calls of the first reply, in call order."""
    reply = next(group for group in session.state.groups if group.calls)
    return [render_content(each.output.content) if each.output else "" for each in reply.calls]


def start_session_returning(value: Callable[[], Any], **limits: Any) -> Session:
    """Return a session whose agent calls a tool once, which returns this value."""

    @tool
    def fetch() -> Any:
        """Fetch it."""
        return value()

    clerk = Agent("clerk", model=ScriptedModel([call("fetch"), "Done."]), tools=[fetch])
    return HandoffBuilder("desk", [clerk]).with_limits(Limits(turns=20, **limits)).build().session("s", store=MemoryStore())


async def test_calls_beyond_limit_are_refused() -> None:
    desk = LookupDesk(make_calls(4), "Done.")
    session = desk.build_workflow(calls_per_reply=2).session()
    assert (await session.run("Look")).text == "Done."
    assert list_first_outputs(session) == ["found 0", "found 1", TOO_MANY_CALLS_ERROR, TOO_MANY_CALLS_ERROR]
    assert desk.looked_up == ["0", "1"]


async def test_as_many_calls_as_allowed_run() -> None:
    desk = LookupDesk(make_calls(2), "Done.")
    await desk.build_workflow(calls_per_reply=2).run("Look")
    assert desk.looked_up == ["0", "1"]


@pytest.mark.parametrize(("limits", "run"), [({}, 128), ({"calls_per_reply": None}, 300)])
async def test_by_default_128_calls_may_run(limits: dict[str, Any], run: int) -> None:
    desk = LookupDesk(make_calls(300), "Done.")
    await desk.build_workflow(**limits).run("Look")
    assert len(desk.looked_up) == run


async def test_too_many_calls_hand_nothing_over() -> None:
    desk = LookupDesk([handoff("boss"), *make_calls(3)], "I tried.")
    session = desk.build_workflow(calls_per_reply=2).session()
    assert (await session.run("Look")).text == "I tried."
    error = "Not handed over: this reply made 4 tool calls and 2 are allowed. Call again with fewer."
    assert list_first_outputs(session) == [error, "found 0", TOO_MANY_CALLS_ERROR, TOO_MANY_CALLS_ERROR]
    assert not any(isinstance(fact, HandedOff) for fact in session.facts)


async def test_handoff_beyond_limit_is_refused() -> None:
    session = LookupDesk([*make_calls(3), handoff("boss")], "I tried.").build_workflow(calls_per_reply=2).session()
    assert (await session.run("Look")).text == "I tried."
    assert list_first_outputs(session)[2:] == [TOO_MANY_CALLS_ERROR, TOO_MANY_CALLS_ERROR]


async def test_calls_of_agents_count_too() -> None:
    child = Agent("child", model=ScriptedModel(["Looked."]))
    batch = [call("ask_child", task="a"), call("ask_child", task="b")]
    boss = Agent("boss", model=ScriptedModel([batch, "Done."]), tools=[child.as_tool()])
    session = HandoffBuilder("office", [boss]).with_limits(Limits(calls_per_reply=1)).build().session()
    assert (await session.run("Go")).text == "Done."
    assert list_first_outputs(session) == ["Looked.", "Not run: this reply made 2 tool calls and 1 are allowed. Call again with fewer."]


@pytest.mark.parametrize("options", [{}, {"needs_approval": True}, {"deferred": True}], ids=["plain", "approval", "deferred"])
async def test_too_large_arguments_are_refused(options: dict[str, Any]) -> None:
    desk = LookupDesk([call("look", key="x" * 2000)], "Done.", **options)
    session = desk.build_workflow(argument_bytes=1000).session()
    assert (await session.run("Look")).text == "Done."
    assert list_first_outputs(session) == [
        "Not run: the arguments are 2,011 bytes; at most 1,000 are allowed. Call again with smaller arguments."
    ]
    assert not desk.looked_up


@pytest.mark.parametrize(("limit", "looked_up"), [(29, []), (30, ["é" * 10])])
async def test_argument_limit_counts_encoded_bytes(limit: int, looked_up: list[str]) -> None:
    desk = LookupDesk([Call("look", f'{{"key":"{"é" * 10}"}}')], "Done.")
    await desk.build_workflow(argument_bytes=limit).run("Look")
    assert desk.looked_up == looked_up


async def test_refusals_stay_when_limits_change(store: Store) -> None:
    desk = LookupDesk(make_calls(4), "Done.", needs_approval=True)
    await desk.build_workflow(calls_per_reply=2).session("s", store=store).run("Look")
    session = await desk.build_workflow(calls_per_reply=None).session("s", store=store).refresh()
    assert list_first_outputs(session) == ["", "", TOO_MANY_CALLS_ERROR, TOO_MANY_CALLS_ERROR]
    for request in session.pending:
        await session.approve(request)
    assert (await session.resume()).text == "Done."
    assert desk.looked_up == ["0", "1"]


async def test_calls_that_were_allowed_stay_so(store: Store) -> None:
    desk = LookupDesk(make_calls(2), "Done.", needs_approval=True)
    await desk.build_workflow().session("s", store=store).run("Look")
    session = await desk.build_workflow(calls_per_reply=1, argument_bytes=1).session("s", store=store).refresh()
    for request in session.pending:
        await session.approve(request)
    await session.resume()
    assert desk.looked_up == ["0", "1"]


async def test_fork_anywhere_refuses_same_calls(store: Store) -> None:
    desk = LookupDesk([*make_calls(3), call("look", key="x" * 2000)], "Done.")
    session = desk.build_workflow(calls_per_reply=3, argument_bytes=1000).session("s", store=store)
    await session.run("Look")
    reply = next(at for at, fact in enumerate(session.facts) if isinstance(fact, ModelReplied))
    for at in range(reply + 1, len(session.facts)):
        original = await desk.build_workflow(calls_per_reply=None, argument_bytes=None).session("s", store=store).refresh()
        branch = await original.fork(at)
        while (await branch.resume()).status == "pending":
            await branch.approve(branch.pending[0])
        assert list_first_outputs(branch)[3] == "Not run: this reply made 4 tool calls and 3 are allowed. Call again with fewer."
    assert "x" * 2000 not in desk.looked_up


@pytest.mark.parametrize(
    ("value", "size"), [(lambda: "x" * 2000, 2000), (lambda: "é" * 1000, 2000), (lambda: ["See.", image(PNG)], 4 + len(PNG))]
)
async def test_too_large_output_is_an_error(value: Callable[[], Any], size: int) -> None:
    session = start_session_returning(value, output_bytes=1000)
    assert (await session.run("Fetch it")).text == "Done."
    (output,) = [fact for fact in session.facts if isinstance(fact, CallReturned)]
    assert (output.status, output.attempt, output.full_output_digest) == ("error", 1, "")
    text = f"'fetch' ran, and what it did stands. Its output was {size:,} bytes; at most 1,000 are passed on. Ask for less."
    assert output.output == text


async def test_too_large_error_is_shortened() -> None:
    def fail() -> None:
        raise ValueError("x" * 2000)

    session = start_session_returning(fail, output_bytes=1000)
    await session.run("Fetch it")
    assert list_first_outputs(session)[0].startswith("'fetch' ran, and what it did stands. Its output was 2,012 bytes")


@pytest.mark.parametrize("limits", [{"output_bytes": 2000}, {"output_bytes": None}])
async def test_output_within_limit_is_passed_on(limits: dict[str, Any]) -> None:
    session = start_session_returning(lambda: "x" * 2000, **limits)
    await session.run("Fetch it")
    assert list_first_outputs(session) == ["x" * 2000]


async def test_default_output_limit_is_10_mib() -> None:
    session = start_session_returning(lambda: "x" * 30_000_000)
    await session.run("Fetch it")
    assert "Its output was 30,000,000 bytes; at most 10,485,760 are passed on." in list_first_outputs(session)[0]


def test_refused_calls_cannot_start() -> None:
    reply = ModelReplied(at=0, agent="a", context_digest="", upto=1, items=(Call("look"), handoff("b"), Call("look")), calls_allowed=2)
    facts = [Opened(at=0, ledger_id="l", workflow="w"), MessageReceived(at=0, content="go"), reply]
    with pytest.raises(IllegalFact, match="beyond a limit"):
        fold([*facts, CallStarted(at=0, call=CallRef(2, 2), attempt=1, epoch=1)])
    done = [CallReturned(at=0, call=CallRef(2, index), status="error", output="no") for index in (0, 2)]
    with pytest.raises(IllegalFact, match="not a handoff that may be taken"):
        fold([*facts, *done, HandedOff(at=0, call=CallRef(2, 1), source="a", target="b")])
