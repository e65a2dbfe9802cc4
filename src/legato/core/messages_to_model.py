"""What models are told when a call did not simply run. May know: nothing. Decides: the words.

Every sentence is true, says whether anything happened, and says what the model can do next. They are part of what was
seen, so a change of wording changes how old requests are rebuilt: change them only with a new ledger format.
"""

from __future__ import annotations

ERASED = "[erased on request]"
ERASED_ARGUMENTS = '{"erased":true}'
"""What stands where words, and the arguments of a call, were erased."""

MAYBE = "It may have taken effect: do not assume that it did not."


def rejected(words: str) -> str:
    return f"Not run: a person declined this call. {words}".rstrip()


def edited(arguments: str, output: str) -> str:
    return f"(A person changed the arguments; this ran with {arguments})\n{output}"


def unknown_tool(name: str, known: list[str], started: bool = False) -> str:
    options = f"Tools you can call: {', '.join(sorted(known)) or 'none'}."
    if started:
        return f"{name!r} had started, and is no longer there to ask how it ended. {MAYBE} {options}"
    return f"Not run: there is no tool named {name!r} for you. {options}"


def cut_short(name: str) -> str:
    return f"Not run: the reply was cut off before the call of {name!r} was complete. Call it again with complete arguments."


def too_many_calls(number: int, allowed: int) -> str:
    return f"Not run: this reply made {number:,} tool calls and {allowed:,} are allowed. Call again with fewer."


def handoff_with_too_many_calls(number: int, allowed: int) -> str:
    return f"Not handed over: this reply made {number:,} tool calls and {allowed:,} are allowed. Call again with fewer."


def arguments_too_large(size: int, allowed: int) -> str:
    return f"Not run: the arguments are {size:,} bytes; at most {allowed:,} are allowed. Call again with smaller arguments."


def output_too_large(name: str, size: int, allowed: int) -> str:
    return f"{name!r} ran, and what it did stands. Its output was {size:,} bytes; at most {allowed:,} are passed on. Ask for less."


def timed_out(name: str, seconds: float, idempotent: bool) -> str:
    told = f"{name!r} did not finish within {seconds:g} seconds."
    return told if idempotent else f"{told} {MAYBE}"


def cancelled(name: str, started: bool, idempotent: bool) -> str:
    if not started:
        return f"Not run: {name!r} was cancelled before it started."
    told = f"{name!r} was cancelled while it ran."
    return told if idempotent else f"{told} {MAYBE}"


def arguments_erased(name: str, started: bool, idempotent: bool) -> str:
    if not started:
        return f"Not run: the arguments of {name!r} were erased on request before it started."
    told = f"The arguments of {name!r} were erased on request, and it was not started again."
    return told if idempotent else f"{told} {MAYBE}"


def superseded(name: str, unknown_outcome: bool) -> str:
    told = f"{name!r} was not carried out: the user sent a new message first."
    return f"The outcome of {name!r} is unknown, and the user sent a new message first. {MAYBE}" if unknown_outcome else told


def given_up(name: str) -> str:
    return f"{name!r} had begun and waited for people. It was stopped, because the user sent a new message first."


def stopped(name: str, started: bool) -> str:
    if not started:
        return f"Not run: {name!r} was not started because a limit stopped this run."
    return f"{name!r} had begun when a limit stopped this run, and did not finish. {MAYBE}"


def handed_off(target: str) -> str:
    return f"Control passed to {target}."


def not_taken(target: str) -> str:
    return f"Not taken: control had passed to {target}."


def guarded(words: str) -> str:
    return f"Not run: {words}"


def failed_by_person(words: str) -> str:
    return f"The outcome was unknown; a person declared it failed. {words}".rstrip()


def no_result(words: str) -> str:
    return f"No result came: a person declined to give one. {words}".rstrip()


def no_call(tools: list[str]) -> str:
    return f"it calls none of these tools, and one of them must be called: {', '.join(tools)}."


def feedback(words: str) -> str:
    return f"Your last reply was not accepted: {words}\nWrite it again so that it is."


def summary(text: str) -> str:
    return f"Summary of the conversation so far:\n{text}"


def handoff_note(source: str, reason: str, input: str) -> str:
    lines = [f"{source} handed this conversation to you."]
    if reason:
        lines.append(f"Reason: {reason}")
    if input:
        lines.append(f"Input: {input}")
    return "\n".join(lines)
