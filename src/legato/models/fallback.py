"""A model that stands in for another. May know: models. Decides: which of them is asked."""

from __future__ import annotations

from legato.core.reply import Reply
from legato.core.view import Request
from legato.errors import BadInput, ModelFailed
from legato.models.base import Emit, Model, resolve


class FallbackModel:
    """Asks the first model; if it fails before it has said anything, the next; and so on.

    A model that breaks off in the middle of its words fails as usual, so that what was shown can be withdrawn; the next attempt
    begins with the model after it.

    >>> from legato.testing import ScriptedModel
    >>> FallbackModel(ScriptedModel(["a"]), ScriptedModel(["b"]))
    <FallbackModel scripted, scripted>
    """

    def __init__(self, *models: Model | str) -> None:
        if len(models) < 2:
            raise BadInput("a FallbackModel has two models or more", found=f"{len(models)}", do="write FallbackModel(first, second)")
        self._models = tuple(resolve(model, "FallbackModel") for model in models)

    @property
    def name(self) -> str:
        """All their names."""
        return " or ".join(model.name for model in self._models)

    def __repr__(self) -> str:
        return f"<FallbackModel {', '.join(model.name for model in self._models)}>"

    async def reply(self, request: Request, emit: Emit) -> Reply:
        """Ask one after the other."""
        begin = min(request.attempt - 1, len(self._models) - 1)
        failure: ModelFailed | None = None
        for model in self._models[begin:]:
            spoken = False

            def heard(text: str) -> None:
                nonlocal spoken
                spoken = spoken or bool(text)
                emit(text)

            try:
                return await model.reply(request, heard)
            except ModelFailed as error:
                failure = error
                if spoken:
                    break
        assert failure is not None
        raise failure
