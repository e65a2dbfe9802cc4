"""What a field of a form asks for. May know: English names of fields. Decides: which kinds of thing fit a name, and what to make up.

Made-up values are plausible and belong to nobody: e-mail addresses and links are of example.com.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta

from legato.emulator.minds.patterns import Draw

# Words of a field's name, and the kinds of thing that it then asks for. The first row with one of its words wins.
_ASKED: tuple[tuple[str, tuple[str, ...]], ...] = (
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
_KINDS = {word: (rank, kinds) for rank, (words, kinds) in enumerate(_ASKED) for word in words.split()}
_FORMATS = {
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
ANYTHING = ("quoted", "name", "id")
KEYS = ("id", "uuid", "email", "place", "name")  # kinds that say which one is meant: two of them are two questions

_PEOPLE = ("Ann Berg", "Sam Taylor", "Mira Costa", "Jon Weiss", "Lea Novak")
_PLACES = ("Lisbon", "Oslo", "Vienna", "Kyoto", "Montreal")
_TEXTS = ("as the customer asked", "a question about an order", "more details are needed", "please look into this")
_OTHERS = ("standard", "general", "other", "basic")


def words_of(name: str) -> list[str]:
    """The words that a name in code is made of.

    >>> words_of("customerEmail_address")
    ['customer', 'email', 'address']
    """
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\W\d_]+|\d+", name[:200])]


def asked(name: str, format: object = None) -> tuple[str, ...]:
    """The kinds of thing that a field of this name asks for; none if the name says nothing.

    >>> asked("order_id")[0], asked("customerEmail"), asked("colour")
    ('id', ('email',), ())
    """
    if isinstance(format, str) and format in _FORMATS:
        return _FORMATS[format]
    return min((_KINDS[word] for word in words_of(name) if word in _KINDS), default=(0, ()))[1]


def made_up(kind: str, draw: Draw, salt: int) -> str:
    """A thing of this kind; another salt gives another thing."""
    return _MAKERS.get(kind, _other)(draw, salt)


def _of(options: tuple[str, ...]) -> Callable[[Draw, int], str]:
    def choose(draw: Draw, salt: int) -> str:
        round, at = divmod(draw(len(options)) + salt, len(options))
        return options[at] + (f" {round + 1}" if round else "")

    return choose


def _day(draw: Draw, salt: int) -> str:
    return (date(2026, 11, 2) + timedelta(days=(draw(28) + salt) % 3_000)).isoformat()


def _clock(draw: Draw, salt: int) -> str:
    minutes = 9 * 60 + 15 * draw(32) + salt
    return f"{minutes // 60 % 24:02}:{minutes % 60:02}"


def _uuid(draw: Draw, salt: int) -> str:
    digits = "".join(f"{(draw(16**8) + salt) % 16**8:08x}" for _ in range(4))
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:]}"


def _email(draw: Draw, salt: int) -> str:
    return f"{_of(_PEOPLE)(draw, salt).lower().replace(' ', '.')}@example.com"


_other = _of(_OTHERS)
_MAKERS: dict[str, Callable[[Draw, int], str]] = {
    "email": _email,
    "url": lambda draw, salt: f"https://example.com/help/{1 + draw(90) + salt}",
    "phone": lambda draw, salt: f"+1 555 01{(draw(100) + salt) % 100:02}",
    "currency": _of(("EUR", "USD", "GBP", "CHF")),
    "paging": lambda draw, salt: str(5 + 5 * draw(2) + salt),
    "number": lambda draw, salt: str(1 + draw(9) + salt),
    "date": _day,
    "time": _clock,
    "clock": lambda draw, salt: f"{_clock(draw, salt)}:00Z",
    "instant": lambda draw, salt: f"{_day(draw, salt)}T{_clock(draw, 0)}:00Z",
    "id": lambda draw, salt: f"{'ABCDEFGH'[draw(8)]}-{1000 + draw(8000) + salt}",
    "uuid": _uuid,
    "place": _of(_PLACES),
    "name": _of(_PEOPLE),
    "text": _of(_TEXTS),
    "quoted": _of(_TEXTS),
    "host": lambda draw, salt: f"host{1 + draw(90) + salt}.example.com",
    "ipv4": lambda draw, salt: f"192.0.2.{(1 + draw(250) + salt) % 256}",
    "ipv6": lambda draw, salt: f"2001:db8::{1 + draw(250) + salt:x}",
    "duration": lambda draw, salt: f"P{1 + draw(6) + salt}D",
}
