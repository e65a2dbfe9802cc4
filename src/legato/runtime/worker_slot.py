"""The slot that a driver works in, among those that its worker has."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from legato.models.base import Model

Done: TypeAlias = Callable[[object], None]
"""Called when a model request that was admitted has ended."""


class Slot:
    """A slot that admits every model request. A driver that has a slot gives it up instead of waiting."""

    refused: str = ""
    """The model that has no slot left for this driver, once a request was refused. It begins nothing more then."""

    def admit(self, model: Model, attempt: int) -> Done | None:
        """Let the driver request this model; what is returned is called when the request has ended. None: not now."""
        return _ignore

    def release(self) -> None:
        """The driver has ended."""


def _ignore(_: object) -> None:
    """Nothing is counted."""
