"""Engines by address. May know: how addresses are written. Decides: what `temporal://...` and `restate://...` stand for."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from legato.engines.contract import Engine
from legato.errors import BadInput, install_hint

LONGEST = 86_400.0
"""Seconds that an option may say."""


@dataclass(frozen=True)
class Address:
    """The parts of an address: `scheme://host:port/path?name=value`."""

    scheme: str
    host: str
    port: int
    path: str
    options: dict[str, str] = field(default_factory=dict)


def address(text: str, schemes: tuple[str, ...], port: int, options: tuple[str, ...]) -> Address:
    """Read an address; `BadInput` if it is not one of these, or has an option that is not known."""
    parts = urlsplit(text)
    expected = f"{schemes[0]}://host:{port}" + (f"?{options[0]}=..." if options else "")
    try:
        found = parts.port
    except ValueError:
        found = -1
    if parts.username is not None:
        do = "leave it out: who comes, and with which key, is not said here"
        raise BadInput("an address of an engine has no name or password", expected=expected, found=repr(shown(text)), do=do)
    if parts.scheme not in schemes or not parts.hostname or found == -1:
        raise BadInput("this is no address of an engine", expected=expected, found=repr(shown(text)), do="look at --help")
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in given:
        if name not in options:
            raise BadInput(f"an address of {parts.scheme} has no option {name!r}", expected=", ".join(options), found=repr(shown(text)))
    return Address(parts.scheme, parts.hostname, found or port, unquote(parts.path.strip("/")), given)


def shown(text: str) -> str:
    """An address as people and logs are shown it: without who comes and with which password, also in the addresses that it names.

    >>> shown("restate://127.0.0.1:8080?admin=http://ops:hunter2@127.0.0.1:9070")
    'restate://127.0.0.1:8080?admin=http://127.0.0.1:9070'
    """
    return "://".join(part.rpartition("@")[2] for part in unquote(text).split("://"))


def shown_within(text: str) -> str:
    """What somebody else said, in which there may be addresses."""
    return re.sub(r"\S+", lambda word: shown(word[0]) if "@" in unquote(word[0]) else word[0], text)


def number(where: Address, name: str, default: float) -> float:
    """An option that is a number of seconds."""
    text = where.options.get(name, "")
    try:
        value = float(text) if text else default
    except ValueError:
        value = 0.0
    if not 0 < value <= LONGEST:
        raise BadInput(f"{name}={text} is not a number of seconds above 0, and at most a day", do=f"write {name}=10")
    return value


def _temporal(text: str) -> Engine:
    from legato.engines.temporal import TemporalEngine

    return TemporalEngine(text)


def _restate(text: str) -> Engine:
    from legato.engines.restate import RestateEngine

    return RestateEngine(text)


ENGINES: dict[str, Callable[[str], Engine]] = {"temporal": _temporal, "restate": _restate, "restates": _restate}


def engine_at(text: str) -> Engine:
    """The engine at an address: `temporal://127.0.0.1:7233/default`, `restate://127.0.0.1:8080`."""
    make = ENGINES.get(text.partition("://")[0])
    if make is None:
        raise BadInput("this is no address of an engine", expected="temporal://... or restate://...", found=repr(shown(text)))
    return make(text)


def names_a_queue(text: str) -> bool:
    """Whether an address says for itself which queue, or service, its workers share."""
    return any(name in ("queue", "service") and value for name, value in parse_qsl(urlsplit(text).query))


def needs(package: str, extra: str) -> BadInput:
    """What an engine needs is not installed."""
    return BadInput(f"this engine needs {package}, which is not installed", do=install_hint(extra))
