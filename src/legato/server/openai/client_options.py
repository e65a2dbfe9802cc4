"""Options of a run from clients of OpenAI's APIs: the client's own tools, the tool choice, and the format of the answer.

Both APIs express them in different formats. Tools that a provider runs (`web_search`, ...) are refused: a workflow runs its own tools,
and a client runs the functions that it offers.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from legato.core.facts import RunOptions
from legato.core.run_definitions import MAX_TOOLS_PER_REQUEST, check_options, find_name_clash
from legato.errors import BadInput
from legato.server.openai.errors import InvalidRequest
from legato.tools import ClientTool, options_of
from legato.tools.client_tools import MAX_DEFINITIONS_BYTES
from legato.workflow.workflow import Workflow

ANY_OBJECT = {"type": "object"}

FUNCTION_FIELDS = ("type", "name", "description", "parameters", "strict")
"""The fields of a function that are used. `strict` is always on: a call reaches the client only if it fits the schema."""

UNUSED_FUNCTION_FIELDS = ("allowed_callers", "async", "defer_loading", "output_schema")
"""The fields of a function that the API defines, but workflows do not use. They are ignored."""


class ClientOptions(Struct, frozen=True):
    """The client's tools, whether one of them must be called, and the JSON schema of the answer, as `session.say` takes them."""

    tools: tuple[ClientTool, ...] = ()
    tool_required: bool = False
    output_schema: dict[str, Any] | None = None
    format_param: str = "text.format"

    @property
    def run_options(self) -> RunOptions:
        """The options as they are recorded."""
        return options_of(self.tools, self.output_schema, self.tool_required)[0]

    def check(self, workflow: Workflow) -> None:
        """Raise `InvalidRequest` if the agents of a workflow cannot follow these options."""
        graph = workflow.definition.graph
        name, agent = find_name_clash(graph, [tool.name for tool in self.tools])
        if name:
            what = f"agent {agent!r} already has a tool or handoff named {name!r}"
            raise InvalidRequest("tools", what, do="give the client's tool another name")
        try:
            check_options(graph, RunOptions(typed=self.output_schema is not None))
        except BadInput as error:
            raise _invalid_option(self.format_param, error) from None
        try:
            check_options(graph, self.run_options)
        except BadInput as error:
            raise _invalid_option("tools", error) from None


NO_CLIENT_OPTIONS = ClientOptions()


def read_client_options(
    tools: list[Any] | None, choice: Any, format: dict[str, Any] | None, format_param: str, ignored: list[str]
) -> ClientOptions:
    """Read the options of a request. `format` is `text.format` or `response_format`."""
    if len(tools or ()) > MAX_TOOLS_PER_REQUEST:
        raise InvalidRequest(
            "tools", f"the request has {len(tools or ())} tools", expected=f"at most {MAX_TOOLS_PER_REQUEST}", do="offer fewer"
        )
    if len(msgspec.json.encode(tools)) > MAX_DEFINITIONS_BYTES:
        do = "offer fewer tools, or shorten their descriptions"
        raise InvalidRequest(
            "tools", "the definitions of the tools are too large", expected=f"at most {MAX_DEFINITIONS_BYTES:,} bytes", do=do
        )
    offered = [_read_tool(tool, f"tools[{number}]", ignored) for number, tool in enumerate(tools or ())]
    names = [tool.name for tool in offered]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise InvalidRequest(f"tools[{number}].name", f"two tools are named {name!r}", do="give one of them another name")
    chosen, required = _read_choice(choice, names)
    selected = tuple(tool for tool in offered if tool.name in chosen)
    schema = _read_format(format, format_param)
    for param, checked_tools in ((format_param, ()), ("tools", selected)):
        try:
            options_of(checked_tools, schema)
        except BadInput as error:
            raise _invalid_option(param, error) from None
    return ClientOptions(selected, required, schema, format_param)


def _read_tool(tool: Any, param: str, ignored: list[str]) -> ClientTool:
    if not isinstance(tool, dict):
        raise InvalidRequest(param, "a tool must be an object", code="invalid_type")
    kind = tool.get("type")
    if kind != "function":
        summary = f"clients cannot run tools of type {kind!r}, and the workflow has its own"[:200]
        raise InvalidRequest(f"{param}.type", summary, expected="'function'", code="unsupported_value")
    function = tool.get("function", tool)  # Chat Completions nests it
    if not isinstance(function, dict):
        raise InvalidRequest(f"{param}.function", "a function must be an object", code="invalid_type")
    for name in function:
        if name in UNUSED_FUNCTION_FIELDS:
            ignored.append(f"{param}.{name}")
        elif name not in FUNCTION_FIELDS:
            raise InvalidRequest(f"{param}.{name}"[:200], f"unknown parameter: {name[:100]!r}", code="unknown_parameter")
    if not isinstance(function.get("name"), str):
        raise InvalidRequest(f"{param}.name", "a function must have a name", code="missing_required_parameter")
    parameters = function.get("parameters")
    try:
        return ClientTool(function["name"], function.get("description") or "", {} if parameters is None else parameters)
    except BadInput as error:
        raise _invalid_option(param, error) from None


def _read_choice(choice: Any, names: list[str]) -> tuple[list[str], bool]:
    """Return the names of the tools to offer, and True if one of them must be called."""
    if choice in (None, "auto"):
        return names, False
    if choice == "none":
        return [], False
    if choice == "required":
        if not names:
            raise InvalidRequest("tool_choice", "'required' needs tools of the client", do="offer tools, or leave it out")
        return names, True
    kind = choice.get("type") if isinstance(choice, dict) else None
    if kind == "function":
        return [_chosen_name(choice, names, "tool_choice")], True
    if kind == "allowed_tools":
        allowed = choice.get("allowed_tools", choice)
        listed = allowed.get("tools") if isinstance(allowed, dict) else None
        if not isinstance(listed, list) or allowed.get("mode") not in ("auto", "required"):
            raise InvalidRequest("tool_choice", "allowed_tools needs a list of tools, and a mode", expected="'auto' or 'required'")
        chosen = [_chosen_name(each, names, f"tool_choice.tools[{number}]") for number, each in enumerate(listed)]
        return chosen, allowed["mode"] == "required" and bool(chosen)
    what = f"a tool choice of type {kind!r} is for tools that clients do not run" if kind else "this is not a valid tool choice"
    raise InvalidRequest(
        "tool_choice", what[:200], expected="'auto', 'none', 'required', or a function of the client", code="unsupported_value"
    )


def _chosen_name(choice: Any, names: list[str], param: str) -> str:
    function = choice.get("function", choice) if isinstance(choice, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str) or name not in names:
        raise InvalidRequest(param, f"{str(name)[:100]!r} is not among the tools of the client", expected=", ".join(names)[:300] or "tools")
    return name


def _read_format(format: dict[str, Any] | None, param: str) -> dict[str, Any] | None:
    kind = format.get("type") if format else "text"
    if format is None or kind == "text":
        return None
    if kind == "json_object":
        return ANY_OBJECT
    if kind != "json_schema":
        summary = f"there is no format {str(kind)[:100]!r}"
        raise InvalidRequest(f"{param}.type", summary, expected="'text', 'json_object' or 'json_schema'", code="unsupported_value")
    definition = format.get("json_schema", format)
    schema = definition.get("schema") if isinstance(definition, dict) else None
    if not isinstance(schema, dict):
        raise InvalidRequest(f"{param}.schema", "a format of type 'json_schema' needs a schema", code="missing_required_parameter")
    description = definition.get("description")
    return {"description": description, **schema} if isinstance(description, str) and description else schema


def _invalid_option(param: str, error: BadInput) -> InvalidRequest:
    do = (error.do or "").removesuffix("; nothing was changed")
    return InvalidRequest(param, error.summary, expected=error.expected or "", do=do)
