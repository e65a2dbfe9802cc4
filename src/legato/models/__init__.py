"""Models: what answers a request. A provider's client is a thin edge around a pure wire; `Model` is all that the driver knows."""

from legato.models.base import Emit, Model, Reply, resolve

__all__ = ["Emit", "Model", "Reply", "resolve"]
