"""`agents.extensions.visualization`: not here. Each of its names says what to write instead."""

from typing import TYPE_CHECKING

from legato.compat.agents.unsupported_errors import absent_module

if not TYPE_CHECKING:
    __getattr__ = absent_module(
        "agents.extensions.visualization",
        "result.legato_session.workflow.graph() is the graph in Mermaid, see docs/handoffs.md#who-may-hand-over-to-whom",
    )
