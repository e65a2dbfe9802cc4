"""The first part of the same document, retold.

There it builds another library's tracker of what was sent, by hand, in the state that an interrupted batch leaves it in, and shows that the
output of the call that ran is dropped on resume, since it is taken for sent. Here nothing tracks what was sent, so there is no such part to
build. What is kept of it: the same three calls under the same ids, the one that ran while two waited, both rejected, no provider and no
server. What changed: the state is the recorded facts, and what is looked at is the request that is compiled from them.
"""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest

from legato.core.codec import decode, encode
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
from legato.core.planner import CallModel, plan
from legato.core.state import State, fold
from legato.core.turn_context import Frame, encode_frame
from legato.core.view import request_for, visible
from legato.core.workflow_graph import AgentRules, Graph, ToolRules
from legato.providers.formats.options import Options
from legato.providers.formats.responses.compile import compile_request
from legato.providers.formats.responses.past import proof_of
from legato.providers.formats.sequence import after_reply

ASKED = "Please clean up temp_files, run thermal diagnostic, and clean up winsxs_cache."
DIAGNOSED = "Diagnostic 'thermal' completed. CPU: 23%, Temp: 72C."
CALLS = (
    Call("run_cleanup", '{"target": "temp_files"}', "call_CLEANUP1", "fc_001"),
    Call("run_diagnostic", '{"check_name": "thermal"}', "call_DIAG", "fc_002"),
    Call("run_cleanup", '{"target": "winsxs_cache"}', "call_CLEANUP2", "fc_003"),
)
GATED = {0, 2}
FRAME = Frame(agent="test")
ORIGIN = "responses http://localhost/v1 gpt-4.1-mini"
TOOLS = {"run_cleanup": ToolRules("run_cleanup", admission=True), "run_diagnostic": ToolRules("run_diagnostic", admission=True)}
GRAPH = Graph("repro", {"test": AgentRules("test", TOOLS)}, "test")
REPLY = 2


def compiled(state: State, memory: Any) -> dict[str, Any]:
    digest, _ = encode_frame(FRAME)
    request = request_for(state, FRAME, digest, visible(state, FRAME.history, "test"), "test")
    body: dict[str, Any] = json.loads(compile_request(request, Options("gpt-4.1-mini", memory=memory), ORIGIN, stream=False).body)
    return body


def interrupted() -> list[AnyFact]:
    """The batch, interrupted: one call has run, two wait. The provider holds the reply as resp_002."""
    digest, _ = encode_frame(FRAME)
    facts: list[AnyFact] = [Opened(at=1, ledger="ledger", workflow="repro"), MessageReceived(at=2, content=ASKED)]
    state = fold(facts)
    asked = proof_of(request_for(state, FRAME, digest, visible(state, FRAME.history, "test"), "test"), ORIGIN).told
    facts.append(
        ModelReplied(
            at=3,
            agent="test",
            frame=digest,
            upto=1,
            items=CALLS,
            response_id="resp_002",
            stored=True,
            origin=ORIGIN,
            held=after_reply(asked, CALLS),
        )
    )
    for index, call in enumerate(CALLS):
        facts.append(ApprovalChecked(at=4, call=CallRef(REPLY, index), needed=index in GATED, digest=digest_arguments(call.arguments)))
    facts.append(CallStarted(at=5, call=CallRef(REPLY, 1), attempt=1, epoch=1))
    facts.append(CallReturned(at=6, call=CallRef(REPLY, 1), attempt=1, output=DIAGNOSED))
    return facts


def rejection(index: int) -> Decided:
    digest = digest_arguments(CALLS[index].arguments)
    return Decided(at=7, kind="approval", verdict="reject", call=CallRef(REPLY, index), digest=digest, words="Tool call not approved.")


@pytest.mark.parametrize("memory", ["chained", "inline"])
@pytest.mark.parametrize("order", list(permutations(sorted(GATED))))
def test_every_output_is_sent_once_and_in_call_order(memory: str, order: tuple[int, ...]) -> None:
    written = [encode(fact) for fact in interrupted()]  # the state is written down ...
    state = fold([decode(fact) for fact in written])  # ... and read again: that is all there is to restore
    assert [request.call for request in plan(state, GRAPH).requests] == [CallRef(REPLY, 0), CallRef(REPLY, 2)]
    for index in order:
        state.apply(rejection(index))
    assert plan(state, GRAPH).effects == [CallModel("test", 1, -1)]
    body = compiled(state, memory)
    assert body.get("previous_response_id") == ("resp_002" if memory == "chained" else None)
    outputs = [item for item in body["input"] if item.get("type") == "function_call_output"]
    assert [item["call_id"] for item in outputs] == ["call_CLEANUP1", "call_DIAG", "call_CLEANUP2"]
    assert outputs[1]["output"] == DIAGNOSED
    assert all("Tool call not approved." in outputs[place]["output"] for place in (0, 2))
    assert len(body["input"]) == (3 if memory == "chained" else 1 + 3 + 3)


def test_nothing_is_sent_while_a_call_waits() -> None:
    state = fold(interrupted())
    state.apply(rejection(0))
    assert plan(state, GRAPH).effects == []
    assert [request.call for request in plan(state, GRAPH).requests] == [CallRef(REPLY, 2)]
