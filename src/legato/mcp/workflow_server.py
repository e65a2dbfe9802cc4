"""A workflow as an MCP server.

It has three tools: send a message to a session, list its pending requests, answer one. The server keeps no state: sessions are in the
store, and pending requests come from their ledgers, so both survive a restart. MCP repeats a tool call after an elicitation; the repeated
message has the key of the first delivery and is recorded once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from typing import Any, TypeVar

import msgspec
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec import Struct

from legato.errors import LegatoError, NotPending
from legato.mcp.elicitation import ElicitedAnswer, describe_request, make_form, read_form_result, record_elicited_answer
from legato.runtime.clock import new_id
from legato.runtime.events import Event
from legato.runtime.run import Run
from legato.runtime.session import Session
from legato.stores.contract import Store
from legato.workflow.workflow import Workflow

PROGRESS_EVENTS = ("handoff_sent", "tool_started", "tool_lost", "model_failed", "request_info")
"""The events that are reported to a waiting client as progress. Text comes with the result; outputs of tools stay inside the workflow."""

MAX_PROGRESS_CHARS = 300
"""How long a progress message may be."""

S = TypeVar("S", bound=Struct)


class SayArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of the tool that sends a message."""

    message: str
    session: str | None = None
    key: str | None = None


class PendingArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of the tool that lists pending requests."""

    session: str


class AnswerArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of the tool that answers a request."""

    session: str
    request: str
    decision: str
    words: str = ""
    arguments: dict[str, Any] | None = None


class RunState(Struct, frozen=True, forbid_unknown_fields=True):
    """The state that a client sends back with elicited answers: which session, and which delivery."""

    session: str
    key: str


class WorkflowServer:
    """A workflow as an MCP server. `server` is the `mcp` package's object, to be run over any transport.

    `answers=False` leaves out the tool that answers requests: then people approve through elicitation, or through another server on the
    same store. `context` is the caller's context of every session.
    """

    def __init__(self, workflow: Workflow, store: Store | None = None, *, context: Any = None, answers: bool = True) -> None:
        self.workflow = workflow
        self._store = store
        self._context = context
        self.name = re.sub(r"[^a-zA-Z0-9_-]", "_", workflow.name)[:50] or "workflow"
        self._handlers = {self.name: self._say, f"{self.name}_pending": self._show_pending}
        if answers:
            self._handlers[f"{self.name}_answer"] = self._answer
        self.server: Server[Any] = Server(
            workflow.name,
            version=version("legato"),
            instructions=workflow.description or None,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )

    def __repr__(self) -> str:
        return f"<WorkflowServer {self.workflow.name}: {', '.join(self._handlers)}>"

    # -- protocol handlers -----------------------------------------------------------------------------------------------

    async def _list_tools(self, context: ServerRequestContext[Any], params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[tool for tool in _make_tools(self.name, self.workflow) if tool.name in self._handlers])

    async def _call_tool(self, context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        handler = self._handlers.get(params.name)
        if handler is None:
            raise MCPError(code=INVALID_PARAMS, message=f"there is no tool {params.name!r}")
        try:
            return await handler(context, params)
        except LegatoError as error:
            return _make_error_result(str(error))
        except MCPError:
            raise
        except Exception as error:  # raised by the workflow's own code: its text may be private
            return _make_error_result(
                f"the workflow failed ({type(error).__name__}); recorded facts are kept, and the session can be resumed"
            )

    # -- the tools ---------------------------------------------------------------------------------------------------------

    async def _say(self, context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        arguments = _parse_arguments(SayArguments, params.arguments)
        if params.request_state is not None:
            state = _parse_state(params.request_state)
        else:
            state = RunState(arguments.session or new_id(), arguments.key or new_id())
        session = self._session(state.session)
        may_ask = await self._record_responses(session, params)
        return await self._run(context, session, session.run(arguments.message, key=state.key), state, may_ask)

    async def _show_pending(self, context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        session = await self._session(_parse_arguments(PendingArguments, params.arguments).session).refresh()
        return _make_result(session, "", session.error)

    async def _answer(self, context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        arguments = _parse_arguments(AnswerArguments, params.arguments)
        session = self._session(arguments.session)
        if params.request_state is None:
            answer = ElicitedAnswer(arguments.decision, arguments.words, arguments.arguments)
            await record_elicited_answer(session, arguments.request, answer)
        may_ask = await self._record_responses(session, params)
        return await self._run(context, session, session.resume(), RunState(arguments.session, ""), may_ask)

    def _session(self, id: str) -> Session:
        return self.workflow.session(id, store=self._store, context=self._context)

    # -- running -----------------------------------------------------------------------------------------------------------

    async def _run(
        self, context: ServerRequestContext[Any], session: Session, run: Run, state: RunState, may_ask: bool
    ) -> CallToolResult | InputRequiredResult:
        """Run until the session is idle. If requests are pending, ask the client's people by elicitation, and continue."""
        count = 0
        while True:
            async for event in run:
                if (progress := _describe_progress(event)) and context.request_id is not None:
                    count += 1
                    await context.session.report_progress(count, None, progress)
            result = await run
            if result.status != "pending" or not may_ask or not _supports_forms(context):
                return _make_result(session, result.text, result.error)
            if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
                # The client asks its people, and repeats the tool call with their decisions.
                forms: Any = {request.id: ElicitRequest(params=make_form(request)) for request in result.pending}
                return InputRequiredResult(input_requests=forms, request_state=msgspec.json.encode(state).decode())
            any_answered = False
            for request in result.pending:
                form = make_form(request)
                reply = await context.session.elicit_form(form.message, form.requested_schema, context.request_id)
                any_answered = await self._record_answer(session, request.id, read_form_result(reply)) or any_answered
            if not any_answered:
                return _make_result(session, result.text, result.error)
            run = session.resume()

    async def _record_responses(self, session: Session, params: CallToolRequestParams) -> bool:
        """Record elicited answers that came with a repeated call. Return False if all forms were dismissed: then there are no new forms."""
        replies = (params.input_responses or {}).items()
        recorded = [await self._record_answer(session, request, read_form_result(reply)) for request, reply in replies]
        return not recorded or any(recorded)

    async def _record_answer(self, session: Session, request: str, answer: ElicitedAnswer | None) -> bool:
        if answer is None:
            return False
        with suppress(NotPending):  # it was answered elsewhere meanwhile: that answer counts
            await record_elicited_answer(session, request, answer)
        return True


def _supports_forms(context: ServerRequestContext[Any]) -> bool:
    """Return True if the client can show forms to people."""
    capabilities = context.session.client_capabilities
    elicitation = capabilities.elicitation if capabilities is not None else None
    if elicitation is None or (elicitation.form is None and elicitation.url is not None):
        return False
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS or context.session.can_send_request


def _describe_progress(event: Event) -> str:
    return f"{event.type.replace('_', ' ')}: {event.data}"[:MAX_PROGRESS_CHARS] if event.type in PROGRESS_EVENTS else ""


def _parse_arguments(kind: type[S], arguments: Mapping[str, Any] | None) -> S:
    try:
        return msgspec.convert(arguments or {}, kind)
    except msgspec.ValidationError as error:
        raise MCPError(code=INVALID_PARAMS, message=f"the arguments are invalid: {error}") from None


def _parse_state(text: str) -> RunState:
    try:
        return msgspec.json.decode(text, type=RunState)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise MCPError(code=INVALID_PARAMS, message=f"the request state is not one of this server: {error}") from None


def _make_result(session: Session, text: str, error: str) -> CallToolResult:
    """Return the state of a session, as text and as data."""
    pending = [describe_request(session, request) for request in session.pending]
    data = {"session": session.id, "status": session.status, "answer": text, "error": error, "pending": pending}
    lines = [text] if text else []
    lines += [f"It failed: {error}"] if error else []
    lines += [f"Pending: [{each['id']}] {each['prompt']}" for each in pending]
    lines.append(f"(session {session.id}: {session.status})")
    return CallToolResult(content=[TextContent(type="text", text="\n".join(lines))], structured_content=data, is_error=bool(error))


def _make_error_result(words: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=words)], is_error=True)


TEXT = {"type": "string"}
RESULT = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("session", "status", "answer", "error"), TEXT),
        "pending": {"type": "array", "items": {"type": "object"}},
    },
    "required": ["session", "status", "answer", "error", "pending"],
}


def _make_tools(name: str, workflow: Workflow) -> list[Tool]:
    about = workflow.description or f"Talk to {workflow.name}: {', '.join(workflow.agents)}."
    return [
        Tool(
            name=name,
            description=f"{about} Says something in a session and returns the answer, and what waits for people.",
            input_schema=_object_schema(
                ["message"],
                message={**TEXT, "description": "What to say."},
                session={**TEXT, "description": "Which conversation: the session of an earlier answer. Without it a new one begins."},
                key={**TEXT, "description": "A name for this message: however often it is sent with it, it is said once."},
            ),
            output_schema=RESULT,
            annotations=ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True),
        ),
        Tool(
            name=f"{name}_pending",
            description=f"What waits for people in a session of {workflow.name}.",
            input_schema=_object_schema(["session"], session=TEXT),
            output_schema=RESULT,
            annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
        ),
        Tool(
            name=f"{name}_answer",
            description=(
                f"Answer something that waits for people in a session of {workflow.name}, and go on. Only for what a person has decided: "
                "ask them first."
            ),
            input_schema=_object_schema(
                ["session", "request", "decision"],
                session=TEXT,
                request={**TEXT, "description": "The id of the pending request."},
                decision={"type": "string", "enum": ["approve", "reject", "answer", "edit"]},
                words={**TEXT, "description": "Why it is rejected, or the answer."},
                arguments={"type": "object", "description": "With edit: the arguments to run with."},
            ),
            output_schema=RESULT,
            annotations=ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True),
        ),
    ]


def _object_schema(required: list[str], **properties: Any) -> dict[str, Any]:
    return json.loads(json.dumps({"type": "object", "properties": properties, "required": required, "additionalProperties": False}))  # type: ignore[no-any-return]
