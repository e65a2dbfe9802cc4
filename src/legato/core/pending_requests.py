"""Pending requests: decisions that the conversation waits for, with their ids and prompts.

A request is a projection of the ledger, not a record in it: keeping it costs nothing, and a fork, which has another ledger id, has
requests of its own under other ids.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any, Literal

from msgspec import Struct

from legato.core.digests import digest_arguments
from legato.core.facts import CallRef
from legato.core.groups import CallState
from legato.core.secret_arguments import mask_arguments

RequestKind = Literal["approval", "result", "outcome", "limit"]
Verdict = Literal["approve", "reject", "edit", "answer"]

VERDICTS: dict[str, tuple[Verdict, ...]] = {
    "approval": ("approve", "reject", "edit"),
    "result": ("answer", "reject"),
    "outcome": ("approve", "answer", "reject"),
    "limit": ("approve", "reject"),
}
"""The verdicts that each kind of request accepts. Code that offers, parses or records an answer looks them up here."""

_CALL_REQUEST_ID = re.compile(r".*-(?:approval|result|outcome)-(\d{1,16})\.(\d{1,16})(?:-\d{1,16})?", re.ASCII | re.DOTALL)


class Pending(Struct, frozen=True):
    """A request that blocks the conversation until a person or a client answers it."""

    id: str
    kind: RequestKind
    prompt: str
    agent: str
    tool: str = ""
    raw_arguments: str = ""
    digest: str = ""
    call: CallRef | None = None
    limit: str = ""
    session: str = ""
    """The id of the session that waits for the answer: this one, or a child session of an agent that works as a tool."""
    for_client: bool = False
    """True if the call is of a tool that the client of the run offered and executes itself."""

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts that the request accepts."""
        return VERDICTS[self.kind]

    @property
    def arguments(self) -> dict[str, Any]:
        """The exact arguments of the call, as recorded."""
        try:
            value = json.loads(self.raw_arguments)
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    def __str__(self) -> str:
        return f"[{self.id}] {self.prompt}"

    def __repr__(self) -> str:
        return f"<Pending {self}>"  # logs and tracebacks show the prompt, which masks secrets


def make_call_request(
    session: str,
    ledger_id: str,
    kind: RequestKind,
    call: CallState,
    agent: str,
    secrets: Collection[str] | None,
    tool_removed: bool = False,
    for_client: bool = False,
) -> Pending:
    """Return the request for a decision about a call. The prompt masks secret arguments; `.arguments` is exact."""
    tool, arguments = call.call.tool, mask_arguments(call.arguments, secrets)
    prompt = {
        "approval": f"{agent} wants to run {tool}({arguments}). Approve, edit or reject?",
        "result": f"{agent} waits for the result of {tool}({arguments}). Answer with it, or reject.",
        "outcome": (
            f"{agent} ran {tool}({arguments}), and nobody knows how it ended. "
            "Approve to run it again, answer with its outcome, or reject to fail it."
        ),
    }[kind]
    if tool_removed:
        prompt += f" (The workflow no longer has {tool!r}: to run it, add it again first; if you approve now, the model receives an error.)"
    suffix = f"-{len(call.attempts)}" if kind == "outcome" else ""
    return Pending(
        id=f"{make_call_request_id(ledger_id, kind, call.ref)}{suffix}",
        kind=kind,
        prompt=prompt,
        agent=agent,
        tool=tool,
        raw_arguments=call.arguments,
        digest=digest_arguments(call.arguments),
        call=call.ref,
        session=session,
        for_client=for_client,
    )


def make_call_request_id(ledger_id: str, kind: RequestKind, call: CallRef) -> str:
    """Return the id of a request about a call, in the ledger with this id.

    >>> make_call_request_id("1f0c9a3e77", "approval", CallRef(4, 1))
    '1f0c9a3e-approval-4.1'
    """
    return f"{ledger_id[:8]}-{kind}-{call}"


def parse_request_call(id: str) -> CallRef | None:
    """Return the call that the request with this id is about; None if it is about a limit.

    >>> parse_request_call("1f0c9a3e-approval-4.1")
    CallRef(position=4, index=1)
    """
    match = _CALL_REQUEST_ID.fullmatch(str(id))
    return CallRef(int(match[1]), int(match[2])) if match else None


def make_limit_request(session: str, ledger_id: str, limit: str, run_number: int, allowances: int, agent: str, reason: str) -> Pending:
    """Return the request to raise a limit."""
    return Pending(
        id=f"{ledger_id[:8]}-limit-{limit}-{run_number}-{allowances}",
        kind="limit",
        prompt=f"{reason} Approve to allow as much again, or reject to give the turn back to the user.",
        agent=agent,
        limit=limit,
        session=session,
    )
