"""The relevance of tools to a text, by English keywords."""

from __future__ import annotations

import re

MAX_TEXT_CHARS = 20_000  # the rest of a text is not read

_STOP_WORDS_TEXT = """
    a about after again all also am an and any anything are as at back be been before but by can could did do does done for from give
    had has have hello help her hers hey hi him his how i if in into is it its just kindly know let like look make may me more much my
    need no not of on one or other our out please put see she should show so some tell thank thanks that the their them then there
    these they thing this those to too up us use used using very via want was we well were what when where which while who why will
    with would you your yours okay
    agent assistant team specialist desk expert function tool get given return returns call handle handles handoff hand question
    questions customer customers user users someone everything conversation over
"""
_STOP_WORDS = frozenset(_STOP_WORDS_TEXT.split())
_SYNONYMS = {
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
_GREETING_WORDS = frozenset(["hello", "hi", "hey", "morning", "afternoon", "evening", "good", "greetings"])
_THANKS_WORDS = frozenset(["thanks", "thank", "cheers", "bye", "goodbye"])
_CONTINUE_REQUEST = re.compile(r"\s*(please\s+)?(go on|carry on|keep going|continue|proceed)\b", re.IGNORECASE)
_WORD_ENDINGS = (("ies", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("s", ""))


def extract_keywords(text: str) -> list[str]:
    """Return the keywords of a text, each once, in a form that is the same for a word, its plural and its synonyms.

    >>> extract_keywords("Where are my parcels? I want my money back!")
    ['order', 'refund']
    """
    words = re.findall(r"[^\W\d_]{2,}", text[:MAX_TEXT_CHARS].lower().replace("money back", "refund").replace("'", ""))
    return list(dict.fromkeys(_canonical_word(word) for word in words if word not in _STOP_WORDS))


def _canonical_word(word: str) -> str:
    for form in (word, _stem(word), f"{_stem(word)}e"):
        if form in _SYNONYMS:
            return _SYNONYMS[form]
    return _stem(word)


def _stem(word: str) -> str:
    for ending, replacement in _WORD_ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word[: len(word) - len(ending)] + replacement
    return word


def score_relevance(text_keywords: list[str], name_keywords: list[str], description_keywords: list[str]) -> int:
    """Score the relevance of a tool to a text: three points for each keyword of its name, one for each of its description, two at most."""
    return 3 * len(set(text_keywords) & set(name_keywords)) + min(2, len(set(text_keywords) & set(description_keywords)))


def is_greeting(text: str) -> bool:
    """Return True if a text is only a greeting."""
    words = re.findall(r"[^\W\d_]+", text[:200].lower())
    return bool(words) and len(words) <= 4 and words[0] in _GREETING_WORDS and not extract_keywords(" ".join(set(words) - _GREETING_WORDS))


def is_thanks(text: str) -> bool:
    """Return True if a text is only thanks or a farewell."""
    words = re.findall(r"[^\W\d_]+", text[:200].lower())
    return (
        bool(words)
        and len(words) <= 8
        and bool(_THANKS_WORDS & set(words))
        and len(extract_keywords(" ".join(set(words) - _THANKS_WORDS))) <= 1
    )


def is_continue_request(text: str) -> bool:
    """Return True if a text asks an agent to go on, as prompts of autonomous agents do."""
    return _CONTINUE_REQUEST.match(text[:200]) is not None


def abbreviate(text: str, max_chars: int = 90) -> str:
    """Return the beginning of a text on one line, cut between words."""
    line = " ".join(text[:MAX_TEXT_CHARS].encode("utf-8", "replace").decode().split())
    if len(line) <= max_chars:
        return line
    beginning = line[:max_chars].rsplit(" ", 1)[0] if " " in line[:max_chars] else line[:max_chars]
    return f"{beginning}..."
