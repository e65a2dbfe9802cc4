"""The first part of the document of seed 004, rewritten.

The original builds another library's tracker of sent items in the state that an interrupted batch leaves, and shows that the output of
the finished call is dropped on resume, because the tracker assumes that it was sent. Legato has no such tracker. The test keeps the same
three calls with the same ids: one ran while two waited, and both are rejected, without a provider or a server. The state is built from
facts, and the test checks the request encoded from them.
"""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest

from legato.core.codec import decode_fact, encode_fact
from legato.core.digests import digest_arguments
from legato.core.facts import (
    AnyFact,
    ApprovalChecked,
    Call,
    CallRef,
    CallReturned,
    CallStarted,
    Decided,
    MessageReceived,
    ModelReplied,
    Opened,
)
from legato.core.planner import RequestModel, make_plan
from legato.core.state import State, fold
from legato.core.turn_context import TurnContext, encode_turn_context
from legato.core.view import build_request, select_groups
from legato.core.workflow_graph import AgentRules, ToolRules, WorkflowGraph
from legato.providers.formats.comparable_history import extend_digest_with_reply
from legato.providers.formats.request_options import RequestOptions
from legato.providers.formats.responses.encode import encode_request
from legato.providers.formats.responses.stored_history import read_stored_history

USER_MESSAGE = "Please clean up temp_files, run thermal diagnostic, and clean up winsxs_cache."
DIAGNOSTIC_OUTPUT = "Diagnostic 'thermal' completed. CPU: 23%, Temp: 72C."
CALLS = (
    Call("run_cleanup", '{"target": "temp_files"}', "call_CLEANUP1", "fc_001"),
    Call("run_diagnostic", '{"check_name": "thermal"}', "call_DIAG", "fc_002"),
    Call("run_cleanup", '{"target": "winsxs_cache"}', "call_CLEANUP2", "fc_003"),
)
CALLS_WITH_APPROVAL = {0, 2}
TURN_CONTEXT = TurnContext(agent="test")
ORIGIN = "responses http://localhost/v1 gpt-4.1-mini"
TOOLS = {"run_cleanup": ToolRules("run_cleanup", needs_check=True), "run_diagnostic": ToolRules("run_diagnostic", needs_check=True)}
GRAPH = WorkflowGraph("repro", {"test": AgentRules("test", TOOLS)}, "test")
REPLY_POSITION = 2


def encode_body(state: State, memory: Any) -> dict[str, Any]:
    digest, _ = encode_turn_context(TURN_CONTEXT)
    request = build_request(state, TURN_CONTEXT, digest, select_groups(state, TURN_CONTEXT.history, "test"), "test")
    body: dict[str, Any] = json.loads(encode_request(request, RequestOptions("gpt-4.1-mini", memory=memory), ORIGIN, stream=False).body)
    return body


def make_interrupted_batch() -> list[AnyFact]:
    """Return the facts of an interrupted batch: one call has run, two wait. The provider stores the reply as resp_002."""
    digest, _ = encode_turn_context(TURN_CONTEXT)
    facts: list[AnyFact] = [Opened(at=1, ledger_id="ledger", workflow="repro"), MessageReceived(at=2, content=USER_MESSAGE)]
    state = fold(facts)
    request_digest = read_stored_history(
        build_request(state, TURN_CONTEXT, digest, select_groups(state, TURN_CONTEXT.history, "test"), "test"), ORIGIN
    ).digest
    facts.append(
        ModelReplied(
            at=3,
            agent="test",
            context_digest=digest,
            upto=1,
            items=CALLS,
            response_id="resp_002",
            stored=True,
            origin=ORIGIN,
            stored_digest=extend_digest_with_reply(request_digest, CALLS),
        )
    )
    for index, call in enumerate(CALLS):
        facts.append(
            ApprovalChecked(
                at=4, call=CallRef(REPLY_POSITION, index), needed=index in CALLS_WITH_APPROVAL, digest=digest_arguments(call.arguments)
            )
        )
    facts.append(CallStarted(at=5, call=CallRef(REPLY_POSITION, 1), attempt=1, epoch=1))
    facts.append(CallReturned(at=6, call=CallRef(REPLY_POSITION, 1), attempt=1, output=DIAGNOSTIC_OUTPUT))
    return facts


def make_rejection(index: int) -> Decided:
    digest = digest_arguments(CALLS[index].arguments)
    return Decided(
        at=7, kind="approval", verdict="reject", call=CallRef(REPLY_POSITION, index), digest=digest, reason="Tool call not approved."
    )


@pytest.mark.parametrize("memory", ["chained", "inline"])
@pytest.mark.parametrize("order", list(permutations(sorted(CALLS_WITH_APPROVAL))))
def test_outputs_are_sent_once_in_call_order(memory: str, order: tuple[int, ...]) -> None:
    lines = [encode_fact(fact) for fact in make_interrupted_batch()]
    state = fold([decode_fact(line) for line in lines])
    assert [request.call for request in make_plan(state, GRAPH).requests] == [CallRef(REPLY_POSITION, 0), CallRef(REPLY_POSITION, 2)]
    for index in order:
        state.apply(make_rejection(index))
    assert make_plan(state, GRAPH).effects == [RequestModel("test", 1, -1)]
    body = encode_body(state, memory)
    assert body.get("previous_response_id") == ("resp_002" if memory == "chained" else None)
    outputs = [item for item in body["input"] if item.get("type") == "function_call_output"]
    assert [item["call_id"] for item in outputs] == ["call_CLEANUP1", "call_DIAG", "call_CLEANUP2"]
    assert outputs[1]["output"] == DIAGNOSTIC_OUTPUT
    assert all("Tool call not approved." in outputs[index]["output"] for index in (0, 2))
    assert len(body["input"]) == (3 if memory == "chained" else 1 + 3 + 3)


def test_nothing_is_sent_while_a_call_waits() -> None:
    state = fold(make_interrupted_batch())
    state.apply(make_rejection(0))
    assert make_plan(state, GRAPH).effects == []
    assert [request.call for request in make_plan(state, GRAPH).requests] == [CallRef(REPLY_POSITION, 2)]
