"""The protocol of all models.

A model turns one `Request` into one `Reply`, or raises `ModelFailed`. Meanwhile it may pass pieces of its text to `emit`.
They are shown to streaming clients; only the whole reply is recorded.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Protocol, TypeAlias, runtime_checkable

from legato.core.argument_checks import implements_protocol
from legato.core.facts import Usage
from legato.core.model_reply import ModelReply
from legato.core.view import ModelRequest
from legato.errors import BadInput, ModelFailed

__all__ = ["Emit", "Model", "ModelReply", "resolve"]

Emit: TypeAlias = Callable[[str], None]
"""Receives the next piece of the reply's text."""


@runtime_checkable
class Model(Protocol):
    """An object with a name that replies to requests."""

    @property
    def name(self) -> str:
        """The name that is recorded with each reply, for people."""
        ...

    async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        """Reply to the request, or raise `ModelFailed`. The driver cancels it on a timeout, or if the reply is no longer wanted."""
        ...


@runtime_checkable
class KeepsConversations(Protocol):
    """A model whose provider may store the conversation. The conversation's id is recorded before a request is sent to it."""

    async def conversation_for(self, request: ModelRequest) -> str:
        """Return the id of the provider's conversation for this request, and create it if need be; empty if there is none."""
        ...


@runtime_checkable
class HasAlternatives(Protocol):
    """A model that stands for several others and requests one per attempt."""

    def attribute_failure(self, failure: ModelFailed, request: ModelRequest) -> None:
        """Name the failed model in the failure, and set `another` if the next attempt requests another model."""
        ...


def get_cancelled_usage(timeout: Exception) -> Usage | None:
    """Return the usage of a request that `asyncio.timeout` cancelled, as far as the provider reported it; None if it did not.

    A model may set `usage` on the `CancelledError` that stops it.
    """
    usage = getattr(timeout.__cause__, "usage", None)
    return usage if isinstance(usage, Usage) else None


def resolve(model: object, whose: str) -> Model:
    """Return the model that an argument is or names; `BadInput` if it is no model. `whose`: the receiver of the argument, for the error."""
    if isinstance(model, str):
        from legato.models.model_names import make_model

        return make_model(model, whose)
    if isinstance(model, type) or not implements_protocol(model, Model) or not inspect.iscoroutinefunction(model.reply):
        raise BadInput(
            f"{whose}: this is no model",
            expected="an object with a `name` and an `async def reply(self, request, emit)`",
            found=f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__,
            do='write Agent(name=..., model="openai:gpt-5.1"), or pass a model object',
        )
    return model
