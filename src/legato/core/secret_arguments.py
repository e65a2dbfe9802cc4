"""Arguments as they may be shown. May know: JSON. Decides: what stands for a secret on pages, in logs and in events."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable

from legato.core.digests import digest_bytes

_HALF = re.compile("[\ud800-\udfff]")
_MASK = re.compile("secret:[0-9a-f]{16}")


class Secrets(tuple[str, ...]):
    """The names of a tool's secret arguments. One that is not among those it may show is secret too: it may be such a name, misspelled."""

    may_show: frozenset[str]

    def __new__(cls, names: Iterable[str], may_show: Iterable[str]) -> Secrets:
        made = super().__new__(cls, names)
        made.may_show = frozenset(may_show)
        return made

    def __contains__(self, name: object) -> bool:
        return name not in self.may_show


def masked(arguments: str, secrets: Collection[str] | None) -> str:
    """The arguments with the values of secret ones replaced by their digest; text that is no JSON object is hidden whole.

    Hidden whole are also those of a tool of which nobody knows what is secret (None): misspelled by a model, or removed.

    >>> masked('{"user":"ada","password":"hunter2"}', ["password"])
    '{"user": "ada", "password": "secret:0d8eee62d2ec63b1"}'
    """
    if secrets is None:
        return _hidden(arguments)
    if not secrets:
        return arguments
    try:
        values = json.loads(arguments)
        if not isinstance(values, dict):
            return _hidden(arguments)
        shown = {name: _hidden(json.dumps(value, sort_keys=True)) if name in secrets else value for name, value in values.items()}
        return _HALF.sub(_escaped, json.dumps(shown, ensure_ascii=False))
    except (ValueError, RecursionError):
        return _hidden(arguments)


def is_mask(value: object) -> bool:
    """Whether a value looks like what stands for a secret."""
    return isinstance(value, str) and _MASK.fullmatch(value) is not None


def _escaped(half: re.Match[str]) -> str:
    """Half of a surrogate pair as JSON can spell it: as a character, no text that has it could be sent or written."""
    return f"\\u{ord(half[0]):04x}"


def _hidden(text: str) -> str:
    return f"secret:{digest_bytes(text.encode('utf-8', 'surrogatepass'))[:16]}"
