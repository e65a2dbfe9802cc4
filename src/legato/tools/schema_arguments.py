"""Arguments for a schema that somebody else wrote. May know: JSON Schema. Decides: what is sent to a server, and how a model is told.

The server checks too. It is checked here first because an approval is for exact arguments, and because what is refused here has
certainly not run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jsonschema.exceptions import ValidationError, best_match

from legato.errors import BadInput
from legato.tools.arguments import Arguments, BadArguments
from legato.tools.json_schema import CheckedSchema, TooMuchWork

SHOWN, LISTED = 160, 8
"""How many letters of a mistake, and how many mistakes, a model is told."""


class SchemaArguments(Arguments, frozen=True, eq=False):
    """What a tool takes, by a JSON schema."""

    checked: CheckedSchema

    @classmethod
    def of(cls, tool: str, schema: dict[str, Any], kind: str = "MCP", do: str = "leave the tool out with only=[...]") -> SchemaArguments:
        """Read the schema; `BadInput` if it is none. Properties marked as passwords or write-only are secret."""
        try:
            checked = CheckedSchema(schema)
        except ValueError as error:
            raise BadInput(f"the schema of {kind} tool {tool!r} is not valid: {str(error)[:SHOWN]}", do=do) from None
        properties = schema.get("properties")
        return cls(
            names=tuple(properties) if isinstance(properties, dict) else (),
            schema=json.dumps(schema, ensure_ascii=False, separators=(",", ":")),
            secrets=frozenset(find_secrets(schema)),
            contexts=(),
            checked=checked,
        )

    def validate(self, tool: str, arguments: str) -> dict[str, object]:
        """The arguments as they are sent."""
        try:
            values = json.loads(arguments if arguments.strip() else "{}", parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise BadArguments(f"the arguments of {tool} are not valid, and it did not run:\n  - no JSON: {error}") from None
        if not isinstance(values, dict):
            raise BadArguments(f"the arguments of {tool} are not valid, and it did not run:\n  - expected one JSON object")
        try:
            mistakes = self.checked.find_errors(values)
        except TooMuchWork:
            message = f"the arguments of {tool} are too many to be checked, and it did not run: pass fewer in one call"
            raise BadArguments(message) from None
        except Exception as error:  # a reference that leads nowhere, or around in circles: the schema's fault, and no reason to run
            raise BadArguments(f"the arguments of {tool} could not be checked: {type(error).__name__}") from None
        if mistakes:
            lines = [f"  - {self._mistake(mistake)}" for mistake in mistakes[:LISTED]]
            more = [f"  - and {len(mistakes) - LISTED} more"] if len(mistakes) > LISTED else []
            raise BadArguments("\n".join([f"the arguments of {tool} are not valid, and it did not run:", *lines, *more]))
        return values

    def _mistake(self, mistake: ValidationError) -> str:
        path = [str(step) for step in mistake.absolute_path]
        where = f"{'.'.join(path)}: " if path else ""
        names = ("required",) if path else ("required", "additionalProperties")  # what these say of: no value, and within a secret no name
        if self.secrets and (not path or path[0] in self.secrets) and mistake.validator not in names:
            return f"{where}not valid ({mistake.validator})"  # an error is an output, and outputs are shown to people
        deepest = best_match([mistake]) or mistake
        return f"{where}{deepest.message}"[:SHOWN]


def find_secrets(schema: Mapping[str, Any]) -> list[str]:
    """The names of the properties that are marked as passwords or write-only."""
    properties = schema.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    return [name for name, shown in known.items() if isinstance(shown, Mapping) and _is_secret(shown)]


def _is_secret(shown: Mapping[str, Any]) -> bool:
    return shown.get("format") == "password" or shown.get("writeOnly") is True


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
