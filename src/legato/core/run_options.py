"""Definitions that the options of a run name: the tools that its client runs itself, and the schema of the answer.

They are kept once by digest in the store's contents, as frames are, and named by the message or the answer that brought them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from legato.core.digests import digest_bytes
from legato.core.facts import RunOptions
from legato.core.turn_context import ToolSpec
from legato.core.workflow_graph import Graph
from legato.errors import BadInput, CodecError

MAX_TOOLS = 128
"""How many tools a request may have, those of the agent, its handoffs and those of the client together: OpenAI's limit."""

_encoder = msgspec.json.Encoder(order="deterministic")


class RunDefinitions(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The tools as a model is told of them, and the JSON schema of the answer as text; empty for none."""

    tools: tuple[ToolSpec, ...] = ()
    output: str = ""

    def tool(self, name: str) -> ToolSpec | None:
        """The tool of this name."""
        return next((each for each in self.tools if each.name == name), None)


NO_DEFINITIONS = RunDefinitions()

_decoder = msgspec.json.Decoder(RunDefinitions)


def encode_definitions(definitions: RunDefinitions) -> tuple[str, bytes]:
    """Their digest and their bytes."""
    data = _encoder.encode(definitions)
    return digest_bytes(data), data


def decode_definitions(data: bytes) -> RunDefinitions:
    """The definitions that these bytes are, or a `CodecError`."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CodecError(f"these bytes are not the tools of a client: {error}", do="restore the store from a copy") from error


def find_clash(graph: Graph, names: Sequence[str]) -> tuple[str, str]:
    """The first of these names that an agent has for a tool or a handoff of its own, and that agent; two empty texts if there is none."""
    for name in names:
        for agent in graph.agents.values():
            if name in agent.tools or name in agent.edges:
                return name, agent.name
    return "", ""


def check_options(graph: Graph, options: RunOptions) -> None:
    """Raise `BadInput` if agents of this workflow cannot do what a client asks of a run."""
    name, agent = find_clash(graph, [tool.name for tool in options.tools])
    if name:
        raise BadInput(
            f"agent {agent!r} has a tool or handoff named {name!r} of its own, so a client cannot offer one of that name",
            do="give the client's tool another name; nothing was changed",
        )
    for rules in graph.agents.values():
        if options.typed and rules.typed:
            raise BadInput(
                f"agent {rules.name!r} has an output type of its own, so a client cannot ask for another one",
                do="leave the format out, and read what the agent answers; nothing was changed",
            )
        if options.tools and len(rules.tools) + len(rules.edges) + len(options.tools) > MAX_TOOLS:
            raise BadInput(
                f"with the tools of its client, agent {rules.name!r} would have more than {MAX_TOOLS} tools",
                found=f"{len(rules.tools) + len(rules.edges)} of its own, {len(options.tools)} of the client",
                do="offer fewer; nothing was changed",
            )
