"""Tools that a client runs itself, and the output schema that a client asks for.

A client sends them with a message. Agents get the tools in addition to their own. A call of such a tool waits for its result, like that of
a deferred tool, and the client supplies it. Arguments and answers are validated by the client's schemas, with bounded work.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from legato.core.argument_checks import require_list, require_text
from legato.core.facts import NO_OPTIONS, OfferedTool, RunOptions
from legato.core.messages import validate_text
from legato.core.run_definitions import RunDefinitions, encode_definitions
from legato.core.turn_context import ToolSpec
from legato.errors import BadInput, install_hint
from legato.tools.function_tools import check_tool_name

if TYPE_CHECKING:
    from legato.tools.json_schema_arguments import JSONSchemaArguments

NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}

MAX_DEFINITIONS_BYTES = 512_000
"""Bytes of a client's tools and output schema. They are sent with every model request; reading them takes up to 2 s."""

MAX_ERROR_CHARS, MAX_ERRORS = 160, 8
"""Characters of one error in an answer, and the number of errors, that a model gets."""


class ClientTool(Struct, frozen=True):
    """A tool that the client runs. It is passed with a message; its calls wait in `session.pending` until `session.answer(...)`.

    `parameters` is the JSON schema of its arguments. Calls with other arguments never reach the client: the model gets an error. Properties
    with `"writeOnly": true` or `"format": "password"` are shown as digests, except to the client.

    >>> ClientTool("open_page", "Opens a page in the user's browser.", {"type": "object", "properties": {"url": {"type": "string"}}})
    <ClientTool open_page(url)>
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = {}

    def __post_init__(self) -> None:
        check_tool_name(self.name, 'name it "{}"')
        validate_text(
            require_text(f"the description of client tool {self.name!r}", self.description), "description of a tool", allow_empty=True
        )
        if not isinstance(self.parameters, Mapping) or self.parameters.get("type", "object") != "object":
            raise BadInput(
                f"the schema of client tool {self.name!r} is not that of an object",
                expected='a JSON schema such as {"type": "object", "properties": {...}}',
                found=repr(self.parameters)[:80],
            )
        get_arguments(self.spec)

    @property
    def spec(self) -> ToolSpec:
        """The tool as it is offered to a model."""
        schema = {"type": "object", **self.parameters} if self.parameters else NO_PARAMETERS
        return ToolSpec(self.name, self.description, _encode_schema(schema, f"the parameters of client tool {self.name!r}"))

    def __repr__(self) -> str:
        properties = self.parameters.get("properties")
        return f"<ClientTool {self.name}({', '.join(properties) if isinstance(properties, Mapping) else ''})>"


def options_of(
    tools: Iterable[ClientTool] = (), output_schema: Mapping[str, Any] | None = None, required: bool = False
) -> tuple[RunOptions, dict[str, bytes]]:
    """Return the options of a run as they are recorded, and their contents by digest. Raise `BadInput` if they cannot be used."""
    client_tools = _check_tools(tools)
    if required and not client_tools:
        raise BadInput("tool_required=True needs tools of the client", do="write tools=[ClientTool(...)] too, or leave it out")
    output = _encode_output_schema(output_schema) if output_schema is not None else ""
    if not client_tools and not output:
        return NO_OPTIONS, {}
    specs = tuple(each.spec for each in client_tools)
    digest, data = encode_definitions(RunDefinitions(specs, output))
    if len(data) > MAX_DEFINITIONS_BYTES:
        raise BadInput(
            "the client's tools and output schema are too large",
            expected=f"at most {MAX_DEFINITIONS_BYTES:,} bytes",
            found=f"{len(data):,}",
            do="offer fewer tools, or shorten their descriptions",
        )
    offered = tuple(OfferedTool(each.name, _find_secret_names(each.parameters)) for each in client_tools)
    return RunOptions(offered, required, bool(output), digest), {digest: data}


def _check_tools(tools: Iterable[ClientTool]) -> Sequence[ClientTool]:
    client_tools = require_list("client tools", tools)
    for each in client_tools:
        if not isinstance(each, ClientTool):
            raise BadInput(
                "tools= takes tools that the client runs", found=repr(each)[:80], do='write tools=[ClientTool("open_page", "...", {...})]'
            )
    names = [each.name for each in client_tools]
    if duplicates := [name for name in names if names.count(name) > 1]:
        raise BadInput(f"two client tools are named {duplicates[0]!r}", do="give one of them another name")
    return client_tools


def _encode_output_schema(schema: object) -> str:
    if not isinstance(schema, Mapping):
        raise BadInput("output_schema= takes a JSON schema", found=repr(schema)[:80], do=_suggest_schema(schema))
    text = _encode_schema(schema, "the output schema")
    _get_output_validator(text)
    return text


def _find_secret_names(parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the secret arguments. The schema was validated with its tool, which may take seconds, and is not again."""
    from legato.tools.json_schema_arguments import find_secrets

    return tuple(sorted(find_secrets(parameters)))


@lru_cache(maxsize=64)
def get_arguments(spec: ToolSpec) -> JSONSchemaArguments:
    """Return the arguments of a client tool; raise `BadInput` if its schema is invalid. Each schema is read once."""
    try:
        from legato.tools.json_schema_arguments import JSONSchemaArguments
    except ModuleNotFoundError as missing:
        raise _make_missing_package_error(missing) from None
    return JSONSchemaArguments.from_schema(spec.name, json.loads(spec.parameters), kind="client", do="correct its parameters")


@lru_cache(maxsize=64)
def _get_output_validator(schema: str) -> Any:
    try:
        from legato.tools.json_schema_validation import SchemaValidator
    except ModuleNotFoundError as missing:
        raise _make_missing_package_error(missing) from None
    try:
        return SchemaValidator(json.loads(schema))
    except ValueError as error:
        raise BadInput(f"the output schema is not valid: {str(error)[:MAX_ERROR_CHARS]}", do="correct it") from None


def parse_output(schema: str, answer: str) -> Any:
    """Decode a model's answer. Raise `ValueError` if it does not fit the schema, with a message for the model."""
    from legato.tools.json_schema_validation import TooMuchWork

    try:
        value = json.loads(answer, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from None
    try:
        errors = _get_output_validator(schema).find_errors(value)
    except TooMuchWork:
        raise ValueError("it is too long to be checked") from None
    except Exception as error:  # an unresolvable or circular reference: the schema's fault
        raise ValueError(f"it could not be checked: {type(error).__name__}") from None
    if errors:
        lines = [f"{'.'.join(map(str, each.absolute_path)) or 'reply'}: {each.message}"[:MAX_ERROR_CHARS] for each in errors[:MAX_ERRORS]]
        raise ValueError(f"it does not fit the JSON schema. {'; '.join(lines)}")
    return value


def _suggest_schema(value: object) -> str:
    """Return the advice for a value that is not a schema. A pydantic model can generate its own."""
    if isinstance(value, type) and hasattr(value, "model_json_schema"):
        return f"write {value.__name__}.model_json_schema()"
    return 'write {"type": "object", ...}'


def _encode_schema(schema: Mapping[str, Any], what: str) -> str:
    try:
        text = json.dumps(dict(schema), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"{what} cannot be encoded as JSON: {error}", do="use plain values") from None
    return text


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _make_missing_package_error(missing: ModuleNotFoundError) -> BadInput:
    return BadInput(f"schemas of clients need the package {missing.name!r}", do=install_hint("mcp"))
