"""Checks of arguments that users pass, with errors that say what to write instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeGuard, TypeVar

from legato.errors import BadInput

T = TypeVar("T")


def implements_protocol(value: object, protocol: Callable[..., T]) -> TypeGuard[T]:
    """Return True if an object has all members of a protocol, also if it forwards them with `__getattr__`.

    `isinstance` does not call `__getattr__` since Python 3.12.
    """
    return all(hasattr(value, name) for name in vars(protocol) if not name.startswith("_"))


def require_list(name: str, value: Iterable[T], error: type[BadInput] = BadInput) -> tuple[T, ...]:
    """Return the elements of an iterable as a tuple. A string is no list.

    >>> require_list("tools", [1, 2])
    (1, 2)
    """
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise error(f"{name} must be a list", found=repr(value)[:80], do="write [...], or leave it out for none")
    return tuple(value)


def require_mapping(name: str, value: Any, error: type[BadInput] = BadInput) -> Mapping[Any, Any]:
    """Return a mapping as it is."""
    if not isinstance(value, Mapping):
        raise error(f"{name} must be a mapping", found=repr(value)[:80], do="write {...}")
    return value


def require_whole_number(name: str, value: Any, minimum: int, error: type[BadInput] = BadInput) -> int:
    """Return a whole number that is at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise error(f"{name} must be a whole number, at least {minimum}", found=repr(value)[:80])
    return value


def require_function(name: str, value: Any, error: type[BadInput] = BadInput) -> Callable[..., Any]:
    """Return a callable as it is."""
    if not callable(value):
        raise error(f"{name} must be a function", found=repr(value)[:80])
    return value  # type: ignore[no-any-return]


def require_text(name: str, value: Any, error: type[BadInput] = BadInput) -> str:
    """Return a string as it is, also an empty one."""
    if not isinstance(value, str):
        raise error(f"{name} must be text", found=repr(value)[:80], do="pass a string")
    return value


def require_secret_key(name: str, value: Any) -> bytes:
    """Return a signing key as bytes."""
    if not isinstance(value, (bytes, bytearray)) or not value:
        raise BadInput(f"{name} must be a key of one or more bytes", found=type(value).__name__, do='write b"...", or os.urandom(32) once')
    return bytes(value)
