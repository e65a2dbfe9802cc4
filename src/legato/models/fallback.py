"""A model with fallbacks.

A failure of one model is an attempt like any other: it is recorded and shown, and the text emitted so far is retracted. The next attempt
requests the next model.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

import msgspec

from legato.core.argument_checks import implements_protocol
from legato.core.model_reply import ModelReply
from legato.core.view import ModelRequest
from legato.errors import BadInput, IllegalRequest, ModelFailed
from legato.models.model import Emit, KeepsConversations, Model, resolve

T = TypeVar("T")


class FallbackModel:
    """Requests the first model; if it fails, for any reason, the next one at once. The last model is retried like any model.

    Every turn begins with the first model. If all fail, the session pauses, and `resume()` begins with the first again.

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
        """The names of all models, joined."""
        return " or ".join(model.name for model in self._models)

    @property
    def models(self) -> tuple[Model, ...]:
        """The models in the order in which they are requested."""
        return self._models

    def __repr__(self) -> str:
        return f"<FallbackModel {', '.join(model.name for model in self._models)}>"

    async def close(self) -> None:
        """Close the connections of all models that have any."""
        for model in self._models:
            if (close := getattr(model, "close", None)) is not None:
                await close()

    async def conversation_for(self, request: ModelRequest) -> str:
        """Return the conversation that the model of this attempt would continue at its provider; empty if there is none."""
        model = self._find_current_model(request)
        if not implements_protocol(model, KeepsConversations):
            return ""
        return await self._attribute_errors(request, model.conversation_for(request))

    async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        """Request the model of this attempt."""
        return await self._attribute_errors(request, self._find_current_model(request).reply(request, emit))

    def _find_current_model(self, request: ModelRequest) -> Model:
        """Return the model that this attempt requests."""
        return self._models[min(request.attempt, len(self._models)) - 1]

    async def _attribute_errors(self, request: ModelRequest, awaitable: Awaitable[T]) -> T:
        """Await a model's call; name the model in its failure, and set `another` if another model follows."""
        try:
            return await awaitable
        except IllegalRequest:
            raise
        except Exception as error:
            failure = error if isinstance(error, ModelFailed) else ModelFailed(f"{type(error).__name__}: {error}")
            self.attribute_failure(failure, request)
            raise failure from error.__cause__ if failure is error else error

    def attribute_failure(self, failure: ModelFailed, request: ModelRequest) -> None:
        """Name the failed model in the failure, and set `another`. The driver does so for a reply that it cannot record."""
        name = f"{self._find_current_model(request).name}: "
        failure.summary = failure.summary if failure.summary.startswith(name) else name + failure.summary
        failure.another = request.attempt < len(self._models)
