"""What people are asked. May know: the state. Decides: how a question is named and put.

A request is a projection of the ledger, not a record in it: it costs nothing to keep, and a fork, which has another unique name,
asks its own questions under other ids.
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
from legato.core.secret_arguments import masked

Kind = Literal["approval", "result", "outcome", "limit"]
Verdict = Literal["approve", "reject", "edit", "answer"]

VERDICTS: dict[str, tuple[Verdict, ...]] = {
    "approval": ("approve", "reject", "edit"),
    "result": ("answer", "reject"),
    "outcome": ("approve", "answer", "reject"),
    "limit": ("approve", "reject"),
}
"""How each kind of question may be answered. Whoever offers, reads or records an answer asks here."""


_OF_CALL = re.compile(r".*-(?:approval|result|outcome)-(\d{1,16})\.(\d{1,16})(?:-\d{1,16})?", re.ASCII | re.DOTALL)


class Pending(Struct, frozen=True):
    """One thing that blocks the conversation until somebody answers."""

    id: str
    kind: Kind
    prompt: str
    agent: str
    tool: str = ""
    raw_arguments: str = ""
    digest: str = ""
    call: CallRef | None = None
    limit: str = ""
    session: str = ""
    """The conversation that asks: the session's own, or that of an agent that works for it as a tool."""
    for_client: bool = False
    """The call is of a tool that the client of the run offered, and runs itself."""

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """How it may be answered."""
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
        return f"<Pending {self}>"  # what logs and tracebacks show: the sentence, which hides secrets


def about_call(
    session: str,
    name: str,
    kind: Kind,
    call: CallState,
    agent: str,
    secrets: Collection[str] | None,
    gone: bool = False,
    for_client: bool = False,
) -> Pending:
    """The question that a call raises. The sentence hides secret arguments; `.arguments` is exact."""
    tool, arguments = call.call.tool, masked(call.arguments, secrets)
    prompt = {
        "approval": f"{agent} wants to run {tool}({arguments}). Approve, edit or reject?",
        "result": f"{agent} waits for the result of {tool}({arguments}). Answer with it, or reject.",
        "outcome": (
            f"{agent} ran {tool}({arguments}), and nobody knows how it ended. "
            "Approve to run it again, answer with its outcome, or reject to fail it."
        ),
    }[kind]
    if gone:
        prompt += f" (The workflow no longer has {tool!r}: to run it, bring it back first; if you approve now, the model is told so.)"
    suffix = f"-{len(call.attempts)}" if kind == "outcome" else ""
    return Pending(
        id=f"{call_request_id(name, kind, call.ref)}{suffix}",
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


def call_request_id(name: str, kind: Kind, call: CallRef) -> str:
    """The id of a request about a call, in the ledger with this unique name.

    >>> call_request_id("1f0c9a3e77", "approval", CallRef(4, 1))
    '1f0c9a3e-approval-4.1'
    """
    return f"{name[:8]}-{kind}-{call}"


def call_of_request(id: str) -> CallRef | None:
    """The call that a request of this id is about; None if it is about a limit.

    >>> call_of_request("1f0c9a3e-approval-4.1")
    CallRef(position=4, index=1)
    """
    found = _OF_CALL.fullmatch(str(id))
    return CallRef(int(found[1]), int(found[2])) if found else None


def about_limit(session: str, name: str, limit: str, run: int, times: int, agent: str, told: str) -> Pending:
    """The question that a limit raises."""
    return Pending(
        id=f"{name[:8]}-limit-{limit}-{run}-{times}",
        kind="limit",
        prompt=f"{told} Approve to allow as much again, or reject to give the turn back to the user.",
        agent=agent,
        limit=limit,
        session=session,
    )
