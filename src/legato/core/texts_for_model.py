"""Texts that models receive when a call did not simply run.

Every sentence is true, says if anything happened, and says what the model can do next. The texts are part of model input, so changing
one changes how old requests are rebuilt: change them only with a new ledger format.
"""

from __future__ import annotations

REDACTED_TEXT = "[erased on request]"
REDACTED_ARGUMENTS = '{"erased":true}'
"""The replacements for redacted text and for the redacted arguments of a call."""

MAY_HAVE_TAKEN_EFFECT = "It may have taken effect: do not assume that it did not."


def call_rejected(reason: str) -> str:
    return f"Not run: a person declined this call. {reason}".rstrip()


def arguments_edited(arguments: str, output: str) -> str:
    return f"(A person changed the arguments; this ran with {arguments})\n{output}"


def unknown_tool(name: str, available: list[str], started: bool = False) -> str:
    options = f"Tools you can call: {', '.join(sorted(available)) or 'none'}."
    if started:
        return f"{name!r} had started, and is no longer there to ask how it ended. {MAY_HAVE_TAKEN_EFFECT} {options}"
    return f"Not run: there is no tool named {name!r} for you. {options}"


def reply_cut_off(name: str) -> str:
    return f"Not run: the reply was cut off before the call of {name!r} was complete. Call it again with complete arguments."


def too_many_calls(number: int, allowed: int) -> str:
    return f"Not run: this reply made {number:,} tool calls and {allowed:,} are allowed. Call again with fewer."


def handoff_with_too_many_calls(number: int, allowed: int) -> str:
    return f"Not handed over: this reply made {number:,} tool calls and {allowed:,} are allowed. Call again with fewer."


def arguments_too_large(size: int, allowed: int) -> str:
    return f"Not run: the arguments are {size:,} bytes; at most {allowed:,} are allowed. Call again with smaller arguments."


def output_too_large(name: str, size: int, allowed: int) -> str:
    return f"{name!r} ran, and what it did stands. Its output was {size:,} bytes; at most {allowed:,} are passed on. Ask for less."


def call_timed_out(name: str, seconds: float, idempotent: bool) -> str:
    text = f"{name!r} did not finish within {seconds:g} seconds."
    return text if idempotent else f"{text} {MAY_HAVE_TAKEN_EFFECT}"


def call_cancelled(name: str, started: bool, idempotent: bool) -> str:
    if not started:
        return f"Not run: {name!r} was cancelled before it started."
    text = f"{name!r} was cancelled while it ran."
    return text if idempotent else f"{text} {MAY_HAVE_TAKEN_EFFECT}"


def arguments_redacted(name: str, started: bool, idempotent: bool) -> str:
    if not started:
        return f"Not run: the arguments of {name!r} were erased on request before it started."
    text = f"The arguments of {name!r} were erased on request, and it was not started again."
    return text if idempotent else f"{text} {MAY_HAVE_TAKEN_EFFECT}"


def call_superseded(name: str, unknown_outcome: bool) -> str:
    text = f"{name!r} was not carried out: the user sent a new message first."
    return (
        f"The outcome of {name!r} is unknown, and the user sent a new message first. {MAY_HAVE_TAKEN_EFFECT}" if unknown_outcome else text
    )


def child_abandoned(name: str) -> str:
    return f"{name!r} had begun and waited for people. It was stopped, because the user sent a new message first."


def call_stopped(name: str, started: bool) -> str:
    if not started:
        return f"Not run: {name!r} was not started because a limit stopped this run."
    return f"{name!r} had begun when a limit stopped this run, and did not finish. {MAY_HAVE_TAKEN_EFFECT}"


def handoff_taken(target: str) -> str:
    return f"Control passed to {target}."


def handoff_not_taken(target: str) -> str:
    return f"Not taken: control had passed to {target}."


def call_blocked(reason: str) -> str:
    return f"Not run: {reason}"


def outcome_declared_failed(reason: str) -> str:
    return f"The outcome was unknown; a person declared it failed. {reason}".rstrip()


def result_declined(reason: str) -> str:
    return f"No result came: a person declined to give one. {reason}".rstrip()


def required_call_missing(tools: list[str]) -> str:
    return f"it calls none of these tools, and one of them must be called: {', '.join(tools)}."


def reply_rejected(reason: str) -> str:
    return f"Your last reply was not accepted: {reason}\nWrite it again so that it is."


def conversation_summary(text: str) -> str:
    return f"Summary of the conversation so far:\n{text}"


def handoff_received(source: str, reason: str, input: str) -> str:
    lines = [f"{source} handed this conversation to you."]
    if reason:
        lines.append(f"Reason: {reason}")
    if input:
        lines.append(f"Input: {input}")
    return "\n".join(lines)
