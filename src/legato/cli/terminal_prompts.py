"""Prompts for pending requests on a terminal, and the answers that users type.

Pressing enter approves nothing: an answer is a word. The prompt shows the arguments that would run, with digests in place of secrets. An
edit that does not change a digest keeps the secret.
"""

from __future__ import annotations

import json
import shlex
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from legato.cli.terminal import AgentColours, get_symbol, print_line
from legato.core.pending_requests import VERDICTS, Pending
from legato.errors import BadInput
from legato.inspection.answers import record_answer
from legato.inspection.secret_masks import mask_request_arguments
from legato.inspection.terminal_safe_text import escape_unprintable
from legato.runtime.session import Session

AnswerVerb: TypeAlias = Literal["approve", "reject", "edit", "always", "answer", "later"]

_ANSWER_WORDS: dict[str, AnswerVerb] = {
    "y": "approve",
    "yes": "approve",
    "approve": "approve",
    "n": "reject",
    "no": "reject",
    "reject": "reject",
    "e": "edit",
    "edit": "edit",
    "a": "always",
    "always": "always",
    "=": "answer",
    "answer": "answer",
    "l": "later",
    "later": "later",
}
_HINTS = {
    "approval": "y run it · n REASON decline · e NAME=VALUE run it with other arguments · a always run this tool here · l later",
    "result": "= VALUE the result · n REASON there will be none · l later",
    "outcome": "y run it again · = VALUE its outcome · n REASON it failed · l later",
    "limit": "y allow as much again · n end the run, it is your turn · l later",
}


class TypedAnswer(Struct, frozen=True):
    """An answer and the rest of its line: a reason, a value, or arguments."""

    verb: AnswerVerb
    rest: str = ""


def print_request(session: Session, request: Pending, colours: AgentColours) -> None:
    """Print a pending request: its agent, its tool, the arguments, and the possible answers."""
    agent = (request.agent, colours.of(request.agent))
    tool = (request.tool, "bold")
    match request.kind:
        case "approval":
            print_line((f"{get_symbol('ask')} ", "yellow"), agent, " wants to run ", tool)
        case "result":
            print_line((f"{get_symbol('ask')} ", "yellow"), agent, " waits for the result of ", tool)
        case "outcome":
            print_line((f"{get_symbol('ask')} ", "yellow"), agent, " ran ", tool, ", and its outcome is unknown")
        case "limit":
            print_line((f"{get_symbol('ask')} ", "yellow"), request.prompt.partition(" Approve to")[0])
    for name, value in _format_arguments(mask_request_arguments(session, request)):
        print_line(f"    {name}", ("  ", "dim"), (value, "bold"))
    print_line(("  " + _HINTS[request.kind].replace("·", get_symbol("note")), "dim"))


def parse_answer(kind: str, line: str) -> TypedAnswer | None:
    """Return the answer in a typed line; None if it is not an answer to this kind of request.

    >>> parse_answer("approval", "no, not this one")
    TypedAnswer(verb='reject', rest='not this one')
    >>> parse_answer("limit", "e amount=1") is None
    True
    """
    word, _, rest = line.strip().partition(" ")
    if line.strip().startswith("="):
        word, rest = "=", line.strip()[1:]
    verb = _ANSWER_WORDS.get(word.lower().rstrip(",.:"))
    allowed = verb == "later" or verb in VERDICTS[kind] or (verb == "always" and kind == "approval")
    return TypedAnswer(verb, rest.strip()) if verb is not None and allowed else None


async def submit_answer(session: Session, request: Pending, answer: TypedAnswer) -> None:
    """Record a typed answer; raise `BadInput` if it cannot be parsed, and change nothing."""
    match answer.verb:
        case "later":
            return
        case "always":
            await record_answer(session, request, "approve", always=True)
        case "edit":
            await record_answer(session, request, "edit", arguments=parse_edited_arguments(request, answer.rest))
        case "answer":
            await record_answer(session, request, "answer", value=_parse_value(answer.rest))
        case verdict:
            await record_answer(session, request, verdict, message=answer.rest)


def parse_edited_arguments(request: Pending, typed: str) -> dict[str, Any]:
    """Return the edited arguments: all of them typed as JSON, or only the changed ones as name=value."""
    before = request.arguments
    if typed.startswith("{"):
        try:
            return dict(json.loads(typed))
        except (ValueError, RecursionError) as error:
            raise BadInput(f"this is not JSON: {error}", do='write {"name": "value"}, or name=value') from None
    return {**before, **_parse_assignments(typed, before)}


def _parse_assignments(typed: str, before: dict[str, Any]) -> dict[str, Any]:
    try:
        words = shlex.split(typed)
    except ValueError as error:
        raise BadInput(f"the arguments cannot be parsed: {error}", do="write name=value, with quotes around spaces") from None
    if not words:
        raise BadInput("no argument was changed", do="write name=value, or the arguments as JSON")
    changes: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise BadInput(f"{word!r} changes no argument", do="write name=value")
        changes[name] = value if isinstance(before.get(name), str) else _parse_value(value)
    return changes


def _parse_value(typed: str) -> Any:
    """Return a typed value: decoded if it is JSON, otherwise as text."""
    try:
        return json.loads(typed)
    except (ValueError, RecursionError):
        return typed


def _format_arguments(masked_arguments: str) -> list[tuple[str, str]]:
    """Return names and values in their order, padded, with unprintable characters escaped."""
    try:
        values = json.loads(masked_arguments) if masked_arguments else {}
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        return [("arguments", escape_unprintable(masked_arguments, joiners=""))]
    written = {
        escape_unprintable(name, joiners=""): escape_unprintable(json.dumps(value, ensure_ascii=False), joiners="")
        for name, value in values.items()
    }
    longest = max(map(len, written), default=0)
    return [(f"{name:<{longest}}", value) for name, value in written.items()]
