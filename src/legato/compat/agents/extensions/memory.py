"""`agents.extensions.memory`: not here. Each of its names says what to write instead."""

from typing import TYPE_CHECKING

from legato.compat.agents.unsupported_errors import absent_module

if not TYPE_CHECKING:
    __getattr__ = absent_module(
        "agents.extensions.memory",
        "keep conversations in a store: SQLiteSession(id, path), or SQLiteSession(id, store=...), see docs/stores.md#the-contract",
    )
