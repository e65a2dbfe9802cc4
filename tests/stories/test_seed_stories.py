"""The stories of the seeds that need exact numbers or another process (3, 4, 5)."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from legato import Agent, HandoffBuilder, tool
from legato.core.view import ModelRequest
from legato.stores import SQLiteStore
from legato.stores.contract import Store
from legato.testing import ScriptedModel, call
from legato.testing.scripted_users import ScriptedUser
from legato.testing.story import RequestRecorder, World
from tests.stories import approvals, conversation_checks, handoffs
from tests.stories.processes import run_in_process

TURNS = ["My order came broken", "Order 7", "Thanks"]


async def test_three_turns_cost_what_the_transcript_implies(store: Store, stream: bool) -> None:
    requests: list[ModelRequest] = []
    workflow = handoffs.build_three_turns(World())
    assert all(agent.context_providers == () for agent in workflow.definition.agents.values())  # nothing is added to requests
    session = workflow.with_middleware(RequestRecorder(requests)).session("s", store=store)
    await ScriptedUser(TURNS, stream=stream).play(session)
    assert [len(request.messages) for request in requests] == [1, 3, 5, 7, 9, 11]
    assert session.usage.input == sum(
        (sum(len(message.text) for message in request.messages) + len(request.turn_context.instructions)) // 4 + 1 for request in requests
    )


async def test_new_process_continues_three_turns(tmp_path: Path, stream: bool) -> None:
    path = tmp_path / "desk.db"
    async with SQLiteStore(path) as store:
        workflow = handoffs.build_three_turns(World())
        session = workflow.session("s", store=store)
        await ScriptedUser(TURNS[:1], stream=stream).play(session)
        assert session.status == "waiting"
    for count in range(2, 4):
        result = await run_in_process("continue_session", path, "s", *TURNS[:count])
        for request in result["requests"]:
            texts = [text for role, text in request if role == "user"]
            assert texts == TURNS[:count]
        assert result["status"] == "waiting"
    async with SQLiteStore(path) as store:
        session = workflow.session("s", store=store)
        requests = await conversation_checks.rebuild_requests(session)
        assert [len(request.messages) for request in requests] == [1, 3, 5, 7, 9, 11]


async def test_restored_points_have_every_message_once(store: Store, stream: bool) -> None:
    """The same point restored twice, and an older one, have every message once."""
    workflow = handoffs.build_three_turns(World())
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
        await ScriptedUser(turns, stream=stream).play(restored)
        requests = await conversation_checks.rebuild_requests(restored)
        assert [len(request.messages) for request in requests] == sizes
        assert conversation_checks.list_texts(requests[-1])[::2] == turns
    # Loading the string of a session in its own store gives the same session.
    same = workflow.load(newer, store=store)
    await same.refresh()
    assert len(same.facts) == len(session.facts)
    assert [message.text for message in same.messages] == [message.text for message in session.messages]


@pytest.mark.usefixtures("stopped_clock")
async def test_pending_request_has_a_constant_export_size(store: Store) -> None:
    """A pending request adds the same size to an export, however long the conversation is."""
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


async def test_parallel_calls_are_decided_in_another_process(store: Store) -> None:
    """Three parallel calls are exported and decided in another process, in every mixture."""
    jobs = []
    for first, second in product(approvals.EXPECTED_OUTPUTS, repeat=2):
        world = World()
        session = approvals.build_cleanup_desk(world).session(f"{first}-{second}", store=store)
        result = await session.run("Clean up and check")
        assert result.status == "pending"
        assert [deed for _, deed in world.effects] == ["thermal: 72 degrees"]  # the call without approval ran at once
        jobs.append({"verdicts": {"temp": first, "cache": second}, "text": await session.to_string()})
    for job, decided in zip(jobs, await run_in_process("decide_cleanups", stdin=json.dumps(jobs)), strict=True):
        first, second = job["verdicts"].values()
        assert decided["pending"] == [["cleanup", {"target": "temp"}], ["cleanup", {"target": "cache"}]]
        (request,) = decided["requests"]
        assert [role for role, _ in request] == ["user", "assistant", "tool", "tool", "tool"]
        assert [text for role, text in request if role == "tool"] == [
            approvals.EXPECTED_OUTPUTS[first]("temp"),
            "thermal: 72 degrees",
            approvals.EXPECTED_OUTPUTS[second]("cache"),
        ]
        assert "thermal: 72 degrees" not in decided["deeds"]  # it did not run again
        assert len(decided["deeds"]) == (first != "reject") + (second != "reject")
