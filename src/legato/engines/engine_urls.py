"""The URLs of engines: `temporal://...` and `restate://...`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from legato.engines.engine import Engine
from legato.errors import BadInput, install_hint

MAX_OPTION_SECONDS = 86_400.0
"""The largest value of an option in seconds."""


@dataclass(frozen=True)
class EngineUrl:
    """The parts of an engine's URL: `scheme://host:port/path?name=value`."""

    scheme: str
    host: str
    port: int
    path: str
    options: dict[str, str] = field(default_factory=dict)


def parse_engine_url(text: str, schemes: tuple[str, ...], port: int, options: tuple[str, ...]) -> EngineUrl:
    """Parse a URL. Raise `BadInput` if it has another scheme or an unknown option."""
    parts = urlsplit(text)
    expected = f"{schemes[0]}://host:{port}" + (f"?{options[0]}=..." if options else "")
    try:
        found = parts.port
    except ValueError:
        found = -1
    if parts.username is not None:
        do = "leave it out: credentials are configured elsewhere"
        raise BadInput("the URL of an engine has no user or password", expected=expected, found=repr(mask_credentials(text)), do=do)
    if parts.scheme not in schemes or not parts.hostname or found == -1:
        raise BadInput("this is not the URL of an engine", expected=expected, found=repr(mask_credentials(text)), do="look at --help")
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in given:
        if name not in options:
            raise BadInput(
                f"an address of {parts.scheme} has no option {name!r}", expected=", ".join(options), found=repr(mask_credentials(text))
            )
    return EngineUrl(parts.scheme, parts.hostname, found or port, unquote(parts.path.strip("/")), given)


def mask_credentials(text: str) -> str:
    """Return a URL without user names and passwords, also in the URLs among its options.

    >>> mask_credentials("restate://127.0.0.1:8080?admin=http://ops:hunter2@127.0.0.1:9070")
    'restate://127.0.0.1:8080?admin=http://127.0.0.1:9070'
    """
    return "://".join(part.rpartition("@")[2] for part in unquote(text).split("://"))


def mask_credentials_in_text(text: str) -> str:
    """Return a text of another program without the user names and passwords of its URLs."""
    return re.sub(r"\S+", lambda word: mask_credentials(word[0]) if "@" in unquote(word[0]) else word[0], text)


def read_seconds_option(url: EngineUrl, name: str, default: float) -> float:
    """Return an option that is a number of seconds."""
    text = url.options.get(name, "")
    try:
        value = float(text) if text else default
    except ValueError:
        value = 0.0
    if not 0 < value <= MAX_OPTION_SECONDS:
        raise BadInput(f"{name}={text} is not a number of seconds above 0, and at most a day", do=f"write {name}=10")
    return value


def _make_temporal_engine(text: str) -> Engine:
    from legato.engines.temporal.engine import TemporalEngine

    return TemporalEngine(text)


def _make_restate_engine(text: str) -> Engine:
    from legato.engines.restate.engine import RestateEngine

    return RestateEngine(text)


ENGINE_FACTORIES: dict[str, Callable[[str], Engine]] = {
    "temporal": _make_temporal_engine,
    "restate": _make_restate_engine,
    "restates": _make_restate_engine,
}


def open_engine(text: str) -> Engine:
    """Return the engine at a URL, such as `temporal://127.0.0.1:7233/default` or `restate://127.0.0.1:8080`."""
    make = ENGINE_FACTORIES.get(text.partition("://")[0])
    if make is None:
        raise BadInput("this is not the URL of an engine", expected="temporal://... or restate://...", found=repr(mask_credentials(text)))
    return make(text)


def has_explicit_queue(text: str) -> bool:
    """Return True if a URL names the queue or service that its workers share."""
    return any(name in ("queue", "service") and value for name, value in parse_qsl(urlsplit(text).query))


def missing_package_error(package: str, extra: str) -> BadInput:
    """Return the error for an engine whose package is not installed."""
    return BadInput(f"this engine needs {package}, which is not installed", do=install_hint(extra))
