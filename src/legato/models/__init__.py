"""Models: what answers a request. A provider's client is a thin edge around a pure wire; `Model` is all that the driver knows."""

from legato.core.facts import Call, Item, Reasoning, Refusal, Usage, Words
from legato.core.view import Request
from legato.models.base import Emit, Model, Reply, resolve

__all__ = ["Call", "Emit", "Item", "Model", "Reasoning", "Refusal", "Reply", "Request", "Usage", "Words", "resolve"]
