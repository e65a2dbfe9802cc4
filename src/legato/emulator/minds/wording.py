"""How the desk puts things. May know: text and JSON. Decides: words, never what is done."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from legato.emulator.minds.concerns import in_brief, is_going_on, is_greeting, is_thanks
from legato.emulator.minds.dice import Dice
from legato.emulator.minds.guesses import words_of

_CLOSINGS = ("Is there anything else I can help you with?", "Let me know if you need anything else.", "I hope that helps.", "")
_NOTHING_TO_DO = (
    "Thank you for your message. You asked: “{said}”. I have made a note of it and a colleague will get back to you.",
    "I understand your question, “{said}”. Could you tell me a little more, so that I can help you properly?",
    "About “{said}”: I am happy to help. Is there an order number or a date that goes with it?",
)
_BEFORE_CALLS = ("Let me look into that for you.", "One moment, please.", "I will check that.")
_FAILURES = ("error", "failed", "failure", "exception", "traceback")


def small_talk(said: str) -> str:
    """The answer to somebody who wants nothing yet; empty if they do."""
    if not said.strip() or is_greeting(said):
        return "Hello! How can I help you today?"
    if is_going_on(said):
        return "I have nothing to add: my part is done."
    return "You are welcome! Have a good day." if is_thanks(said) else ""


def nothing_fits(said: str, draw: Dice) -> str:
    """A polite sentence that shows what was understood."""
    return _NOTHING_TO_DO[draw(len(_NOTHING_TO_DO))].replace("{said}", in_brief(said))


def before_calls(draw: Dice) -> str:
    """What is sometimes said before a call."""
    return _BEFORE_CALLS[draw(len(_BEFORE_CALLS))] if draw(3) == 0 else ""


def summary(outputs: Sequence[tuple[str, str, str]], draw: Dice) -> str:
    """What came of it, from the tools' outputs: of each the tool, what it was asked about, and the output."""
    sentences = [_sentence(*output) for output in outputs[-6:]]
    return " ".join(filter(None, [*sentences, _CLOSINGS[draw(len(_CLOSINGS))]]))


def subject(arguments: str) -> str:
    """What a call was about: the short ones among its arguments.

    >>> subject('{"city": "Paris", "days": 3}')
    'Paris, 3'
    """
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return ""
    values = given.values() if isinstance(given, dict) else ()
    return in_brief(", ".join(str(value) for value in values if isinstance(value, str | int | float) and len(str(value)) < 30), 60)


def _sentence(tool: str, about: str, output: str) -> str:
    name = " ".join(word for word in words_of(tool) if word != "get") or "the tool"
    if output.strip().lower().startswith(_FAILURES):
        return f"I am sorry, {name} did not work: {_ended(in_brief(output, 300))}"
    told = in_words(output)
    where = f"{name} ({about})" if about else name
    return f"From {where}: {_ended(told)}" if told else f"There is nothing to report from {where}."


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def in_words(output: str) -> str:
    """A tool's output as a person would say it.

    >>> in_words('{"status": "shipped", "arrives": "2026-11-05"}')
    'status is shipped, arrives is 2026-11-05'
    """
    if output.lstrip()[:1] in ("{", "["):
        try:
            return in_brief(_told(json.loads(output), 0), 300)
        except (ValueError, RecursionError):
            pass
    return in_brief(output, 300)


def _told(value: Any, depth: int) -> str:
    if isinstance(value, dict) and depth < 4:
        return ", ".join(f"{' '.join(words_of(key)) or key} is {_told(each, depth + 1)}" for key, each in list(value.items())[:8])
    if isinstance(value, list) and depth < 4:
        return "; ".join(_told(each, depth + 1) for each in value[:5]) or "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "unknown" if value is None else str(value)[:300]
