"""Tools that the client of a conversation runs itself, and the format in which it wants the answer.

A client gives them with a message. Agents are offered the tools beside their own; a call of one waits for its result, as a call of a
deferred tool does, and the client supplies it. Arguments and answers are checked against the client's schemas, with bounded work.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from legato.core.argument_checks import listed, text
from legato.core.facts import NO_OPTIONS, OfferedTool, RunOptions
from legato.core.messages import checked_text
from legato.core.run_options import RunDefinitions, encode_definitions
from legato.core.turn_context import ToolSpec
from legato.errors import BadInput, install_hint
from legato.tools.function import checked_name

if TYPE_CHECKING:
    from legato.tools.schema_arguments import SchemaArguments

NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}

MAX_DEFINITIONS_BYTES = 512_000
"""Bytes of all that a client says of its tools and its format. It is sent with every request to a model; reading it takes up to 2 s."""

MAX_ERROR_CHARS, MAX_ERRORS = 160, 8
"""How many characters of a mistake in an answer, and how many mistakes, a model is told."""


class ClientTool(Struct, frozen=True):
    """A tool that the client runs. Given with a message; its calls wait in `session.pending` until `session.answer(...)`.

    `parameters` is the JSON schema of its arguments. The call that a client gets always fits it: a model whose arguments do not is told so.
    Properties with `"writeOnly": true` or `"format": "password"` are shown as digests, except to the client.

    >>> ClientTool("open_page", "Opens a page in the user's browser.", {"type": "object", "properties": {"url": {"type": "string"}}})
    <ClientTool open_page(url)>
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = {}

    def __post_init__(self) -> None:
        checked_name(self.name, 'name it "{}"')
        checked_text(text(f"the description of client tool {self.name!r}", self.description), "description of a tool", empty=True)
        if not isinstance(self.parameters, Mapping) or self.parameters.get("type", "object") != "object":
            raise BadInput(
                f"the parameters of client tool {self.name!r} are not those of an object",
                expected='a JSON schema such as {"type": "object", "properties": {...}}',
                found=repr(self.parameters)[:80],
            )
        arguments_of(self.spec)

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model is told of it."""
        schema = {"type": "object", **self.parameters} if self.parameters else NO_PARAMETERS
        return ToolSpec(self.name, self.description, _schema_text(schema, f"the parameters of client tool {self.name!r}"))

    def __repr__(self) -> str:
        known = self.parameters.get("properties")
        return f"<ClientTool {self.name}({', '.join(known) if isinstance(known, Mapping) else ''})>"


def options_of(
    tools: Iterable[ClientTool] = (), output_schema: Mapping[str, Any] | None = None, required: bool = False
) -> tuple[RunOptions, dict[str, bytes]]:
    """Return the options of a run as they are recorded, and the contents that go with them. `BadInput` if they cannot be used."""
    given = _checked_tools(tools)
    if required and not given:
        raise BadInput("tool_required=True needs tools of the client", do="write tools=[ClientTool(...)] too, or leave it out")
    output = _output_text(output_schema) if output_schema is not None else ""
    if not given and not output:
        return NO_OPTIONS, {}
    specs = tuple(each.spec for each in given)
    digest, data = encode_definitions(RunDefinitions(specs, output))
    if len(data) > MAX_DEFINITIONS_BYTES:
        raise BadInput(
            "a client says too much of its tools and its format",
            expected=f"at most {MAX_DEFINITIONS_BYTES:,} bytes",
            found=f"{len(data):,}",
            do="offer fewer tools, or describe them shorter",
        )
    offered = tuple(OfferedTool(each.name, _secrets_of(each.parameters)) for each in given)
    return RunOptions(offered, required, bool(output), digest), {digest: data}


def _checked_tools(tools: Iterable[ClientTool]) -> Sequence[ClientTool]:
    given = listed("client tools", tools)
    for each in given:
        if not isinstance(each, ClientTool):
            raise BadInput(
                "tools= takes tools that the client runs", found=repr(each)[:80], do='write tools=[ClientTool("open_page", "...", {...})]'
            )
    names = [each.name for each in given]
    if twice := [name for name in names if names.count(name) > 1]:
        raise BadInput(f"two client tools are named {twice[0]!r}", do="give one of them another name")
    return given


def _output_text(schema: object) -> str:
    if not isinstance(schema, Mapping):
        raise BadInput("output_schema= takes a JSON schema", found=repr(schema)[:80], do=_schema_advice(schema))
    text = _schema_text(schema, "the output schema")
    _checked_output(text)
    return text


def _secrets_of(parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the secret arguments. The schema was read with its tool, which takes seconds where there are many, and is not again."""
    from legato.tools.schema_arguments import find_secrets

    return tuple(sorted(find_secrets(parameters)))


@lru_cache(maxsize=64)
def arguments_of(spec: ToolSpec) -> SchemaArguments:
    """The check of a client tool's arguments; `BadInput` if its schema is none. Each schema is read once."""
    try:
        from legato.tools.schema_arguments import SchemaArguments
    except ModuleNotFoundError as missing:
        raise _without_checker(missing) from None
    return SchemaArguments.of(spec.name, json.loads(spec.parameters), kind="client", do="correct its parameters")


@lru_cache(maxsize=64)
def _checked_output(schema: str) -> Any:
    try:
        from legato.tools.json_schema import CheckedSchema
    except ModuleNotFoundError as missing:
        raise _without_checker(missing) from None
    try:
        return CheckedSchema(json.loads(schema))
    except ValueError as error:
        raise BadInput(f"the output schema is not valid: {str(error)[:MAX_ERROR_CHARS]}", do="correct it") from None


def parse_output(schema: str, answer: str) -> Any:
    """The value that an answer is. `ValueError` if it does not fit the schema, in words for the model that wrote it."""
    from legato.tools.json_schema import TooMuchWork

    try:
        value = json.loads(answer, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from None
    try:
        mistakes = _checked_output(schema).find_errors(value)
    except TooMuchWork:
        raise ValueError("it is too long to be checked") from None
    except Exception as error:  # a reference that leads nowhere, or around in circles: the schema's fault
        raise ValueError(f"it could not be checked: {type(error).__name__}") from None
    if mistakes:
        lines = [f"{'.'.join(map(str, each.absolute_path)) or 'reply'}: {each.message}"[:MAX_ERROR_CHARS] for each in mistakes[:MAX_ERRORS]]
        raise ValueError(f"it does not fit the JSON schema. {'; '.join(lines)}")
    return value


def _schema_advice(given: object) -> str:
    """Say what to write in place of something that is no schema. A Pydantic model can write its own."""
    if isinstance(given, type) and hasattr(given, "model_json_schema"):
        return f"write {given.__name__}.model_json_schema()"
    return 'write {"type": "object", ...}'


def _schema_text(schema: Mapping[str, Any], what: str) -> str:
    try:
        written = json.dumps(dict(schema), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        written.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"{what} are no JSON schema: {error}", do="give plain values") from None
    return written


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _without_checker(missing: ModuleNotFoundError) -> BadInput:
    return BadInput(f"schemas of clients need the package {missing.name!r}", do=install_hint("mcp"))
