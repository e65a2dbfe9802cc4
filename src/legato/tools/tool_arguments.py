"""The base class of a tool's arguments: their schema and their validation.

The subclasses have modules of their own, since one needs pydantic and the other `jsonschema`; a program without tools imports neither.
"""

from __future__ import annotations

from msgspec import Struct

from legato.errors import LegatoError


class BadArguments(LegatoError, ValueError):
    """The arguments of a call do not fit the tool. The message is for the model; the tool did not run."""

    code = "bad_arguments"


class ToolArguments(Struct, frozen=True, eq=False):
    """The arguments of a tool: their JSON schema and validation, and the parameters that receive the context instead."""

    names: tuple[str, ...]
    schema: str
    secrets: frozenset[str]
    context_parameters: tuple[str, ...]

    def validate(self, tool: str, arguments: str) -> dict[str, object]:
        """Return the values for the function, in the order of its parameters; raise `BadArguments` if they do not fit."""
        raise NotImplementedError
