"""The texts of the support desk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from legato.emulator.fake_models.plausible_values import split_identifier
from legato.emulator.fake_models.relevance import abbreviate, is_continue_request, is_greeting, is_thanks
from legato.emulator.fake_models.seeded_random import SeededRandom

_CLOSINGS = ("Is there anything else I can help you with?", "Let me know if you need anything else.", "I hope that helps.", "")
_NOTHING_TO_DO = (
    "Thank you for your message. You asked: “{said}”. I have made a note of it and a colleague will get back to you.",
    "I understand your question, “{said}”. Could you tell me a little more, so that I can help you properly?",
    "About “{said}”: I am happy to help. Is there an order number or a date that goes with it?",
)
_BEFORE_CALLS = ("Let me look into that for you.", "One moment, please.", "I will check that.")
_FAILURES = ("error", "failed", "failure", "exception", "traceback")


def answer_small_talk(user_text: str) -> str:
    """Return the reply to small talk; empty if the user wants something."""
    if not user_text.strip() or is_greeting(user_text):
        return "Hello! How can I help you today?"
    if is_continue_request(user_text):
        return "I have nothing to add: my part is done."
    return "You are welcome! Have a good day." if is_thanks(user_text) else ""


def answer_without_tools(user_text: str, random: SeededRandom) -> str:
    """Return a polite sentence that repeats the question."""
    return _NOTHING_TO_DO[random(len(_NOTHING_TO_DO))].replace("{said}", abbreviate(user_text))


def announce_calls(random: SeededRandom) -> str:
    """Return the announcement of calls, or an empty text most of the time."""
    return _BEFORE_CALLS[random(len(_BEFORE_CALLS))] if random(3) == 0 else ""


def summarize_outputs(outputs: Sequence[tuple[str, str, str]], random: SeededRandom) -> str:
    """Summarize tool outputs, each given as the tool, the subject of its call, and the output."""
    sentences = [_describe_output(*output) for output in outputs[-6:]]
    return " ".join(filter(None, [*sentences, _CLOSINGS[random(len(_CLOSINGS))]]))


def describe_call_subject(arguments: str) -> str:
    """Return the subject of a call: its short arguments.

    >>> describe_call_subject('{"city": "Paris", "days": 3}')
    'Paris, 3'
    """
    try:
        decoded = json.loads(arguments)
    except (ValueError, RecursionError):
        return ""
    values = decoded.values() if isinstance(decoded, dict) else ()
    return abbreviate(", ".join(str(value) for value in values if isinstance(value, str | int | float) and len(str(value)) < 30), 60)


def _describe_output(tool: str, subject: str, output: str) -> str:
    name = " ".join(word for word in split_identifier(tool) if word != "get") or "the tool"
    if output.strip().lower().startswith(_FAILURES):
        return f"I am sorry, {name} did not work: {_end_sentence(abbreviate(output, 300))}"
    prose = output_to_prose(output)
    source = f"{name} ({subject})" if subject else name
    return f"From {source}: {_end_sentence(prose)}" if prose else f"There is nothing to report from {source}."


def _end_sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def output_to_prose(output: str) -> str:
    """Put a tool's output in the words of a person.

    >>> output_to_prose('{"status": "shipped", "arrives": "2026-11-05"}')
    'status is shipped, arrives is 2026-11-05'
    """
    if output.lstrip()[:1] in ("{", "["):
        try:
            return abbreviate(_value_to_prose(json.loads(output), 0), 300)
        except (ValueError, RecursionError):
            pass
    return abbreviate(output, 300)


def _value_to_prose(value: Any, depth: int) -> str:
    if isinstance(value, dict) and depth < 4:
        return ", ".join(
            f"{' '.join(split_identifier(key)) or key} is {_value_to_prose(each, depth + 1)}" for key, each in list(value.items())[:8]
        )
    if isinstance(value, list) and depth < 4:
        return "; ".join(_value_to_prose(each, depth + 1) for each in value[:5]) or "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "unknown" if value is None else str(value)[:300]
