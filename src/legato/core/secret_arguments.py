"""Masking of secret tool arguments, for pages, logs and events."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable

from legato.core.digests import digest_bytes

_SURROGATE = re.compile("[\ud800-\udfff]")
_MASK = re.compile("secret:[0-9a-f]{16}")


class SecretNames(tuple[str, ...]):
    """The names of a tool's secret arguments.

    A name that is not in `visible_names` counts as secret too: it may be a misspelled one.
    """

    visible_names: frozenset[str]

    def __new__(cls, names: Iterable[str], visible_names: Iterable[str]) -> SecretNames:
        secrets = super().__new__(cls, names)
        secrets.visible_names = frozenset(visible_names)
        return secrets

    def __contains__(self, name: object) -> bool:
        return name not in self.visible_names


def mask_arguments(arguments: str, secrets: Collection[str] | None) -> str:
    """Return the arguments with each secret value replaced by its digest. Text that is not a JSON object is masked as a whole.

    `secrets` is None for a tool that the workflow does not have, misspelled by a model or removed: its arguments are masked as a whole.

    >>> mask_arguments('{"user":"ada","password":"hunter2"}', ["password"])
    '{"user": "ada", "password": "secret:0d8eee62d2ec63b1"}'
    """
    if secrets is None:
        return _make_mask(arguments)
    if not secrets:
        return arguments
    try:
        values = json.loads(arguments)
        if not isinstance(values, dict):
            return _make_mask(arguments)
        masked = {name: _make_mask(json.dumps(value, sort_keys=True)) if name in secrets else value for name, value in values.items()}
        return _SURROGATE.sub(_escape_surrogate, json.dumps(masked, ensure_ascii=False))
    except (ValueError, RecursionError):
        return _make_mask(arguments)


def is_mask(value: object) -> bool:
    """Return True if a value looks like the mask of a secret."""
    return isinstance(value, str) and _MASK.fullmatch(value) is not None


def _escape_surrogate(match: re.Match[str]) -> str:
    """Escape half of a surrogate pair as JSON does: a text with the bare character could not be sent or stored."""
    return f"\\u{ord(match[0]):04x}"


def _make_mask(text: str) -> str:
    return f"secret:{digest_bytes(text.encode('utf-8', 'surrogatepass'))[:16]}"
