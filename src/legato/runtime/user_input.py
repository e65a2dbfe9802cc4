"""Messages that are given to a session. May know: the state and the graph. Decides: what is recorded of a message.

A message comes with a key, with what a client asks of the run, and with the contents of both. It is checked when it is given, and
again against the state in which it is recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from legato.core.facts import NO_OPTIONS, AnyFact, Content, MessageReceived, Opened, RunOptions
from legato.core.messages import content_from
from legato.core.planner import judges_input
from legato.core.run_options import check_options
from legato.runtime.clock import fresh_name, now_ms
from legato.runtime.decisions import check_same_delivery, checked_key
from legato.tools import ClientTool, options_of

if TYPE_CHECKING:
    from legato.core.state import State
    from legato.core.workflow_graph import Graph


class UserInput(Struct, frozen=True):
    """A message and the options of the run that answers it. `contents` are the bytes that both name."""

    content: Content
    contents: Mapping[str, bytes]
    key: str = ""
    options: RunOptions = NO_OPTIONS

    def facts(self, state: State, graph: Graph) -> Iterator[AnyFact]:
        """Yield what is recorded of it in this state: nothing, if the delivery was recorded before. `BadInput` if it cannot be."""
        said = MessageReceived(
            at=now_ms(), content=self.content, key=self.key, options=self.options if self.options != NO_OPTIONS else None
        )
        if self.key and self.key in state.keys:
            recorded = state.facts[state.keys[self.key]]
            check_same_delivery(state, self.key, replace(said, guarded=isinstance(recorded, MessageReceived) and recorded.guarded))
            return
        check_options(graph, self.options)
        if not state.facts:
            yield Opened(at=now_ms(), ledger=fresh_name(), workflow=graph.name)
        yield replace(said, guarded=judges_input(state, graph))
        if graph.agents:  # else only its name is known here, and the driver checks
            from legato.runtime.driver import check_definition  # with the first run, as the driver itself

            check_definition(state, graph)  # raising here, nothing is recorded


def user_input(
    message: Any,
    key: str | None = None,
    tools: Iterable[ClientTool] = (),
    output_schema: Mapping[str, Any] | None = None,
    tool_required: bool = False,
) -> UserInput:
    """Return a message with what a client asks of the run. `BadInput` if it cannot be used."""
    content, contents = content_from(message)
    options, definitions = options_of(tools, output_schema, tool_required)
    return UserInput(content, {**contents, **definitions}, checked_key(key), options)
