"""Agents under the framework's names. May know: Legato's agents and sessions. Decides: what an agent of theirs is here.

An agent holds its definition and a store. A conversation with one agent is a session in that store, named by an `AgentSession`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, TypeAlias

from legato.agent import Agent as NativeAgent
from legato.compat.agent_framework.clients import _ChatClient
from legato.compat.agent_framework.events import ResponseStream
from legato.compat.agent_framework.explained import explain_all
from legato.compat.agent_framework.messages import AgentResponse, AgentResponseUpdate, Content, Message, flat, said, shown
from legato.compat.agent_framework.providers import AgentSession, ContextProvider, after_run, contributes, told_of_history
from legato.compat.agent_framework.requests import decide, found, requests_of
from legato.compat.agent_framework.tools import as_tool
from legato.compat.agent_framework.updates import update_of
from legato.drive.clock import fresh_name
from legato.drive.definition import Middleware
from legato.errors import BadInput, ModelFailed
from legato.models.base import Model
from legato.session import Session
from legato.stores import MemoryStore, Store
from legato.workflow import HandoffBuilder as NativeBuilder
from legato.workflow import Workflow as NativeWorkflow

_WHY = {
    "require_per_service_call_history_persistence": "every reply and every output is recorded before anything else happens",
    "compaction_strategy": "history policies do this: legato.history.last(n), summarised(...), given to a native Agent",
    "tokenizer": "history policies estimate by themselves",
    "additional_properties": "an agent carries nothing else",
}

Outcome: TypeAlias = AgentResponse | None


class Agent:
    """One participant: a client, instructions, tools. Immutable, and holds no conversation."""

    def __init__(
        self,
        client: _ChatClient | Model | str | None = None,
        instructions: str | None = None,
        *,
        id: str | None = None,
        name: str | None = None,
        description: str | None = None,
        tools: Any = None,
        default_options: Mapping[str, Any] | None = None,
        context_providers: Sequence[ContextProvider] | ContextProvider | None = None,
        middleware: Sequence[Middleware] | None = None,
        chat_client: _ChatClient | Model | str | None = None,
        store: Store | None = None,
        **more: Any,
    ) -> None:
        options = {**(default_options or {}), **{key: more.pop(key) for key in [*more] if key not in _WHY}}
        explain_all({f"Agent({key}=...)": value for key, value in more.items()}, {f"Agent({key}=...)": why for key, why in _WHY.items()})
        self.client = client or chat_client
        self.id = id or name or "agent"
        self.name = name
        self.description = description
        providers = [context_providers] if isinstance(context_providers, ContextProvider) else list(context_providers or ())
        self.context_providers = providers
        told_of_history(providers)
        for each in middleware or ():
            if not isinstance(each, Middleware):
                raise BadInput(
                    "middleware of another framework is not run here, and what it guards would stand open",
                    found=repr(each)[:80],
                    do="write it as a legato.Middleware, or as a @legato.guardrail",
                )
        given = [tools] if callable(tools) or isinstance(tools, Mapping) else list(tools or ())
        hosted = tuple(dict(each) for each in given if isinstance(each, Mapping))  # what the provider runs by itself
        output = options.pop("response_format", None)
        self.native = NativeAgent(
            name=resolve_agent_id(self),
            instructions=instructions or "",
            model=_model(self.client, options, hosted),
            tools=[as_tool(each) for each in given if not isinstance(each, Mapping)],
            description=description or "",
            output_type=output if isinstance(output, type) else str,
            context_providers=contributes(self, providers),
            middleware=[*after_run(self, providers), *(middleware or ())],
        )
        self.store: Store = store if store is not None else MemoryStore()

    def __repr__(self) -> str:
        return f"<Agent {resolve_agent_id(self)}>"

    def create_session(self, *, session_id: str | None = None) -> AgentSession:
        """The name of a conversation with this agent."""
        return AgentSession(session_id=session_id)

    get_new_thread = create_session  # what it was called before

    def run(
        self, messages: Any = None, *, stream: bool = False, session: AgentSession | None = None, thread: AgentSession | None = None
    ) -> Any:
        """Ask this agent: await an `AgentResponse`, or with `stream=True` iterate over updates.

        Without a session it is a conversation of its own, which is forgotten as soon as nothing in it waits for an approval.
        """
        coming = ResponseStream(self._updates(messages, session or thread, stream), _response)
        return coming if stream else coming.get_final_response()

    def run_stream(self, messages: Any = None, **more: Any) -> Any:
        """The same with `stream=True`, as it was written before."""
        return self.run(messages, stream=True, **more)

    def as_tool(self, *, name: str | None = None, description: str | None = None, **_: Any) -> Any:
        """This agent as a tool of another."""
        return self.native.as_tool(name, description)

    async def _updates(self, messages: Any, named: AgentSession | None, stream: bool) -> AsyncIterator[AgentResponseUpdate]:
        answers = _answers(messages)
        # A run without a session is found again by the requests that it left open: their ids name it.
        id = named.session_id if named else next((each.rpartition("/")[0] for each in answers), "") or fresh_name()
        session = _alone(self.native, self.store).session(id)
        if answers:
            await session.refresh()
            for asked, content in answers.items():
                await decide(session, found(session, asked.rpartition("/")[2]), content)
            run = session.resume(stream)
        else:
            run = session.run(said(messages), stream)
        async for event in run:
            if (update := update_of(event)) is not None:
                yield update
        result = await run
        if result.status == "failed":
            raise ModelFailed(result.error)
        yield _Rest(session=session, since=result.messages[0].position if result.messages else 0, output=result.output)
        if named is None and result.status != "pending":
            await self.store.delete(id)


class _Rest(AgentResponseUpdate):
    """The last update of a run: it has no words, and names what is pending."""

    def __init__(self, session: Session, since: int, output: Any) -> None:
        asked = [replaced(each.data, f"{session.id}/{each.request_id}") for each in requests_of(session).values() if is_approval(each.data)]
        super().__init__(contents=asked)
        new = [message for message in session.messages if message.role == "assistant" and message.position >= since]
        self.whole = AgentResponse(
            messages=[*map(shown, new), *([Message("assistant", asked)] if asked else [])],
            agent_id=session.workflow.agents[0],
            value=None if isinstance(output, str) else output,
        )


def is_approval(data: Any) -> bool:
    return isinstance(data, Content) and data.type == "function_approval_request"


def replaced(request: Content, id: str) -> Content:
    """The same request under another id."""
    assert request.function_call is not None
    return Content.from_function_approval_request(id, request.function_call)


def _response(updates: list[AgentResponseUpdate]) -> AgentResponse:
    rest = updates[-1] if updates else None
    return rest.whole if isinstance(rest, _Rest) else AgentResponse()


def _answers(messages: Any) -> dict[str, Content]:
    """The answers to approval requests among what was handed to `run`."""
    contents = [content for each in flat(messages) for content in (each.contents if isinstance(each, Message) else [each])]
    return {
        content.id: content
        for content in contents
        if isinstance(content, Content) and content.type == "function_approval_response" and content.id
    }


def _alone(agent: NativeAgent, store: Store) -> NativeWorkflow:
    return NativeBuilder(name=agent.name, participants=[agent]).with_checkpointing(store).build()


def _model(client: _ChatClient | Model | str | None, options: Mapping[str, Any], hosted: tuple[dict[str, Any], ...]) -> Model | str | None:
    if isinstance(client, _ChatClient):
        return client.native({**options, **({"hosted": hosted} if hosted else {})})
    if options or hosted:
        raise BadInput("a native model has its options already", found=", ".join([*options, *["tools"] * bool(hosted)]))
    return client


def resolve_agent_id(agent: Any) -> str:
    """The name by which a workflow knows an agent."""
    name: str = agent.name or agent.id
    return name
