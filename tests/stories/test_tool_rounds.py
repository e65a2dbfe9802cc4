"""The limit of tool rounds: a model that calls tools endlessly is paused."""

from __future__ import annotations

from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Limits, Session, image, tool
from legato.emulator import serve
from legato.models import OpenAIChat
from legato.stores.contract import Store
from legato.testing import ScriptedModel, call, handoff


@tool
def look() -> str:
    """Look again."""
    return "nothing yet"


def start_looker(replies: Any, **limits: Any) -> Session:
    builder = HandoffBuilder("looking", [Agent("looker", model=ScriptedModel(replies), tools=[look])])
    if limits:
        builder.with_limits(Limits(**limits))
    return builder.build().session()


def make_endless_model() -> ScriptedModel:
    return ScriptedModel(lambda seen: call("look"))


async def test_endless_tool_calls_pause() -> None:
    session = HandoffBuilder("looking", [Agent("looker", model=make_endless_model(), tools=[look])]).build().session()
    (request,) = (await session.run("Look")).pending
    assert (request.kind, request.limit, request.agent) == ("limit", "tool_rounds", "looker")
    assert request.prompt.startswith("looker called tools in 50 replies in a row, the limit is 50.")
    assert session.state.run_counters.tool_calls == 50


async def test_approval_allows_as_many_rounds_again() -> None:
    session = start_looker([call("look")] * 5 + ["Found."], tool_rounds=3)
    (request,) = (await session.run("Look")).pending
    await session.approve(request)
    assert (await session.resume()).text == "Found."


async def test_refused_tool_rounds_return_the_turn() -> None:
    session = start_looker([call("look")] * 3 + ["As you say."], tool_rounds=3)
    (request,) = (await session.run("Look")).pending
    await session.reject(request)
    assert (await session.resume()).status == "waiting"
    assert (await session.run("Stop looking")).text == "As you say."


async def test_none_means_any_number_of_rounds() -> None:
    session = start_looker([call("look")] * 60 + ["Found."], tool_rounds=None)
    assert (await session.run("Look")).text == "Found."


async def test_message_begins_new_tool_rounds() -> None:
    session = start_looker([call("look"), call("look"), "One.", call("look"), call("look"), "Two."], tool_rounds=3)
    assert (await session.run("Look")).text == "One."
    assert (await session.run("Look")).text == "Two."


async def test_handoff_begins_new_tool_rounds() -> None:
    first = Agent("first", model=ScriptedModel([call("look"), call("look"), handoff("second")]), tools=[look])
    second = Agent("second", model=ScriptedModel([call("look"), call("look"), "Found."]), tools=[look])
    workflow = HandoffBuilder("looking", [first, second]).with_limits(Limits(tool_rounds=3, turns=20)).build()
    assert (await workflow.run("Look")).text == "Found."


async def test_child_pauses_after_tool_rounds(store: Store) -> None:
    child = Agent("child", model=make_endless_model(), tools=[look])
    tools = [child.as_tool(limits=Limits(tool_rounds=2))]
    boss = Agent("boss", model=ScriptedModel([call("ask_child", task="Look"), "Done."]), tools=tools)
    session = HandoffBuilder("office", [boss]).build().session("s", store=store)
    (request,) = (await session.run("Go")).pending
    assert (request.limit, request.agent) == ("tool_rounds", "child")
    await session.reject(request)
    assert (await session.resume()).text == "Done."


async def test_fork_requests_tool_rounds_again() -> None:
    session = start_looker([call("look")] * 9, tool_rounds=2)
    (request,) = (await session.run("Look")).pending
    await session.approve(request)
    branch = await session.fork()
    (again,) = branch.pending
    assert (again.limit, again.id != request.id) == ("tool_rounds", True)


@pytest.mark.parametrize("subject", ["the parrot", "every parrot, one by one"])
async def test_tool_pictures_end_over_chat_completions(subject: str) -> None:
    @tool
    def take_photo(subject: str) -> Any:
        """Take a photo."""
        return ["Here it is.", image(b"\x89PNG\r\n\x1a\n")]

    with serve() as emulator:
        model = OpenAIChat("gpt-5.1", base_url=f"{emulator.url}/v1", api_key="sk-test")
        session = HandoffBuilder("studio", [Agent("photographer", "Take photos.", model, [take_photo])]).build().session()
        result = await session.run(f"Take a photo of {subject}")
    assert (result.status, session.state.run_counters.tool_calls) == ("waiting", 1)
    assert "take photo" in result.text
