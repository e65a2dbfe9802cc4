"""Tool arguments from a JSON schema of an MCP server or a client.

The server or client validates them, too. They are validated here first because an approval is for exact arguments, and because a call that
is refused here has certainly not run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jsonschema.exceptions import ValidationError, best_match

from legato.errors import BadInput
from legato.tools.json_schema_validation import SchemaValidator, TooMuchWork
from legato.tools.tool_arguments import BadArguments, ToolArguments

MAX_ERROR_CHARS, MAX_LISTED_ERRORS = 160, 8
"""Characters of one mistake, and the number of mistakes, in an error for a model."""


class JSONSchemaArguments(ToolArguments, frozen=True, eq=False):
    """The arguments of a tool, by a JSON schema."""

    validator: SchemaValidator

    @classmethod
    def from_schema(
        cls, tool: str, schema: dict[str, Any], kind: str = "MCP", do: str = "leave the tool out with only=[...]"
    ) -> JSONSchemaArguments:
        """Read a schema; raise `BadInput` if it is invalid. Properties marked as passwords or write-only are secret."""
        try:
            validator = SchemaValidator(schema)
        except ValueError as error:
            raise BadInput(f"the schema of {kind} tool {tool!r} is not valid: {str(error)[:MAX_ERROR_CHARS]}", do=do) from None
        properties = schema.get("properties")
        return cls(
            names=tuple(properties) if isinstance(properties, dict) else (),
            schema=json.dumps(schema, ensure_ascii=False, separators=(",", ":")),
            secrets=frozenset(find_secrets(schema)),
            context_parameters=(),
            validator=validator,
        )

    def validate(self, tool: str, arguments: str) -> dict[str, object]:
        """Return the arguments as they are sent."""
        try:
            values = json.loads(arguments if arguments.strip() else "{}", parse_constant=_reject_constant)
        except (ValueError, RecursionError) as error:
            raise BadArguments(f"the arguments of {tool} are not valid, and it did not run:\n  - no JSON: {error}") from None
        if not isinstance(values, dict):
            raise BadArguments(f"the arguments of {tool} are not valid, and it did not run:\n  - expected one JSON object")
        try:
            errors = self.validator.find_errors(values)
        except TooMuchWork:
            message = f"the arguments of {tool} are too many to be checked, and it did not run: pass fewer in one call"
            raise BadArguments(message) from None
        except Exception as error:  # an unresolvable or circular reference is the schema's fault
            raise BadArguments(f"the arguments of {tool} could not be checked: {type(error).__name__}") from None
        if errors:
            lines = [f"  - {self._describe_error(each)}" for each in errors[:MAX_LISTED_ERRORS]]
            more = [f"  - and {len(errors) - MAX_LISTED_ERRORS} more"] if len(errors) > MAX_LISTED_ERRORS else []
            raise BadArguments("\n".join([f"the arguments of {tool} are not valid, and it did not run:", *lines, *more]))
        return values

    def _describe_error(self, error: ValidationError) -> str:
        path = [str(step) for step in error.absolute_path]
        prefix = f"{'.'.join(path)}: " if path else ""
        # The messages of these errors contain no values; within a secret, no names either.
        safe_errors = ("required",) if path else ("required", "additionalProperties")
        if self.secrets and (not path or path[0] in self.secrets) and error.validator not in safe_errors:
            return f"{prefix}not valid ({error.validator})"  # the error is an output, and people see outputs
        best_error = best_match([error]) or error
        return f"{prefix}{best_error.message}"[:MAX_ERROR_CHARS]


def find_secrets(schema: Mapping[str, Any]) -> list[str]:
    """Return the names of the properties that are marked as passwords or write-only."""
    properties = schema.get("properties")
    subschemas = properties if isinstance(properties, Mapping) else {}
    return [name for name, subschema in subschemas.items() if isinstance(subschema, Mapping) and _is_secret(subschema)]


def _is_secret(subschema: Mapping[str, Any]) -> bool:
    return subschema.get("format") == "password" or subschema.get("writeOnly") is True


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
