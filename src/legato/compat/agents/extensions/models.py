"""`agents.extensions.models`: not here. Each of its names says what to write instead."""

from typing import TYPE_CHECKING

from legato.compat.agents.unsupported_errors import absent_module

if not TYPE_CHECKING:
    __getattr__ = absent_module(
        "agents.extensions.models",
        "any model of legato.models will do: Agent(model=Anthropic(...)), see docs/models.md#choosing-one",
    )
