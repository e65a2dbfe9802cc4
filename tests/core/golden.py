"""The corpus of golden ledgers: one folder per released format, one fact per line. A file, once released, never changes.

`python -m tests.core.golden` writes the ledgers of the present format anew; do that only before a format is released.
"""

from __future__ import annotations

from pathlib import Path

from legato.core.codec import encode
from legato.core.digests import digest_arguments
from legato.core.facts import (
    FORMAT,
    AgentPrompted,
    CallLost,
    Cancelled,
    ChildUsageReported,
    Compacted,
    ConversationClaimed,
    File,
    GuardrailJudged,
    Hosted,
    Image,
    MessageReceived,
    ModelRequestFailed,
    Origin,
    Reasoning,
    Redacted,
    Refusal,
    Standing,
    Text,
    Usage,
    Words,
)
from legato.core.messages_to_model import ERASED, ERASED_ARGUMENTS
from tests.core.ledgers import ARGS, answered, call, decided, gated, handed_off, handoff, opened, paused, returned, said, started

GOLDEN = Path(__file__).with_name("golden_ledgers")
OK = digest_arguments(ARGS)


def folder(format: int) -> Path:
    return GOLDEN / str(format)


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


def ledgers() -> dict[str, tuple]:
    attached = said("x").__class__(at=5, content=(Text("see"), Image(digest="d" * 32), File("a.pdf", "application/pdf", url="https://x")))
    return {
        "a_handoff_with_a_gated_tool": (
            opened(), said("hello", key="k1"),
            answered("a", 1, "one moment", handoff("b"), usage=Usage(10, 5, 2, 1, 7), model="m", response_id="r", stored=True, base="q"),
            handed_off(2, 1, "a", "b"),
            answered("b", 3, Reasoning("hm", "enc", "rs"), call(), call(), call()),
            gated(4, 1), gated(4, 2), gated(4, 3, needed=False),
            started(4, 3), returned(4, 3),
            decided(4, 1, standing=Standing("b", "t"), source="ada", key="k2"), decided(4, 2, verdict="reject", words="no"),
            started(4, 1, digest=OK), returned(4, 1, full="f" * 32, took=3),
            answered("b", 13, "done"), GuardrailJudged(at=9, kind="termination", position=14, stop=True),
        ),
        "a_lost_attempt_and_a_cancel": (
            opened(), attached, GuardrailJudged(at=6, kind="input", position=1, by="g"),
            ModelRequestFailed(
                at=7, agent="a", frame="f", error="503", code="busy", number=1, usage=Usage(1), retry_at=507, cause="ModelFailed"
            ),
            answered("a", 3, call(), finish="length", kept=((0, 0),), losses=("reasoning",), took=4),
            GuardrailJudged(at=8, kind="tool", position=4, index=0), started(4), CallLost(at=9, call=started(4).call, attempt=1),
            decided(4, kind="outcome"), started(4, attempt=2, epoch=2), Cancelled(at=10, words="stop"),
            returned(4, attempt=2, status="cancelled"), returned(4, attempt=2, late=True),
            said("go on"), answered("a", 13, Refusal("no")),
        ),
        "autonomous_with_a_summary_then_forked": (
            opened(), said("research"), answered("a", 1, "part one"), AgentPrompted(at=5, agent="a", text="go on"),
            Compacted(at=6, agent="a", upto=2, summary="one", usage=Usage(3)), answered("a", 4, "part two"),
            GuardrailJudged(at=7, kind="output", position=5, stop=True, words="shorter", by="g"), answered("a", 6, "two"),
            decided(0, kind="limit", limit="turns", digest=""), opened(origin=Origin("parent", 9)), said("and?"),
        ),
        "a_conversation_that_the_provider_keeps": (
            opened(), MessageReceived(at=2, content="hello", guarded=True), GuardrailJudged(at=3, kind="input", position=1, agent="a"),
            ConversationClaimed(at=4, agent="a", conversation="conv_1", upto=2),
            answered("a", 2, Hosted("web_search_call", '{"query":"x"}', "ws_1"), Words("found", "msg_1", '[{"url":"https://x"}]'),
                     response_id="resp_1", stored=True, base="conv_1", origin="responses x", held="h", request_id="req_1"),
            said("and?"), ConversationClaimed(at=6, agent="a", conversation="conv_1", upto=5),
            ModelRequestFailed(at=7, agent="a", frame="f", error="busy", upto=5, code="conversation_locked", conversation_unchanged=True),
            answered("a", 7, Reasoning(encrypted="blob", redacted=True), "nothing more"),
        ),
        "an_agent_as_a_tool_that_waited_for_people": (
            opened(), said("pay them"), answered("a", 1, call(), call()), started(2), started(2, 1),
            paused(2, took=5), paused(2, 1, session="s/other", length=7), started(2, attempt=2, epoch=2),
            ChildUsageReported(at=9, call=started(2).call, agents=(("helper", Usage(5, 2, cost=3)),)), returned(2, attempt=2),
            Cancelled(at=10), returned(2, 1, attempt=0, status="cancelled"),
        ),
        "words_that_were_erased": (
            opened(), said(ERASED), answered("a", 1, ERASED, Reasoning(), call(arguments=ERASED_ARGUMENTS)),
            gated(2, 2, arguments=ERASED_ARGUMENTS), decided(2, 2, digest=digest_arguments(ERASED_ARGUMENTS)),
            started(2, 2, digest=digest_arguments(ERASED_ARGUMENTS)), returned(2, 2), Compacted(at=8, agent="a", upto=6, summary=ERASED),
            Redacted(at=9, positions=(1, 2), digests=("d" * 32, "e" * 32), along=(7,), reason="asked for", by="ada"),
            answered("a", 8, "go on"),
        ),
    }  # fmt: skip


if __name__ == "__main__":
    folder(FORMAT).mkdir(parents=True, exist_ok=True)
    for name, facts in ledgers().items():
        (folder(FORMAT) / f"{name}.jsonl").write_bytes(b"".join(encode(fact) + b"\n" for fact in facts))
