"""Placeholder values for the fields of a JSON schema, by the English names of the fields.

Placeholders are plausible and belong to no real person: e-mail addresses and links are of example.com.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta

from legato.emulator.fake_models.patterns import Draw

# Words of a field's name, and the kinds of values that fit. The first row with one of the words wins.
_FIELD_WORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("email mail", ("email",)),
    ("url uri link website href", ("url",)),
    ("phone mobile telephone tel", ("phone",)),
    ("currency", ("currency",)),
    ("page limit offset top max min size depth", ("paging",)),
    ("count quantity qty people guests nights days hours year age percent weight", ("number",)),
    ("date day deadline due since until start end arrival departure checkin checkout birthday", ("date",)),
    ("time hour", ("time",)),
    ("id ids number no ref reference code sku uuid key", ("id", "uuid", "number", "quoted")),
    ("amount price total sum cents cost budget fee", ("number",)),
    ("city place location town country destination origin region address where airport", ("place",)),
    ("title subject topic keyword keywords term product item label", ("quoted", "name", "text")),
    ("message text body content comment note notes", ("quoted", "text")),
    ("query q question search reason request prompt description summary task input details problem issue", ("text",)),
    ("to recipient recipients", ("email", "name", "place")),
    ("from sender", ("place", "email", "name")),
    ("name customer person user author who client contact employee assignee", ("name",)),
    ("order orders ticket invoice account case booking tracking shipment", ("id", "uuid", "number", "quoted")),
)
_KINDS_BY_WORD = {word: (rank, kinds) for rank, (words, kinds) in enumerate(_FIELD_WORDS) for word in words.split()}
_KINDS_BY_FORMAT = {
    "date": ("date",),
    "date-time": ("instant",),
    "time": ("clock",),
    "email": ("email",),
    "idn-email": ("email",),
    "uri": ("url",),
    "url": ("url",),
    "uri-reference": ("url",),
    "iri": ("url",),
    "uuid": ("uuid",),
    "hostname": ("host",),
    "ipv4": ("ipv4",),
    "ipv6": ("ipv6",),
    "duration": ("duration",),
}
GENERIC_KINDS = ("quoted", "name", "id")
IDENTIFYING_KINDS = ("id", "uuid", "email", "place", "name")  # kinds that identify something: two of them in a text are two questions

_PEOPLE = ("Ann Berg", "Sam Taylor", "Mira Costa", "Jon Weiss", "Lea Novak")
_PLACES = ("Lisbon", "Oslo", "Vienna", "Kyoto", "Montreal")
_TEXTS = ("as the customer asked", "a question about an order", "more details are needed", "please look into this")
_OTHERS = ("standard", "general", "other", "basic")


def split_identifier(name: str) -> list[str]:
    """Split a name in code into its words.

    >>> split_identifier("customerEmail_address")
    ['customer', 'email', 'address']
    """
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\W\d_]+|\d+", name[:200])]


def list_field_kinds(name: str, format: object = None) -> tuple[str, ...]:
    """Return the kinds of values that fit a field with this name; none if the name says nothing.

    >>> list_field_kinds("order_id")[0], list_field_kinds("customerEmail"), list_field_kinds("colour")
    ('id', ('email',), ())
    """
    if isinstance(format, str) and format in _KINDS_BY_FORMAT:
        return _KINDS_BY_FORMAT[format]
    return min((_KINDS_BY_WORD[word] for word in split_identifier(name) if word in _KINDS_BY_WORD), default=(0, ()))[1]


def make_placeholder(kind: str, draw: Draw, salt: int) -> str:
    """Return a value of this kind. Another salt gives another value."""
    return _MAKERS.get(kind, _make_other)(draw, salt)


def _choose_from(options: tuple[str, ...]) -> Callable[[Draw, int], str]:
    def choose(draw: Draw, salt: int) -> str:
        round, at = divmod(draw(len(options)) + salt, len(options))
        return options[at] + (f" {round + 1}" if round else "")

    return choose


def _make_date(draw: Draw, salt: int) -> str:
    return (date(2026, 11, 2) + timedelta(days=(draw(28) + salt) % 3_000)).isoformat()


def _make_time(draw: Draw, salt: int) -> str:
    minutes = 9 * 60 + 15 * draw(32) + salt
    return f"{minutes // 60 % 24:02}:{minutes % 60:02}"


def _make_uuid(draw: Draw, salt: int) -> str:
    digits = "".join(f"{(draw(16**8) + salt) % 16**8:08x}" for _ in range(4))
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:]}"


def _make_email(draw: Draw, salt: int) -> str:
    return f"{_choose_from(_PEOPLE)(draw, salt).lower().replace(' ', '.')}@example.com"


_make_other = _choose_from(_OTHERS)
_MAKERS: dict[str, Callable[[Draw, int], str]] = {
    "email": _make_email,
    "url": lambda draw, salt: f"https://example.com/help/{1 + draw(90) + salt}",
    "phone": lambda draw, salt: f"+1 555 01{(draw(100) + salt) % 100:02}",
    "currency": _choose_from(("EUR", "USD", "GBP", "CHF")),
    "paging": lambda draw, salt: str(5 + 5 * draw(2) + salt),
    "number": lambda draw, salt: str(1 + draw(9) + salt),
    "date": _make_date,
    "time": _make_time,
    "clock": lambda draw, salt: f"{_make_time(draw, salt)}:00Z",
    "instant": lambda draw, salt: f"{_make_date(draw, salt)}T{_make_time(draw, 0)}:00Z",
    "id": lambda draw, salt: f"{'ABCDEFGH'[draw(8)]}-{1000 + draw(8000) + salt}",
    "uuid": _make_uuid,
    "place": _choose_from(_PLACES),
    "name": _choose_from(_PEOPLE),
    "text": _choose_from(_TEXTS),
    "quoted": _choose_from(_TEXTS),
    "host": lambda draw, salt: f"host{1 + draw(90) + salt}.example.com",
    "ipv4": lambda draw, salt: f"192.0.2.{(1 + draw(250) + salt) % 256}",
    "ipv6": lambda draw, salt: f"2001:db8::{1 + draw(250) + salt:x}",
    "duration": lambda draw, salt: f"P{1 + draw(6) + salt}D",
}
