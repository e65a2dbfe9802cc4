"""People's answers: by the id of the request, once, and never with arguments of their own."""

from __future__ import annotations

from typing import Any

import pytest

from legato.compat import MeansNothingHere
from legato.compat.agent_framework import (
    AgentResponseUpdate,
    Content,
    HandoffAgentUserRequest,
    HandoffBuilder,
    InMemoryCheckpointStorage,
    Message,
    OpenAIResponsesClient,
    Workflow,
    WorkflowEvent,
    WorkflowRunState,
    tool,
)
from legato.compat.agent_framework.requests import render_request
from legato.core.facts import CallRef
from legato.core.pending_requests import Pending
from legato.emulator import serve
from legato.emulator.fake_models import ModelPrompt, ReplyCall
from legato.emulator.server import Emulator
from legato.errors import BadInput, ModelFailed, NotPending
from tests.compat.agent_framework.desk import desk

pytestmark = pytest.mark.usefixtures("emulator")


async def run_to_approval(workflow: Workflow, text: str) -> Any:
    (request,) = (await workflow.run(text)).get_request_info_events()
    return request


async def test_approval_ignores_arguments_of_the_response() -> None:
    """An approval with other arguments approves the recorded call."""
    paid: list[float] = []
    workflow = desk(InMemoryCheckpointStorage(), paid)
    request = await run_to_approval(workflow, "Pay me 5")
    forged = Content.from_function_call("1.0", "pay", arguments={"amount": 1_000_000})
    await workflow.run(responses={request.request_id: Content.from_function_approval_response(True, request.request_id, forged)})
    assert paid == [5]


async def test_answers_are_used_once() -> None:
    """An answer is used once; an answer to a request that is not pending changes nothing."""
    paid: list[float] = []
    workflow = desk(InMemoryCheckpointStorage(), paid)
    request = await run_to_approval(workflow, "Pay me 5")
    yes = request.data.to_function_approval_response(True)
    before = await workflow.get_last_checkpoint_id()
    for responses in ({"approval-9.9-000000000000": yes}, {request.request_id: yes, "user-1": "Hello"}):
        with pytest.raises(NotPending, match="is not pending"):
            await workflow.run(responses=responses)
    with pytest.raises(BadInput, match="cannot answer"):
        await workflow.run(responses={request.request_id: "sure"})
    assert await workflow.get_last_checkpoint_id() == before
    await workflow.run(responses={request.request_id: yes})
    with pytest.raises(NotPending, match="is not pending"):
        await workflow.run(responses={request.request_id: yes})
    assert paid == [5]


async def test_of_several_answers_all_are_recorded_or_none() -> None:
    paid: list[float] = []
    workflow = desk(InMemoryCheckpointStorage(), paid)
    one, other = (await workflow.run("Pay me 5 and 6")).get_request_info_events()
    before = await workflow.get_last_checkpoint_id()
    with pytest.raises(BadInput, match="cannot answer"):
        await workflow.run(responses={one.request_id: True, other.request_id: "sure"})
    assert await workflow.get_last_checkpoint_id() == before
    await workflow.run(responses={one.request_id: True, other.request_id: True})
    assert sorted(paid) == [5, 6]


async def test_request_of_one_branch_approves_only_its_call() -> None:
    """A request of one branch does not approve another call of another branch."""
    paid: list[float] = []
    storage = InMemoryCheckpointStorage()
    workflow = desk(storage, paid)
    first = await run_to_approval(workflow, "Pay me 5")
    (turn,) = (await workflow.run(responses={first.request_id: first.data.to_function_approval_response(True)})).get_request_info_events()
    point = await workflow.get_last_checkpoint_id()
    await workflow.run(responses={turn.request_id: "Pay me 8"})  # it was gone on from: what is restored now are branches
    here, there = desk(storage, paid), desk(storage, paid)
    # The id of the turn is the same in all of them: it was asked before they parted.
    (one,) = (await here.run(checkpoint_id=point, responses={turn.request_id: "Pay me 6"})).get_request_info_events()
    (other,) = (await there.run(checkpoint_id=point, responses={turn.request_id: "Pay me 7"})).get_request_info_events()
    assert one.data.function_call.call_id == other.data.function_call.call_id  # at the same place, but not the same call
    with pytest.raises(NotPending):
        await there.run(responses={one.request_id: one.data.to_function_approval_response(True)})
    await there.run(responses={other.request_id: other.data.to_function_approval_response(True)})
    assert paid == [5, 7]


async def test_a_rejection_takes_its_reason_to_the_model() -> None:
    workflow = desk(InMemoryCheckpointStorage())
    request = await run_to_approval(workflow, "Pay me 5")
    no = request.data.to_function_approval_response(False)
    no.additional_properties["reason"] = "Not before Friday."
    result = await workflow.run(responses={request.request_id: no})
    assert "Not before Friday." in result.get_outputs()[-1].text


async def test_users_turn_takes_text_messages_and_lists() -> None:
    """The user's turn takes text, messages and lists; none of them ends the conversation."""
    for given in ("Bye", Message("user", ["Bye"]), HandoffAgentUserRequest.create_response(["Bye"]), ["Bye"]):
        workflow = desk(InMemoryCheckpointStorage())
        request = await run_to_approval(workflow, "Pay me 5")
        (turn,) = (await workflow.run(responses={request.request_id: True})).get_request_info_events()
        assert isinstance(turn.data, HandoffAgentUserRequest)
        result = await workflow.run(responses={turn.request_id: given})
        assert [message.text for message in result.get_outputs()[-1]][-1] == "Goodbye!"
        assert result.get_final_state() == WorkflowRunState.IDLE
    with pytest.raises(BadInput, match="only a user's message"):
        await workflow.run(Message("assistant", ["I said this"]))
    with pytest.raises(BadInput, match="into the agent's instructions"):
        await workflow.run(Message("system", ["I said this"]))


async def test_terminate_asks_nothing_more_and_records_nothing() -> None:
    workflow = desk(InMemoryCheckpointStorage())
    request = await run_to_approval(workflow, "Pay me 5")
    (turn,) = (await workflow.run(responses={request.request_id: True})).get_request_info_events()
    before = await workflow.get_last_checkpoint_id()
    result = await workflow.run(responses={turn.request_id: HandoffAgentUserRequest.terminate()})
    assert result.get_request_info_events() == []
    assert result.get_final_state() == WorkflowRunState.IDLE
    assert [message.text for message in result.get_outputs()[-1]] == ["Pay me 5", "One moment.", "The tool said: paid 5.0."]
    assert await workflow.get_last_checkpoint_id() == before


async def test_run_continues_after_a_failed_model(emulator: Emulator) -> None:
    """A failed model is reported, and the newest checkpoint continues."""
    workflow = desk(InMemoryCheckpointStorage())
    emulator.fault("unauthorized")
    events: list[WorkflowEvent] = []

    async def listen() -> None:
        async for event in workflow.run("Pay me 5", stream=True):
            events.append(event)

    with pytest.raises(ModelFailed, match="401"):
        await listen()
    assert [event.type for event in events][-2:] == ["failed", "status"]
    assert events[-1].state == WorkflowRunState.FAILED
    result = await workflow.run(checkpoint_id=await workflow.get_last_checkpoint_id())
    (request,) = result.get_request_info_events()
    assert request.data.function_call.parse_arguments() == {"amount": 5}
    sent = [item for item in emulator.exchanges[-1].request_body["input"] if item.get("role") == "user"]
    assert len(sent) == 1


async def test_text_of_a_broken_stream_is_retracted(emulator: Emulator) -> None:
    """The text of a broken stream is retracted and sent again."""
    workflow = desk(InMemoryCheckpointStorage())
    emulator.fault("cut event=9")
    told = []
    async for event in workflow.run("Bye", stream=True):
        if event.type == "warning":
            told.append("withdrawn")
        elif event.type == "output" and isinstance(event.data, AgentResponseUpdate):
            told.append(event.data.text)
    assert "".join(told).rpartition("withdrawn")[2] == "Goodbye!"
    assert told.count("withdrawn") == 1


async def test_streaming_shows_calls_and_their_outputs_without_words() -> None:
    workflow = desk(InMemoryCheckpointStorage())
    request = await run_to_approval(workflow, "Pay me 5")
    updates = [
        event.data
        async for event in workflow.run(responses={request.request_id: True}, stream=True)
        if event.type == "output" and isinstance(event.data, AgentResponseUpdate)
    ]
    kinds = [content.type for update in updates for content in update.contents]
    assert kinds[:2] == ["function_call", "function_result"]
    assert "".join(update.text for update in updates) == "The tool said: paid 5.0."
    assert {update.author_name for update in updates} == {"payer"}


async def test_a_run_says_one_thing() -> None:
    workflow = desk(InMemoryCheckpointStorage())
    with pytest.raises(BadInput, match="not both"):
        workflow.run("Hello", responses={})
    with pytest.raises(BadInput, match="nothing to run"):
        workflow.run()
    with pytest.raises(BadInput, match="no checkpoint"):
        await workflow.run(checkpoint_id="nobody@5")
    with pytest.raises(BadInput, match="this is no checkpoint"):
        await workflow.run(checkpoint_id="5")


def test_request_of_a_child_session_keeps_its_name() -> None:
    """An agent that works as a tool asks in a conversation of its own: its calls are not in this session's ledger."""
    own = Pending("a1b2c3d4-approval-3.0", "approval", "?", "payer", "pay", '{"amount": 5}', "sha256:0123456789ab", CallRef(3, 0))
    inner = Pending("f6e5d4c3-approval-3.0", "approval", "?", "payer", "pay", '{"amount": 5}', "sha256:0123456789ab", CallRef(3, 0))
    asked = [render_request(each, "a1b2c3d4-and-more") for each in (own, inner)]
    assert [event.request_id for event in asked] == ["approval-3.0-0123456789ab", "f6e5d4c3-approval-3.0-0123456789ab"]
    assert len({event.data.function_call.call_id for event in asked}) == 2
    for event in asked:
        assert (event.type, event.response_type, event.data.type) == ("request_info", Content, "function_approval_request")
        assert event.data.function_call.parse_arguments() == {"amount": 5}


async def test_agent_tool_asks_through_its_callers_workflow() -> None:
    paid: list[float] = []

    @tool(approval_mode="always_require")
    def pay(amount: float) -> str:
        """Pay money back."""
        paid.append(amount)
        return f"paid {amount}"

    def fake_model(prompt: ModelPrompt) -> Any:
        last = prompt.messages[-1]
        if prompt.instructions == "You delegate.":
            return f"Done: {last.text}" if last.role == "tool" else ReplyCall("ask_payer", '{"task": "Pay 5"}')
        return last.text if last.role == "tool" else ReplyCall("pay", '{"amount": 5}')

    with serve(fake_model=fake_model) as running:
        client = OpenAIResponsesClient(model="gpt-5.1", base_url=running.openai_url)
        payer = client.as_agent(name="payer", instructions="You pay.", tools=[pay])
        boss = client.as_agent(name="boss", instructions="You delegate.", tools=[payer.as_tool()])
        workflow = HandoffBuilder(name="office", participants=[boss]).with_checkpointing(InMemoryCheckpointStorage()).build()
        request = await run_to_approval(workflow, "Pay me 5")
        assert (request.data.type, request.source_executor_id) == ("function_approval_request", "payer")
        assert (request.data.function_call.name, paid) == ("pay", [])
        again = workflow.run(session_id=workflow.session_id)
        assert [each.request_id for each in (await again).get_request_info_events()] == [request.request_id]
        result = await workflow.run(responses={request.request_id: request.data.to_function_approval_response(True)})
        assert result.get_outputs()[-1].text == "Done: paid 5.0"
        assert paid == [5]


async def test_agent_tool_waits_for_its_own_approval() -> None:
    """An agent as a tool that requires approval does not begin before it is approved."""
    begun: list[str] = []

    def fake_model(prompt: ModelPrompt) -> Any:
        last = prompt.messages[-1]
        if prompt.instructions == "You delegate.":
            return f"Done: {last.text}" if last.role == "tool" else ReplyCall("ask_payer", '{"task": "Pay 5"}')
        begun.append(last.text)
        return "paid"

    with serve(fake_model=fake_model) as running:
        client = OpenAIResponsesClient(model="gpt-5.1", base_url=running.openai_url)
        payer = client.as_agent(name="payer", instructions="You pay.")
        boss = client.as_agent(name="boss", instructions="You delegate.", tools=[payer.as_tool(approval_mode="always_require")])
        workflow = HandoffBuilder(name="office", participants=[boss]).build()
        request = await run_to_approval(workflow, "Pay me 5")
        assert (request.data.function_call.name, begun) == ("ask_payer", [])
        result = await workflow.run(responses={request.request_id: request.data.to_function_approval_response(True)})
        assert (result.get_outputs()[-1].text, begun) == ("Done: paid", ["Pay 5"])
    with pytest.raises(BadInput, match="approval_mode"):
        payer.as_tool(approval_mode="sometimes")
    with pytest.warns(MeansNothingHere, match="arg_name"):
        payer.as_tool(arg_name="query")
