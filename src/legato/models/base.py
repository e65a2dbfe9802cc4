"""What every model is to the driver. May know: requests and replies. Decides: nothing.

A model turns one `Request` into one `Reply`, or raises `ModelFailed`. While it works it may pass pieces of its words to `emit`;
whoever streams sees them, and they are part of nothing until the reply is recorded whole.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Protocol, TypeAlias, runtime_checkable

from legato.core.argument_checks import provides
from legato.core.facts import Usage
from legato.core.model_reply import Reply
from legato.core.view import Request
from legato.errors import BadInput, ModelFailed

__all__ = ["Emit", "Model", "Reply", "resolve"]

Emit: TypeAlias = Callable[[str], None]
"""Receives the next piece of the reply's words."""


@runtime_checkable
class Model(Protocol):
    """Anything with a name that replies."""

    @property
    def name(self) -> str:
        """What is recorded with each reply, for people."""
        ...

    async def reply(self, request: Request, emit: Emit) -> Reply:
        """Reply to the request, or raise `ModelFailed`. It is cancelled when its time is up or its reply is not wanted any more."""
        ...


@runtime_checkable
class KeepsConversations(Protocol):
    """A model whose provider may keep the conversation. What a request goes to is recorded before it is sent."""

    async def conversation_for(self, request: Request) -> str:
        """The provider's conversation that this request is to go to, made if need be; empty: none."""
        ...


@runtime_checkable
class HasAlternatives(Protocol):
    """A model that asks several others, one per attempt."""

    def attribute_failure(self, failure: ModelFailed, request: Request) -> None:
        """Note on a failure whose it was, and whether another model is asked next."""
        ...


def usage_of_stopped(timeout: Exception) -> Usage | None:
    """The usage of a request that `asyncio.timeout` stopped, as far as the provider had told it: a model may set `usage` on the
    `CancelledError` that stops it."""
    usage = getattr(timeout.__cause__, "usage", None)
    return usage if isinstance(usage, Usage) else None


def resolve(model: object, whose: str) -> Model:
    """The model that somebody was given; `BadInput` if that is none."""
    if isinstance(model, str):
        from legato.models.strings import model_named

        return model_named(model, whose)
    if isinstance(model, type) or not provides(model, Model) or not inspect.iscoroutinefunction(model.reply):
        raise BadInput(
            f"what {whose} was given is no model",
            expected="an object with a `name` and an `async def reply(self, request, emit)`",
            found=f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__,
            do='write Agent(name=..., model="openai:gpt-5.1"), or pass a model object',
        )
    return model
