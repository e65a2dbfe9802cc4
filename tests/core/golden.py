"""The golden ledgers: one folder per released format, one fact per line. A file, once released, never changes.

`python -m tests.core.golden` rewrites the ledgers of the present format; do that only before a format is released.
"""

from __future__ import annotations

from pathlib import Path

from legato.core.codec import encode_fact
from legato.core.digests import digest_arguments
from legato.core.facts import (
    LEDGER_FORMAT,
    AgentPrompted,
    CallLost,
    Cancelled,
    ChildUsageReported,
    Compacted,
    ConversationClaimed,
    File,
    GuardrailJudged,
    HostedToolUse,
    Image,
    MessageReceived,
    ModelRequestFailed,
    Origin,
    OutputText,
    Reasoning,
    Redacted,
    Refusal,
    StandingApproval,
    TerminationJudged,
    Text,
    Usage,
)
from legato.core.texts_for_model import REDACTED_ARGUMENTS, REDACTED_TEXT
from tests.core.fact_builders import (
    ARGS,
    approval_check,
    call,
    decision,
    handoff_call,
    handoff_taken,
    message,
    opening,
    output,
    pause,
    reply,
    start,
)

GOLDEN = Path(__file__).with_name("golden_ledgers")
ARGS_DIGEST = digest_arguments(ARGS)


def find_folder(format: int) -> Path:
    return GOLDEN / str(format)


def read_lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


def make_ledgers() -> dict[str, tuple]:
    attached = message("x").__class__(
        at=5, content=(Text("see"), Image(digest="d" * 32), File("a.pdf", "application/pdf", url="https://x"))
    )
    return {
        "a_handoff_with_approvals": (
            opening(), message("hello", key="k1"),
            reply("a", 1, "one moment", handoff_call("b"), usage=Usage(10, 5, 2, 1, 7), model="m", response_id="r", stored=True, base="q"),
            handoff_taken(2, 1, "a", "b"),
            reply("b", 3, Reasoning("hm", "enc", "rs"), call(), call(), call()),
            approval_check(4, 1), approval_check(4, 2), approval_check(4, 3, needed=False),
            start(4, 3), output(4, 3),
            decision(4, 1, standing=StandingApproval("b", "t"), source="ada", key="k2"), decision(4, 2, verdict="reject", reason="no"),
            start(4, 1, digest=ARGS_DIGEST), output(4, 1, full_output_digest="f" * 32, duration_ms=3),
            reply("b", 13, "done"), TerminationJudged(at=9, position=14, stop=True),
        ),
        "a_lost_attempt_and_a_cancel": (
            opening(), attached, GuardrailJudged(at=6, kind="input", position=1, guardrail="g"),
            ModelRequestFailed(
                at=7, agent="a", context_digest="f", error="503", code="busy", attempt=1, usage=Usage(1), retry_at=507, cause="ModelFailed"
            ),
            reply("a", 3, call(), finish="length", kept_groups=((0, 0),), losses=("reasoning",), duration_ms=4),
            GuardrailJudged(at=8, kind="tool", position=4, index=0), start(4), CallLost(at=9, call=start(4).call, attempt=1),
            decision(4, kind="outcome"), start(4, attempt=2, epoch=2), Cancelled(at=10, reason="stop"),
            output(4, attempt=2, status="cancelled"), output(4, attempt=2, late=True),
            message("go on"), reply("a", 13, Refusal("no")),
        ),
        "autonomous_with_a_summary_then_forked": (
            opening(), message("research"), reply("a", 1, "part one"), AgentPrompted(at=5, agent="a", text="go on"),
            Compacted(at=6, agent="a", upto=2, summary="one", usage=Usage(3)), reply("a", 4, "part two"),
            GuardrailJudged(at=7, kind="output", position=5, stop=True, reason="shorter", guardrail="g"), reply("a", 6, "two"),
            decision(0, kind="limit", limit="turns", digest=""), opening(origin=Origin("parent", 9)), message("and?"),
        ),
        "a_conversation_that_the_provider_keeps": (
            opening(), MessageReceived(at=2, content="hello", awaits_guardrails=True),
            GuardrailJudged(at=3, kind="input", position=1, agent="a"),
            ConversationClaimed(at=4, agent="a", conversation="conv_1", upto=2),
            reply("a", 2, HostedToolUse("web_search_call", '{"query":"x"}', "ws_1"), OutputText("found", "msg_1", '[{"url":"https://x"}]'),
                     response_id="resp_1", stored=True, base="conv_1", origin="responses x", stored_digest="h", request_id="req_1"),
            message("and?"), ConversationClaimed(at=6, agent="a", conversation="conv_1", upto=5),
            ModelRequestFailed(
                at=7, agent="a", context_digest="f", error="busy", upto=5, code="conversation_locked", conversation_unchanged=True
            ),
            reply("a", 7, Reasoning(encrypted="blob", redacted=True), "nothing more"),
        ),
        "an_agent_as_a_tool_that_waited_for_people": (
            opening(), message("pay them"), reply("a", 1, call(), call()), start(2), start(2, 1),
            pause(2, duration_ms=5), pause(2, 1, session="s/other", length=7), start(2, attempt=2, epoch=2),
            ChildUsageReported(at=9, call=start(2).call, agents=(("helper", Usage(5, 2, cost=3)),)), output(2, attempt=2),
            Cancelled(at=10), output(2, 1, attempt=0, status="cancelled"),
        ),
        "redacted_text": (
            opening(), message(REDACTED_TEXT), reply("a", 1, REDACTED_TEXT, Reasoning(), call(arguments=REDACTED_ARGUMENTS)),
            approval_check(2, 2, arguments=REDACTED_ARGUMENTS), decision(2, 2, digest=digest_arguments(REDACTED_ARGUMENTS)),
            start(2, 2, digest=digest_arguments(REDACTED_ARGUMENTS)), output(2, 2),
            Compacted(at=8, agent="a", upto=6, summary=REDACTED_TEXT),
            Redacted(at=9, positions=(1, 2), digests=("d" * 32, "e" * 32), derived=(7,), reason="asked for", by="ada"),
            reply("a", 8, "go on"),
        ),
    }  # fmt: skip


if __name__ == "__main__":
    find_folder(LEDGER_FORMAT).mkdir(parents=True, exist_ok=True)
    for name, facts in make_ledgers().items():
        (find_folder(LEDGER_FORMAT) / f"{name}.jsonl").write_bytes(b"".join(encode_fact(fact) + b"\n" for fact in facts))
