"""Whether words concern a thing. May know: a little English. Decides: which words count, and which of them mean the same."""

from __future__ import annotations

import re

LONGEST = 20_000  # characters of a text that are read

_EMPTY = """
    a about after again all also am an and any anything are as at back be been before but by can could did do does done for from give
    had has have hello help her hers hey hi him his how i if in into is it its just kindly know let like look make may me more much my
    need no not of on one or other our out please put see she should show so some tell thank thanks that the their them then there
    these they thing this those to too up us use used using very via want was we well were what when where which while who why will
    with would you your yours okay
    agent assistant team specialist desk expert function tool get given return returns call handle handles handoff hand question
    questions customer customers user users someone everything conversation over
"""
_WITHOUT_MEANING = frozenset(_EMPTY.split())
_SAME = {
    word: meaning
    for meaning, words in {
        "refund": "reimburse reimbursement",
        "order": "parcel package delivery deliver shipping shipment ship tracking track",
        "bill": "billing invoice charge payment pay paid",
        "technical": "tech bug error crash broken login password install",
        "sale": "buy purchase",
        "research": "researcher study investigate analyse analyze analysis analyst source compare",
        "search": "find lookup",
        "write": "writer writing draft report article essay blog editor edit",
        "weather": "forecast temperature rain sunny",
        "cancel": "cancellation",
    }.items()
    for word in words.split()
}
_GREETING = frozenset(["hello", "hi", "hey", "morning", "afternoon", "evening", "good", "greetings"])
_THANKS = frozenset(["thanks", "thank", "cheers", "bye", "goodbye"])
_GOING_ON = re.compile(r"\s*(please\s+)?(go on|carry on|keep going|continue|proceed)\b", re.IGNORECASE)
_ENDINGS = (("ies", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("s", ""))


def meanings(text: str) -> list[str]:
    """The words of a text that mean something, each once, in a form that is the same for a word and its plural.

    >>> meanings("Where are my parcels? I want my money back!")
    ['order', 'refund']
    """
    words = re.findall(r"[^\W\d_]{2,}", text[:LONGEST].lower().replace("money back", "refund").replace("'", ""))
    return list(dict.fromkeys(_meaning(word) for word in words if word not in _WITHOUT_MEANING))


def _meaning(word: str) -> str:
    for form in (word, _stem(word), f"{_stem(word)}e"):
        if form in _SAME:
            return _SAME[form]
    return _stem(word)


def _stem(word: str) -> str:
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word[: len(word) - len(ending)] + instead
    return word


def concern(said: list[str], name: list[str], description: list[str]) -> int:
    """How much what was said concerns a thing: three for each word of its name, one for a word of its description, two at most."""
    return 3 * len(set(said) & set(name)) + min(2, len(set(said) & set(description)))


def is_greeting(text: str) -> bool:
    """Nothing but a greeting."""
    words = re.findall(r"[^\W\d_]+", text[:200].lower())
    return bool(words) and len(words) <= 4 and words[0] in _GREETING and not meanings(" ".join(set(words) - _GREETING))


def is_thanks(text: str) -> bool:
    """Nothing but thanks or a farewell."""
    words = re.findall(r"[^\W\d_]+", text[:200].lower())
    return bool(words) and len(words) <= 8 and bool(_THANKS & set(words)) and len(meanings(" ".join(set(words) - _THANKS))) <= 1


def is_going_on(text: str) -> bool:
    """Somebody is told to go on with what they do, as agents are that work by themselves."""
    return _GOING_ON.match(text[:200]) is not None


def in_brief(text: str, most: int = 90) -> str:
    """The beginning of a text on one line, cut between words."""
    line = " ".join(text[:LONGEST].encode("utf-8", "replace").decode().split())
    if len(line) <= most:
        return line
    cut = line[:most].rsplit(" ", 1)[0] if " " in line[:most] else line[:most]
    return f"{cut}..."
