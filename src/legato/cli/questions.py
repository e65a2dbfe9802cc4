"""Questions, asked at a terminal. May know: requests. Decides: how they are put, and what a typed line answers.

Nothing is approved by pressing enter: an answer is a word. What is shown is what would run, with digests in place of secrets; an edit
that leaves a digest as it is leaves the secret as it is.
"""

from __future__ import annotations

import json
import shlex
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from legato.cli.telling import Colours, symbol, tell
from legato.core.pending_requests import VERDICTS, Pending
from legato.errors import BadInput
from legato.inspection.answers import give_answer
from legato.inspection.hiding import shown_arguments
from legato.inspection.plain import harmless
from legato.runtime.session import Session

Verb: TypeAlias = Literal["approve", "reject", "edit", "always", "answer", "later"]

_WORDS: dict[str, Verb] = {
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
    "approval": "y run it · n WORDS decline · e NAME=VALUE run it with other arguments · a always run this tool here · l later",
    "result": "= VALUE the result · n WORDS there will be none · l later",
    "outcome": "y run it again · = VALUE how it ended · n WORDS call it failed · l later",
    "limit": "y allow as much again · n give the turn back to you · l later",
}


class Answer(Struct, frozen=True):
    """What a line says."""

    verb: Verb
    rest: str = ""


def put(session: Session, request: Pending, colours: Colours) -> None:
    """Show a question: who wants what, and the exact arguments."""
    agent = (request.agent, colours.of(request.agent))
    tool = (request.tool, "bold")
    match request.kind:
        case "approval":
            tell((f"{symbol('ask')} ", "yellow"), agent, " wants to run ", tool)
        case "result":
            tell((f"{symbol('ask')} ", "yellow"), agent, " waits for the result of ", tool)
        case "outcome":
            tell((f"{symbol('ask')} ", "yellow"), agent, " ran ", tool, ", and nobody knows how it ended")
        case "limit":
            tell((f"{symbol('ask')} ", "yellow"), request.prompt.partition(" Approve to")[0])
    for name, value in _arguments(shown_arguments(session, request)):
        tell(f"    {name}", ("  ", "dim"), (value, "bold"))
    tell(("  " + _HINTS[request.kind].replace("·", symbol("note")), "dim"))


def understood(kind: str, line: str) -> Answer | None:
    """What a typed line answers; None if it is no answer to this kind of question.

    >>> understood("approval", "no, not this one")
    Answer(verb='reject', rest='not this one')
    >>> understood("limit", "e amount=1") is None
    True
    """
    word, _, rest = line.strip().partition(" ")
    if line.strip().startswith("="):
        word, rest = "=", line.strip()[1:]
    verb = _WORDS.get(word.lower().rstrip(",.:"))
    allowed = verb == "later" or verb in VERDICTS[kind] or (verb == "always" and kind == "approval")
    return Answer(verb, rest.strip()) if verb is not None and allowed else None


async def give(session: Session, request: Pending, answer: Answer) -> None:
    """Record an answer. `BadInput` if it cannot be meant so; then nothing was changed."""
    match answer.verb:
        case "later":
            return
        case "always":
            await give_answer(session, request, "approve", always=True)
        case "edit":
            await give_answer(session, request, "edit", arguments=edited(request, answer.rest))
        case "answer":
            await give_answer(session, request, "answer", value=_value(answer.rest))
        case verdict:
            await give_answer(session, request, verdict, words=answer.rest)


def edited(request: Pending, typed: str) -> dict[str, Any]:
    """The arguments that somebody typed: all of them as JSON, or those that change as name=value."""
    before = request.arguments
    if typed.startswith("{"):
        try:
            return dict(json.loads(typed))
        except (ValueError, RecursionError) as error:
            raise BadInput(f"this is no JSON: {error}", do='write {"name": "value"}, or name=value') from None
    return {**before, **_assigned(typed, before)}


def _assigned(typed: str, before: dict[str, Any]) -> dict[str, Any]:
    try:
        words = shlex.split(typed)
    except ValueError as error:
        raise BadInput(f"this cannot be read: {error}", do="write name=value, with quotes around spaces") from None
    if not words:
        raise BadInput("there is nothing to change", do="write name=value, or the arguments as JSON")
    changes: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise BadInput(f"{word!r} changes nothing", do="write name=value")
        changes[name] = value if isinstance(before.get(name), str) else _value(value)
    return changes


def _value(typed: str) -> Any:
    """A value as it is typed: JSON where it is that, else the text itself."""
    try:
        return json.loads(typed)
    except (ValueError, RecursionError):
        return typed


def _arguments(shown: str) -> list[tuple[str, str]]:
    """Names and values, as a person compares them: in the order in which they came, with nothing that a terminal would hide."""
    try:
        values = json.loads(shown) if shown else {}
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        return [("arguments", harmless(shown, joiners=""))]
    written = {harmless(name, joiners=""): harmless(json.dumps(value, ensure_ascii=False), joiners="") for name, value in values.items()}
    longest = max(map(len, written), default=0)
    return [(f"{name:<{longest}}", value) for name, value in written.items()]
