"""Whether a caller gave what was asked for. May know: nothing. Decides: how that is told when it is not so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeGuard, TypeVar

from legato.errors import BadInput

T = TypeVar("T")


def provides(given: object, protocol: Callable[..., T]) -> TypeGuard[T]:
    """Whether an object has all members of a protocol. A wrapper that passes them on with `__getattr__` has them.

    `isinstance` does not ask `__getattr__` since Python 3.12.
    """
    return all(hasattr(given, name) for name in vars(protocol) if not name.startswith("_"))


def listed(what: str, given: Iterable[T], error: type[BadInput] = BadInput) -> tuple[T, ...]:
    """Several things, as a tuple. A string is one thing, and so is nothing at all.

    >>> listed("tools", [1, 2])
    (1, 2)
    """
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise error(f"{what} are given as a list", found=repr(given)[:80], do="write [...], or leave it out for none")
    return tuple(given)


def mapped(what: str, given: Any, error: type[BadInput] = BadInput) -> Mapping[Any, Any]:
    """Things by name."""
    if not isinstance(given, Mapping):
        raise error(f"{what} are given by name", found=repr(given)[:80], do="write {...}")
    return given


def whole_number(what: str, given: Any, least: int, error: type[BadInput] = BadInput) -> int:
    """A whole number that is large enough."""
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        raise error(f"{what} is a number from {least} on", found=repr(given)[:80])
    return given


def function(what: str, given: Any, error: type[BadInput] = BadInput) -> Callable[..., Any]:
    """Something that can be called."""
    if not callable(given):
        raise error(f"{what} is a function", found=repr(given)[:80])
    return given  # type: ignore[no-any-return]


def text(what: str, given: Any, error: type[BadInput] = BadInput) -> str:
    """Text, maybe empty."""
    if not isinstance(given, str):
        raise error(f"{what} is text", found=repr(given)[:80], do="give a string")
    return given


def secret_key(what: str, given: Any) -> bytes:
    """A key to sign with."""
    if not isinstance(given, (bytes, bytearray)) or not given:
        raise BadInput(f"{what} is a key: one or more bytes", found=type(given).__name__, do='write b"...", or os.urandom(32) once')
    return bytes(given)
