"""What a branch of a conversation inherits, for every kind of fact.

A ledger that continues another one records an `Opened` with its `Origin` behind the facts that both share. A fork and a copy run beside
the original, so whatever permits an effect belongs to the original alone: otherwise one consent would run a tool in both. A moved
session replaces the original and inherits everything but running attempts, whose driver is elsewhere.

`INHERITED` lists what a fork or a copy makes of the facts before its `Opened`. `State._opened` follows it, and
`tests/core/test_inheritance.py` compares it with the union of facts.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from legato.core.facts import AnyFact, Decided

Inherited: TypeAlias = Literal["kept", "void", "void until answered"]
"""`kept`: the branch goes on from it. `void`: the branch goes on as if it had not been recorded. `void until answered`: kept once the
call that it is about has its output, and void before."""

INHERITED: dict[str, Inherited] = {
    # The conversation itself.
    "Opened": "kept",
    "MessageReceived": "kept",  # with its delivery key and its options: delivering it again in the branch adds nothing
    "ModelReplied": "kept",
    "ModelRequestFailed": "kept",
    "HandedOff": "kept",
    "AgentPrompted": "kept",
    "Compacted": "kept",
    "Redacted": "kept",
    "Cancelled": "kept",
    "GuardrailJudged": "kept",
    # What a provider holds in a conversation of its own: the original goes on adding to it.
    "ConversationClaimed": "void",
    # Calls. A policy's verdict that a call needs approval is kept; the approval is not.
    "ApprovalChecked": "kept",
    "CallStarted": "void until answered",  # its driver runs it for the original; here the attempt is lost
    "CallReturned": "kept",
    "CallLost": "kept",
    "CallPaused": "kept",  # the branch has a fork of the child session
    "ChildUsageReported": "kept",
    # What people decided. An answer or a rejection is the output of its call, and so part of the conversation. Delivery keys of
    # decisions are void: requests have other ids in the branch. The options of a run that came with them are kept: a tool of a client runs
    # only where its client is told of the call, and the branch asks for the result under an id of its own.
    "Decided approval": "void until answered",
    "Decided result": "kept",
    "Decided outcome": "void until answered",
    "Decided limit": "void",  # allowances; a refused limit is kept, since it stops the conversation
    "Decided standing": "void",
}


def kind_of(fact: AnyFact) -> str:
    """The row of `INHERITED` that a fact belongs to."""
    return f"Decided {fact.kind}" if isinstance(fact, Decided) else type(fact).__name__
