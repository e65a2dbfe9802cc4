"""The entities of a text: names, ids, dates, numbers and other values for arguments.

Each entity is found once: the digits of a date are no number, and those of an order's id are no amount.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from typing import Any

from msgspec import Struct

MAX_TEXT_CHARS = 20_000  # the rest of a text is not read
_MONTHS = ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"]
_MONTH = rf"(?:{'|'.join(f'{month[:3]}(?:{month[3:]})?' for month in _MONTHS)})\.?"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_NAME = r"(?!I['\u2019])[A-ZÀ-Þ][\w'\u2019-]*[a-zß-ÿ]"
_NAMES = rf"{_NAME}(?: {_NAME})?"

# In this order: a match is removed from the text before the next pattern.
_ENTITY_PATTERNS: dict[str, re.Pattern[str]] = {
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
_CURRENCY_SIGNS = {"€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY"}
_COMPATIBLE_KINDS: dict[str, tuple[str, ...]] = {"place": ("place", "name"), "name": ("name", "place")}


class TextEntity(Struct, frozen=True):
    """An entity of a text: its kind, its normalized text, and the index of the text that has it."""

    kind: str
    text: str
    text_index: int


class TextEntities:
    """The entities of some texts, those of the first text first.

    >>> texts = ["Please refund 49.90 for order A-17 to ann@example.com before 3 May 2026."]
    >>> {entity.kind: entity.text for entity in TextEntities(texts).entities}
    {'number': '49.90', 'id': 'A-17', 'email': 'ann@example.com', 'date': '2026-05-03'}
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = [text[:MAX_TEXT_CHARS].encode("utf-8", "replace").decode() for text in texts]
        self.entities = [entity for text_index, text in enumerate(self.texts) for entity in _find_entities(text, text_index)]
        self.named_values: dict[str, list[Any]] = {}
        for text in self.texts:
            for name, value in _find_named_values(text):
                self.named_values.setdefault(name, []).append(value)
        self.used_entities: list[TextEntity] = []

    @property
    def first_text(self) -> str:
        """The first text on one line."""
        return " ".join(self.texts[0].split()) if self.texts else ""

    def take_entity(self, kinds: Sequence[str], accept: Callable[[str], object], allow_reuse: bool = True) -> TextEntity | None:
        """Take the first accepted entity of one of the kinds: an unused one, else, with `allow_reuse`, a used one."""
        for is_used in (False, True) if allow_reuse else (False,):
            for kind in kinds:
                for entity in self.entities:
                    if (
                        entity.kind in _COMPATIBLE_KINDS.get(kind, (kind,))
                        and (entity in self.used_entities) == is_used
                        and accept(entity.text)
                    ):
                        self.used_entities.append(entity)
                        return entity
        return None


def _find_entities(text: str, text_index: int) -> Iterator[TextEntity]:
    positions: list[tuple[int, TextEntity]] = []
    for kind, pattern in _ENTITY_PATTERNS.items():

        def record(match: re.Match[str], kind: str = kind) -> str:
            matched_text = next((group for group in match.groups() if group), match[0])
            if normalized := _normalize(kind, matched_text):
                positions.append((match.start(), TextEntity(kind, normalized, text_index)))
            return " " * len(match[0]) if kind != "quoted" else match[0]  # a quoted text may also be an id

        text = pattern.sub(record, text)
    positions.sort(key=lambda pair: pair[0])
    return iter(dict.fromkeys(entity for _, entity in positions))


def _normalize(kind: str, text: str) -> str:
    """Normalize the text of an entity; empty for a date that does not exist."""
    match kind:
        case "date":
            return _to_iso_date(text)
        case "currency":
            return _CURRENCY_SIGNS.get(text, text)
        case "number":
            return text.replace(",", "")
        case "instant":
            text = text if text[16:17] == ":" else f"{text[:16]}:00{text[16:]}"
            return (text if text[19:] else f"{text}Z") if _to_iso_date(text[:10]) and text[11:19] < "24" else ""
        case _:
            return text.strip()


def _to_iso_date(text: str) -> str:
    if not text[:4].isdecimal():
        month = next(number for number, name in enumerate(_MONTHS, 1) if name[:3] in text.lower())
        day, year = re.findall(r"\d+", text)
        text = f"{year}-{month:02}-{int(day):02}"
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        return ""


def _find_named_values(text: str) -> Iterator[tuple[str, Any]]:
    """Yield the named values of a JSON text. Outputs of tools are often JSON."""
    if text.lstrip()[:1] not in ("{", "["):
        return
    try:
        pending = [json.loads(text)]
    except (ValueError, RecursionError):
        return
    while pending:
        value = pending.pop(0)
        if isinstance(value, list):
            pending += value[:20]
        elif isinstance(value, dict):
            yield from ((name.lower(), each) for name, each in value.items() if not isinstance(each, dict | list))
            pending += [each for each in value.values() if isinstance(each, dict | list)]
