"""Inheritance rules: what a branch of a conversation keeps of each kind of fact.

A ledger that continues another one records an `Opened` with its `Origin` after the facts that both share. A fork and a copy run beside
the original, so permissions for effects belong to the original alone: otherwise one approval would run a tool in both. A moved session
replaces the original, and inherits everything but running attempts, whose driver is elsewhere.

`INHERITANCE_RULES` says what becomes of the facts before the `Opened` of a fork or a copy. `state.py` follows it, and
`tests/core/test_branch_inheritance.py` compares it with the union of facts.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from legato.core.facts import AnyFact, Decided

Inheritance: TypeAlias = Literal["kept", "void", "void until answered"]
"""`kept`: the branch continues from the fact. `void`: the branch continues as if the fact had not been recorded. `void until answered`:
void while the fact's call has no output, and kept from then on."""

INHERITANCE_RULES: dict[str, Inheritance] = {
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
    "TerminationJudged": "kept",
    # A conversation stored by a provider: the original keeps adding to it.
    "ConversationClaimed": "void",
    # Calls. A policy's verdict that a call needs approval is kept; the approval is not.
    "ApprovalChecked": "kept",
    "CallStarted": "void until answered",  # its driver works for the original; in the branch the attempt is lost
    "CallReturned": "kept",
    "CallLost": "kept",
    "CallPaused": "kept",  # the branch has a fork of the child session
    "ChildUsageReported": "kept",
    # Decisions of people. An answer or a rejection is the output of its call, and so part of the conversation. Delivery keys of
    # decisions are void: pending requests have other ids in the branch. Run options that came with decisions are kept: a client's tool
    # runs only where the client receives the call, and the branch requests the result under an id of its own.
    "Decided approval": "void until answered",
    "Decided result": "kept",
    "Decided outcome": "void until answered",
    "Decided limit": "void",  # allowances; a refused limit is kept, since it stops the conversation
    "Decided standing": "void",
}


def find_rule_name(fact: AnyFact) -> str:
    """Return the key of the rule in `INHERITANCE_RULES` for a fact."""
    return f"Decided {fact.kind}" if isinstance(fact, Decided) else type(fact).__name__
