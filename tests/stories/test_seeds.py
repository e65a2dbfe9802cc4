"""The seeds' own stories, where they need exact numbers or another process (3, 4, 5)."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from legato import Agent, HandoffBuilder, tool
from legato.core.view import Request
from legato.stores import SQLiteStore
from legato.stores.contract import Store
from legato.testing import ScriptedModel, call
from legato.testing.people import Person
from legato.testing.story import Asked, World
from tests.stories import approvals, checking, handoffs
from tests.stories.processes import elsewhere

TURNS = ["My order came broken", "Order 7", "Thanks"]


async def test_three_turns_through_two_agents_the_sum_over_the_run_is_what_the_transcript_implies(store: Store, stream: bool) -> None:
    requests: list[Request] = []
    workflow = handoffs.three_turns(World())
    assert all(agent.providers == () for agent in workflow.definition.agents.values())  # nothing is injected
    session = workflow.observed_by(Asked(requests)).session("s", store=store)
    await Person(TURNS, stream=stream).play(session)
    assert [len(request.messages) for request in requests] == [1, 3, 5, 7, 9, 11]
    assert session.usage.input == sum(
        (sum(len(message.text) for message in request.messages) + len(request.frame.instructions)) // 4 + 1 for request in requests
    )


async def test_saved_while_the_user_is_asked_a_new_process_continues_three_turns(tmp_path: Path, stream: bool) -> None:
    path = tmp_path / "desk.db"
    async with SQLiteStore(path) as store:
        workflow = handoffs.three_turns(World())
        session = workflow.session("s", store=store)
        await Person(TURNS[:1], stream=stream).play(session)
        assert session.status == "waiting"
    for said in range(2, 4):
        told = await elsewhere("go_on", path, "s", *TURNS[:said])
        for request in told["requests"]:
            words = [text for role, text in request if role == "user"]
            assert words == TURNS[:said]
        assert told["status"] == "waiting"
    async with SQLiteStore(path) as store:
        session = workflow.session("s", store=store)
        requests = await checking.requests_of(session)
        assert [len(request.messages) for request in requests] == [1, 3, 5, 7, 9, 11]


async def test_the_same_point_restored_twice_and_an_older_one_restored_every_message_is_there_once(store: Store, stream: bool) -> None:
    workflow = handoffs.three_turns(World())
    session = workflow.session("s", store=store)
    await session.run(TURNS[0])
    older = await session.to_string()
    await session.run(TURNS[1])
    newer = await session.to_string()
    for id, text, turns, sizes in (
        ("twice-1", newer, TURNS, [1, 3, 5, 7, 9, 11]),
        ("twice-2", newer, TURNS, [1, 3, 5, 7, 9, 11]),
        ("older", older, [TURNS[0], "Order 8", "Bye"], [1, 3, 5, 7, 9, 11]),
    ):
        restored = workflow.load(text, id=id, store=store)
        await Person(turns, stream=stream).play(restored)
        requests = await checking.requests_of(restored)
        assert [len(request.messages) for request in requests] == sizes
        assert checking.said(requests[-1])[::2] == turns
    # Loading the string of the very session that is there is that session.
    same = workflow.load(newer, store=store)
    await same.refresh()
    assert len(same.facts) == len(session.facts)
    assert [message.text for message in same.messages] == [message.text for message in session.messages]


@pytest.mark.usefixtures("stopped_clock")
async def test_a_pending_request_costs_the_same_to_save_however_long_the_conversation_is(store: Store) -> None:
    costs = []
    for rounds in (1, 40):
        model = ScriptedModel(lambda seen: call("pay") if seen.messages[-1].text == "pay" else "Word " * 50)

        @tool(needs_approval=True)
        async def pay() -> str:
            return "paid"

        workflow = HandoffBuilder("pay", [Agent("payer", model=model, tools=[pay])]).build()
        session = workflow.session(f"rounds-{rounds}", store=store)
        for _ in range(rounds):
            await session.run("go on")
        before = len(await session.to_string())
        await session.run("pay")
        assert session.status == "pending"
        costs.append(len(await session.to_string()) - before)
    assert abs(costs[1] - costs[0]) < 40  # positions have more digits; nothing else grew


async def test_three_parallel_calls_written_down_and_decided_in_another_process_in_every_mixture(store: Store) -> None:
    given = []
    for first, second in product(approvals.EXPECTED, repeat=2):
        world = World()
        session = approvals.cleanup_desk(world).session(f"{first}-{second}", store=store)
        result = await session.run("Clean up and check")
        assert result.status == "pending"
        assert [deed for _, deed in world.deeds] == ["thermal: 72 degrees"]  # it ran at once
        given.append({"verdicts": {"temp": first, "cache": second}, "text": await session.to_string()})
    for asked, told in zip(given, await elsewhere("cleanup", given=json.dumps(given)), strict=True):
        first, second = asked["verdicts"].values()
        assert told["asked"] == [["cleanup", {"target": "temp"}], ["cleanup", {"target": "cache"}]]
        (request,) = told["requests"]
        assert [role for role, _ in request] == ["user", "assistant", "tool", "tool", "tool"]
        assert [text for role, text in request if role == "tool"] == [
            approvals.EXPECTED[first]("temp"),
            "thermal: 72 degrees",
            approvals.EXPECTED[second]("cache"),
        ]
        assert "thermal: 72 degrees" not in told["deeds"]  # and not again
        assert len(told["deeds"]) == (first != "reject") + (second != "reject")
