"""A workflow as an MCP server. May know: sessions, and the `mcp` package. Decides: which tools a client has, and what it is told.

Three tools: say something in a session, see what is pending there, answer it. The server holds nothing: a session is in its store, a
request for approval is a projection of its ledger, and both are there after a restart. A message that is sent again, as MCP has it when a
client was asked something in between, carries the key of the first delivery and is recorded once.
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
from legato.mcp.asking import Answer, decide, filled_in, form, shown
from legato.runtime.clock import fresh_name
from legato.runtime.events import Event
from legato.runtime.run import Run
from legato.runtime.session import Session
from legato.stores.contract import Store
from legato.workflow.workflow import Workflow

TOLD = ("handoff_sent", "tool_started", "tool_lost", "model_failed", "request_info")
"""The events that a client is told of while it waits. Words come with the answer, and outputs of tools are the workflow's own."""

LONGEST = 300
"""How many letters of an event a client is told."""

S = TypeVar("S", bound=Struct)


class Say(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of the tool that says something."""

    message: str
    session: str | None = None
    key: str | None = None


class Look(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of the tool that looks."""

    session: str


class Decide(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of the tool that answers."""

    session: str
    request: str
    decision: str
    words: str = ""
    arguments: dict[str, Any] | None = None


class Round(Struct, frozen=True, forbid_unknown_fields=True):
    """What a client brings back with its answers: where it was."""

    session: str
    key: str


class Offered:
    """A workflow, offered to MCP clients. `server` is the protocol's own object, to be run over any transport.

    `answers=False` leaves out the tool that answers requests: approvals are then for people whom the client asks (elicitation), and for
    other ways into the same store. `context` is the caller's context of every session.
    """

    def __init__(self, workflow: Workflow, store: Store | None = None, *, context: Any = None, answers: bool = True) -> None:
        self.workflow = workflow
        self._store = store
        self._context = context
        self.name = re.sub(r"[^a-zA-Z0-9_-]", "_", workflow.name)[:50] or "workflow"
        self._does = {self.name: self._say, f"{self.name}_pending": self._look}
        if answers:
            self._does[f"{self.name}_answer"] = self._answer
        self.server: Server[Any] = Server(
            workflow.name,
            version=version("legato"),
            instructions=workflow.description or None,
            on_list_tools=self._listed,
            on_call_tool=self._called,
        )

    def __repr__(self) -> str:
        return f"<Offered {self.workflow.name}: {', '.join(self._does)}>"

    # -- what there is ---------------------------------------------------------------------------------------------------

    async def _listed(self, context: ServerRequestContext[Any], params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[tool for tool in _tools(self.name, self.workflow) if tool.name in self._does])

    async def _called(self, context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        does = self._does.get(params.name)
        if does is None:
            raise MCPError(code=INVALID_PARAMS, message=f"there is no tool {params.name!r}")
        try:
            return await does(context, params)
        except LegatoError as error:
            return _failed(str(error))
        except MCPError:
            raise
        except Exception as error:  # of the workflow's own code: its words may be anything, and are not the client's
            return _failed(f"the workflow failed ({type(error).__name__}); what was recorded is kept, and the session can go on")

    # -- the tools ---------------------------------------------------------------------------------------------------------

    async def _say(self, context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        given = _read(Say, params.arguments)
        if params.request_state is not None:
            where = _state(params.request_state)
        else:
            where = Round(given.session or fresh_name(), given.key or fresh_name())
        session = self._session(where.session)
        asks = await self._take(session, params)
        return await self._went(context, session, session.run(given.message, key=where.key), where, asks)

    async def _look(self, context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        session = await self._session(_read(Look, params.arguments).session).refresh()
        return _told(session, "", session.error)

    async def _answer(self, context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        given = _read(Decide, params.arguments)
        session = self._session(given.session)
        if params.request_state is None:
            await decide(session, given.request, Answer(given.decision, given.words, given.arguments))
        asks = await self._take(session, params)
        return await self._went(context, session, session.resume(), Round(given.session, ""), asks)

    def _session(self, id: str) -> Session:
        return self.workflow.session(id, store=self._store, context=self._context)

    # -- running -----------------------------------------------------------------------------------------------------------

    async def _went(
        self, context: ServerRequestContext[Any], session: Session, run: Run, where: Round, asks: bool
    ) -> CallToolResult | InputRequiredResult:
        """Run until nothing more can be done without people; ask those whom the client can ask, and go on."""
        count = 0
        while True:
            async for event in run:
                if (words := _words(event)) and context.request_id is not None:
                    count += 1
                    await context.session.report_progress(count, None, words)
            result = await run
            if result.status != "pending" or not asks or not _can_ask(context):
                return _told(session, result.text, result.error)
            if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
                # The client asks its people, and sends the call again with what they decided.
                forms: Any = {request.id: ElicitRequest(params=form(request)) for request in result.pending}
                return InputRequiredResult(input_requests=forms, request_state=msgspec.json.encode(where).decode())
            answered = False
            for request in result.pending:
                asked = form(request)
                reply = await context.session.elicit_form(asked.message, asked.requested_schema, context.request_id)
                answered = await self._decided(session, request.id, filled_in(reply)) or answered
            if not answered:
                return _told(session, result.text, result.error)
            run = session.resume()

    async def _take(self, session: Session, params: CallToolRequestParams) -> bool:
        """Record what a client's people decided since it was asked. False if they dismissed it all: then they are not asked again."""
        decided = [await self._decided(session, request, filled_in(reply)) for request, reply in (params.input_responses or {}).items()]
        return not decided or any(decided)

    async def _decided(self, session: Session, request: str, answer: Answer | None) -> bool:
        if answer is None:
            return False
        with suppress(NotPending):  # somebody else was first, in this process or another: what they decided holds
            await decide(session, request, answer)
        return True


def _can_ask(context: ServerRequestContext[Any]) -> bool:
    """Whether the client has people whom it can show a form."""
    able = context.session.client_capabilities
    if able is None or able.elicitation is None or (able.elicitation.form is None and able.elicitation.url is not None):
        return False
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS or context.session.can_send_request


def _words(event: Event) -> str:
    return f"{event.type.replace('_', ' ')}: {event.data}"[:LONGEST] if event.type in TOLD else ""


def _read(kind: type[S], arguments: Mapping[str, Any] | None) -> S:
    try:
        return msgspec.convert(arguments or {}, kind)
    except msgspec.ValidationError as error:
        raise MCPError(code=INVALID_PARAMS, message=f"these arguments cannot be used: {error}") from None


def _state(text: str) -> Round:
    try:
        return msgspec.json.decode(text, type=Round)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise MCPError(code=INVALID_PARAMS, message=f"this is no state of this server: {error}") from None


def _told(session: Session, text: str, error: str) -> CallToolResult:
    """Where a session is, as words and as data."""
    pending = [shown(session, request) for request in session.pending]
    data = {"session": session.id, "status": session.status, "answer": text, "error": error, "pending": pending}
    lines = [text] if text else []
    lines += [f"It failed: {error}"] if error else []
    lines += [f"Pending: [{each['id']}] {each['prompt']}" for each in pending]
    lines.append(f"(session {session.id}: {session.status})")
    return CallToolResult(content=[TextContent(type="text", text="\n".join(lines))], structured_content=data, is_error=bool(error))


def _failed(words: str) -> CallToolResult:
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


def _tools(name: str, workflow: Workflow) -> list[Tool]:
    about = workflow.description or f"Talk to {workflow.name}: {', '.join(workflow.agents)}."
    return [
        Tool(
            name=name,
            description=f"{about} Says something in a session and returns the answer, and what waits for people.",
            input_schema=_object(
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
            input_schema=_object(["session"], session=TEXT),
            output_schema=RESULT,
            annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
        ),
        Tool(
            name=f"{name}_answer",
            description=(
                f"Answer something that waits for people in a session of {workflow.name}, and go on. Only for what a person has decided: "
                "ask them first."
            ),
            input_schema=_object(
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


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return json.loads(json.dumps({"type": "object", "properties": properties, "required": required, "additionalProperties": False}))  # type: ignore[no-any-return]
