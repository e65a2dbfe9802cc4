"""Definitions behind a client's run options: the tools that the client executes itself, and the schema of the answer.

They are stored once by digest in the store's contents, as turn contexts are, and named by the message or the decision that they came
with.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from legato.core.digests import digest_bytes
from legato.core.facts import RunOptions
from legato.core.turn_context import ToolSpec
from legato.core.workflow_graph import WorkflowGraph
from legato.errors import BadInput, CodecError

MAX_TOOLS_PER_REQUEST = 128
"""The maximum number of tools in a request: the agent's tools, its handoffs and the client's tools together. It is OpenAI's limit."""

_encoder = msgspec.json.Encoder(order="deterministic")


class RunDefinitions(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The definitions of a client's tools, and the JSON schema of the answer as text; empty for none."""

    tools: tuple[ToolSpec, ...] = ()
    output: str = ""

    def find_tool(self, name: str) -> ToolSpec | None:
        """Return the tool with this name; None if there is none."""
        return next((each for each in self.tools if each.name == name), None)


NO_DEFINITIONS = RunDefinitions()

_decoder = msgspec.json.Decoder(RunDefinitions)


def encode_definitions(definitions: RunDefinitions) -> tuple[str, bytes]:
    """Return the digest and the bytes of definitions."""
    data = _encoder.encode(definitions)
    return digest_bytes(data), data


def decode_definitions(data: bytes) -> RunDefinitions:
    """Decode definitions; `CodecError` if the bytes are none."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CodecError(f"these bytes are not the tools of a client: {error}", do="restore the store from a copy") from error


def find_name_clash(graph: WorkflowGraph, names: Sequence[str]) -> tuple[str, str]:
    """Return the first of these names that an agent has for its own tool or handoff, and that agent; two empty strings if none has."""
    for name in names:
        for agent in graph.agents.values():
            if name in agent.tools or name in agent.edges:
                return name, agent.name
    return "", ""


def check_options(graph: WorkflowGraph, options: RunOptions) -> None:
    """Raise `BadInput` if an agent of this workflow cannot follow a client's run options."""
    name, agent = find_name_clash(graph, [tool.name for tool in options.tools])
    if name:
        raise BadInput(
            f"agent {agent!r} has a tool or handoff named {name!r} of its own, so a client cannot offer one of that name",
            do="give the client's tool another name; nothing was changed",
        )
    for rules in graph.agents.values():
        if options.typed and rules.has_output_type:
            raise BadInput(
                f"agent {rules.name!r} has an output type of its own, so a client cannot ask for another one",
                do="leave the format out, and read what the agent answers; nothing was changed",
            )
        if options.tools and len(rules.tools) + len(rules.edges) + len(options.tools) > MAX_TOOLS_PER_REQUEST:
            raise BadInput(
                f"with the tools of its client, agent {rules.name!r} would have more than {MAX_TOOLS_PER_REQUEST} tools",
                found=f"{len(rules.tools) + len(rules.edges)} of its own, {len(options.tools)} of the client",
                do="offer fewer; nothing was changed",
            )
