"""A model that stands in for another. May know: models. Decides: which of them is asked.

A failure of one is an attempt like any other: it is recorded, shown, and what it had said is withdrawn. The next attempt asks the next.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

import msgspec

from legato.core.argument_checks import provides
from legato.core.model_reply import Reply
from legato.core.view import Request
from legato.errors import BadInput, IllegalRequest, ModelFailed
from legato.models.base import Emit, KeepsConversations, Model, resolve

T = TypeVar("T")


class FallbackModel:
    """Asks the first model; if that fails, for whatever reason, at once the next. The last is tried again as any model is.

    Every turn begins with the first. If all fail, the session pauses, and `resume()` begins with the first again.

    >>> from legato.testing import ScriptedModel
    >>> FallbackModel(ScriptedModel(["a"]), ScriptedModel(["b"]))
    <FallbackModel scripted, scripted>
    """

    def __init__(self, *models: Model | str) -> None:
        self._models: tuple[Model, ...] = ()
        for model in models:
            self._models += model._models if isinstance(model, FallbackModel) else (resolve(model, "FallbackModel(...)"),)
        if len(self._models) < 2:
            raise BadInput("a FallbackModel has two models or more", found=f"{len(models)}", do="write FallbackModel(first, second)")
        self.options_text = msgspec.json.encode([getattr(model, "options_text", "") for model in self._models]).decode()

    @property
    def name(self) -> str:
        """All their names."""
        return " or ".join(model.name for model in self._models)

    @property
    def models(self) -> tuple[Model, ...]:
        """Whom it asks, in this order."""
        return self._models

    def __repr__(self) -> str:
        return f"<FallbackModel {', '.join(model.name for model in self._models)}>"

    async def close(self) -> None:
        """Close the connections of all that have any."""
        for model in self._models:
            if (close := getattr(model, "close", None)) is not None:
                await close()

    async def conversation_for(self, request: Request) -> str:
        """The provider's conversation that the model whose turn it is would go on in; empty: none."""
        model = self._turn(request)
        return await self._or_another(request, model.conversation_for(request)) if provides(model, KeepsConversations) else ""

    async def reply(self, request: Request, emit: Emit) -> Reply:
        """Ask the model whose turn it is."""
        return await self._or_another(request, self._turn(request).reply(request, emit))

    def _turn(self, request: Request) -> Model:
        """The model that this attempt asks."""
        return self._models[min(request.attempt, len(self._models)) - 1]

    async def _or_another(self, request: Request, doing: Awaitable[T]) -> T:
        """What a model does; its failure says whose it was, and whether another model stands by."""
        try:
            return await doing
        except IllegalRequest:
            raise
        except Exception as error:
            failure = error if isinstance(error, ModelFailed) else ModelFailed(f"{type(error).__name__}: {error}")
            self.attribute_failure(failure, request)
            raise failure from error.__cause__ if failure is error else error

    def attribute_failure(self, failure: ModelFailed, request: Request) -> None:
        """Name the model that failed, and note whether another is asked next. The driver does so with a reply that it cannot record."""
        name = f"{self._turn(request).name}: "
        failure.summary = failure.summary if failure.summary.startswith(name) else name + failure.summary
        failure.another = request.attempt < len(self._models)
