"""The slots of a worker that its drivers work in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from legato.models.model import Model

OnRequestEnd: TypeAlias = Callable[[object], None]
"""A function that is called when an admitted model request has ended."""


class WorkerSlot:
    """A slot that admits every model request. A driver with a slot ends instead of waiting, so that another session can use the slot."""

    refused_model: str = ""
    """The name of the model whose request was refused. The driver starts nothing more once this is set."""

    def admit(self, model: Model, attempt: int) -> OnRequestEnd | None:
        """Admit a request of this model, and return a function to call when the request has ended. None: it is refused for now."""
        return _ignore_end

    def release(self) -> None:
        """Free the slot, because the driver has ended."""


def _ignore_end(_: object) -> None:
    """Do nothing: requests are not counted."""
