"""What a text offers to whoever fills in a form. May know: text. Decides: what is a name, an id, a date, a number.

Each thing is found once: the digits of a date are no number, and those of an order's id are no amount.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from typing import Any

from msgspec import Struct

LONGEST = 20_000  # characters of a text that are listened to
_MONTHS = ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"]
_MONTH = rf"(?:{'|'.join(f'{month[:3]}(?:{month[3:]})?' for month in _MONTHS)})\.?"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_NAME = r"(?!I['\u2019])[A-ZÀ-Þ][\w'\u2019-]*[a-zß-ÿ]"
_NAMES = rf"{_NAME}(?: {_NAME})?"

# In this order; what one finds is gone for those after it.
_FINDERS: dict[str, re.Pattern[str]] = {
    "uuid": re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"),
    "email": re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}\b"),
    "url": re.compile(r"\bhttps?://[^\s<>\"'“”]{1,500}[\w/=]"),
    "instant": re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d)?"),
    "date": re.compile(rf"\b\d{{4}}-\d\d-\d\d\b|\b{_DAY}\.? (?:of )?{_MONTH} \d{{4}}\b|\b{_MONTH} {_DAY},? \d{{4}}\b", re.IGNORECASE),
    "time": re.compile(r"\b(?:[01]?\d|2[0-3]):[0-5]\d\b"),
    "phone": re.compile(r"\+\d[\d ()-]{6,18}\d"),
    "quoted": re.compile(r"\"([^\"\n]{1,200})\"|“([^”\n]{1,200})”|\u2018([^\u2019\n]{1,200})\u2019|(?<!\w)'([^'\n]{1,200})'(?!\w)"),
    "currency": re.compile(r"\b(?:EUR|USD|GBP|CHF|JPY|SEK|CAD|AUD)\b|[€$£¥]"),
    "id": re.compile(r"#\s?([A-Za-z]{0,10}-?\d[\w-]{0,40})|\b(?=[\w-]{0,40}\d)(?=[\w-]{0,40}[A-Za-z])[A-Za-z0-9][\w-]{0,40}[A-Za-z0-9]\b"),
    "number": re.compile(r"(?<![\w.])-?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\w)|(?<![\w.])-?\d{1,15}(?:\.\d{1,9})?(?!\w|\.\d)"),
    "place": re.compile(rf"(?:(?<=\b[Ii]n )|(?<=\b[Tt]o )|(?<=\b[Ff]rom )){_NAMES}"),
    "name": re.compile(rf"(?<=[a-z0-9,;:] ){_NAMES}"),
}
_SIGNS = {"€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY"}
_ALSO: dict[str, tuple[str, ...]] = {"place": ("place", "name"), "name": ("name", "place")}


class Found(Struct, frozen=True):
    """Something that was said: of which kind, what, and in the how manieth text."""

    kind: str
    text: str
    source: int


class Hearing:
    """What some texts offer, the first text first.

    >>> heard = Hearing(["Please refund 49.90 for order A-17 to ann@example.com before 3 May 2026."])
    >>> {found.kind: found.text for found in heard.found}
    {'number': '49.90', 'id': 'A-17', 'email': 'ann@example.com', 'date': '2026-05-03'}
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = [text[:LONGEST].encode("utf-8", "replace").decode() for text in texts]
        self.found = [found for source, text in enumerate(self.texts) for found in _found(text, source)]
        self.facts: dict[str, list[Any]] = {}
        for text in self.texts:
            for name, value in _facts(text):
                self.facts.setdefault(name, []).append(value)
        self.used: list[Found] = []

    @property
    def sentence(self) -> str:
        """The first text on one line."""
        return " ".join(self.texts[0].split()) if self.texts else ""

    def take(self, kinds: Sequence[str], accept: Callable[[str], object], again: bool = True) -> Found | None:
        """The first thing of one of the kinds that is acceptable: one that was not used yet, else, `again`, one that was."""
        for used in (False, True) if again else (False,):
            for kind in kinds:
                for found in self.found:
                    if found.kind in _ALSO.get(kind, (kind,)) and (found in self.used) == used and accept(found.text):
                        self.used.append(found)
                        return found
        return None


def _found(text: str, source: int) -> Iterator[Found]:
    places: list[tuple[int, Found]] = []
    for kind, finder in _FINDERS.items():

        def note(match: re.Match[str], kind: str = kind) -> str:
            told = next((group for group in match.groups() if group), match[0])
            if said := _told(kind, told):
                places.append((match.start(), Found(kind, said, source)))
            return " " * len(match[0]) if kind != "quoted" else match[0]  # what is quoted may be an id as well

        text = finder.sub(note, text)
    places.sort(key=lambda place: place[0])
    return iter(dict.fromkeys(found for _, found in places))


def _told(kind: str, text: str) -> str:
    """It, as a form would have it; nothing if there is no such date."""
    match kind:
        case "date":
            return _day(text)
        case "currency":
            return _SIGNS.get(text, text)
        case "number":
            return text.replace(",", "")
        case "instant":
            text = text if text[16:17] == ":" else f"{text[:16]}:00{text[16:]}"
            return (text if text[19:] else f"{text}Z") if _day(text[:10]) and text[11:19] < "24" else ""
        case _:
            return text.strip()


def _day(text: str) -> str:
    if not text[:4].isdecimal():
        month = next(number for number, name in enumerate(_MONTHS, 1) if name[:3] in text.lower())
        day, year = re.findall(r"\d+", text)
        text = f"{year}-{month:02}-{int(day):02}"
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        return ""


def _facts(text: str) -> Iterator[tuple[str, Any]]:
    """The named values of a text that is JSON, as the outputs of tools often are."""
    if text.lstrip()[:1] not in ("{", "["):
        return
    try:
        waiting = [json.loads(text)]
    except (ValueError, RecursionError):
        return
    while waiting:
        value = waiting.pop(0)
        if isinstance(value, list):
            waiting += value[:20]
        elif isinstance(value, dict):
            yield from ((name.lower(), each) for name, each in value.items() if not isinstance(each, dict | list))
            waiting += [each for each in value.values() if isinstance(each, dict | list)]
