"""Options that clients of OpenAI's APIs give with a run: tools of their own, which of them are called, the format of the answer.

Both APIs say the same in two shapes. Tools that a provider runs (`web_search`, ...) are refused: a workflow runs its own tools, and a
client runs the functions that it offers.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from legato.core.facts import RunOptions
from legato.core.run_options import MAX_TOOLS, check_options, find_clash
from legato.errors import BadInput
from legato.server.openai.errors import Wrong
from legato.tools import ClientTool, options_of
from legato.tools.client import MAX_DEFINITIONS_BYTES
from legato.workflow.workflow import Workflow

ANY_OBJECT = {"type": "object"}

FUNCTION_FIELDS = ("type", "name", "description", "parameters", "strict")
"""What is read of a function. `strict` always holds: a call reaches the client only if it fits the schema."""

UNUSED_FUNCTION_FIELDS = ("allowed_callers", "async", "defer_loading", "output_schema")
"""What the API knows of a function, and a workflow makes no use of: it is ignored."""


class ClientOptions(Struct, frozen=True):
    """The tools that are offered, whether one of them must be called, and the JSON schema of the answer; as `session.say` takes them."""

    tools: tuple[ClientTool, ...] = ()
    tool_required: bool = False
    output_schema: dict[str, Any] | None = None
    format_param: str = "text.format"

    @property
    def recorded(self) -> RunOptions:
        """What is recorded of them."""
        return options_of(self.tools, self.output_schema, self.tool_required)[0]

    def check(self, workflow: Workflow) -> None:
        """Refuse what the agents of a workflow cannot do."""
        graph = workflow.definition.graph
        name, agent = find_clash(graph, [tool.name for tool in self.tools])
        if name:
            what = f"agent {agent!r} has a tool or handoff named {name!r} of its own"
            raise Wrong("tools", what, do="give the client's tool another name")
        try:
            check_options(graph, RunOptions(typed=self.output_schema is not None))
        except BadInput as error:
            raise _wrong(self.format_param, error) from None
        try:
            check_options(graph, self.recorded)
        except BadInput as error:
            raise _wrong("tools", error) from None


NOTHING_ASKED = ClientOptions()


def read_client_options(
    tools: list[Any] | None, choice: Any, format: dict[str, Any] | None, format_param: str, ignored: list[str]
) -> ClientOptions:
    """Read the options of a request. `format` is `text.format` or `response_format`."""
    if len(tools or ()) > MAX_TOOLS:
        raise Wrong("tools", f"there are {len(tools or ())} tools", expected=f"at most {MAX_TOOLS}", do="offer fewer")
    if len(msgspec.json.encode(tools)) > MAX_DEFINITIONS_BYTES:
        what = "tools of a client are described in at most"
        raise Wrong("tools", f"{what} {MAX_DEFINITIONS_BYTES:,} bytes", do="offer fewer tools, or describe them shorter")
    offered = [_read_tool(tool, f"tools[{number}]", ignored) for number, tool in enumerate(tools or ())]
    names = [tool.name for tool in offered]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise Wrong(f"tools[{number}].name", f"two tools are named {name!r}", do="give one of them another name")
    chosen, required = _read_choice(choice, names)
    kept = tuple(tool for tool in offered if tool.name in chosen)
    schema = _read_format(format, format_param)
    for param, part, asked in ((format_param, (), schema), ("tools", kept, schema)):
        try:
            options_of(part, asked)
        except BadInput as error:
            raise _wrong(param, error) from None
    return ClientOptions(kept, required, schema, format_param)


def _read_tool(tool: Any, param: str, ignored: list[str]) -> ClientTool:
    if not isinstance(tool, dict):
        raise Wrong(param, "a tool is an object", code="invalid_type")
    kind = tool.get("type")
    if kind != "function":
        summary = f"a tool of type {kind!r} is none that a client runs, and the workflow has its own"[:200]
        raise Wrong(f"{param}.type", summary, expected="'function'", code="unsupported_value")
    function = tool.get("function", tool)  # Chat Completions has it one level deeper
    if not isinstance(function, dict):
        raise Wrong(f"{param}.function", "a function is an object", code="invalid_type")
    for name in function:
        if name in UNUSED_FUNCTION_FIELDS:
            ignored.append(f"{param}.{name}")
        elif name not in FUNCTION_FIELDS:
            raise Wrong(f"{param}.{name}"[:200], f"unknown parameter: {name[:100]!r}", code="unknown_parameter")
    if not isinstance(function.get("name"), str):
        raise Wrong(f"{param}.name", "a function has a name", code="missing_required_parameter")
    parameters = function.get("parameters")
    try:
        return ClientTool(function["name"], function.get("description") or "", {} if parameters is None else parameters)
    except BadInput as error:
        raise _wrong(param, error) from None


def _read_choice(choice: Any, names: list[str]) -> tuple[list[str], bool]:
    """The names of the tools that are offered, and whether one of them must be called."""
    if choice in (None, "auto"):
        return names, False
    if choice == "none":
        return [], False
    if choice == "required":
        if not names:
            raise Wrong("tool_choice", "'required' needs tools of the client", do="offer tools, or leave it out")
        return names, True
    kind = choice.get("type") if isinstance(choice, dict) else None
    if kind == "function":
        return [_chosen_name(choice, names, "tool_choice")], True
    if kind == "allowed_tools":
        allowed = choice.get("allowed_tools", choice)
        listed = allowed.get("tools") if isinstance(allowed, dict) else None
        if not isinstance(listed, list) or allowed.get("mode") not in ("auto", "required"):
            raise Wrong("tool_choice", "allowed tools are a list, with a mode", expected="'auto' or 'required'")
        chosen = [_chosen_name(each, names, f"tool_choice.tools[{number}]") for number, each in enumerate(listed)]
        return chosen, allowed["mode"] == "required" and bool(chosen)
    what = f"a choice of {kind!r} is for tools that a client does not run" if kind else "this is no choice of tools"
    raise Wrong("tool_choice", what[:200], expected="'auto', 'none', 'required', or a function of the client", code="unsupported_value")


def _chosen_name(choice: Any, names: list[str], param: str) -> str:
    function = choice.get("function", choice) if isinstance(choice, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str) or name not in names:
        raise Wrong(param, f"{str(name)[:100]!r} is not among the tools of the client", expected=", ".join(names)[:300] or "tools")
    return name


def _read_format(format: dict[str, Any] | None, param: str) -> dict[str, Any] | None:
    kind = format.get("type") if format else "text"
    if format is None or kind == "text":
        return None
    if kind == "json_object":
        return ANY_OBJECT
    if kind != "json_schema":
        summary = f"there is no format {str(kind)[:100]!r}"
        raise Wrong(f"{param}.type", summary, expected="'text', 'json_object' or 'json_schema'", code="unsupported_value")
    about = format.get("json_schema", format)
    schema = about.get("schema") if isinstance(about, dict) else None
    if not isinstance(schema, dict):
        raise Wrong(f"{param}.schema", "a format of type 'json_schema' has a schema", code="missing_required_parameter")
    description = about.get("description")
    return {"description": description, **schema} if isinstance(description, str) and description else schema


def _wrong(param: str, error: BadInput) -> Wrong:
    do = (error.do or "").removesuffix("; nothing was changed")
    return Wrong(param, error.summary, expected=error.expected or "", do=do)
