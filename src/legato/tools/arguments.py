"""What a tool takes. May know: nothing of how it is checked. Decides: what a tool must know of its arguments.

`schema.py` makes it from a signature. It is a module of its own because that one needs pydantic, and a program without tools does not.
"""

from __future__ import annotations

from msgspec import Struct

from legato.errors import LegatoError


class BadArguments(LegatoError, ValueError):
    """A model's arguments do not fit the tool. The message is written for that model; the tool did not run."""

    code = "bad_arguments"


class Arguments(Struct, frozen=True, eq=False):
    """What a tool takes: the schema to show, the check to make, and which parameters the model never sees."""

    names: tuple[str, ...]
    schema: str
    secrets: frozenset[str]
    contexts: tuple[str, ...]

    def validate(self, tool: str, arguments: str) -> dict[str, object]:
        """The values for the function, in the order of its parameters; `BadArguments` if they do not fit."""
        raise NotImplementedError
