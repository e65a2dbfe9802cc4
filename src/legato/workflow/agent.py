"""Agents, as users define them. May know: models, tools, pydantic types. Decides: what an agent may be made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from legato.core.argument_checks import function, listed, text, whole_number
from legato.core.history_policies import Summarised
from legato.core.secret_arguments import Secrets
from legato.core.workflow_graph import AgentRules, Edge, Limits, ToolRules
from legato.errors import BadInput, BuildError
from legato.models.base import Model, resolve
from legato.models.strings import check_string
from legato.runtime.definition import AgentDefinition, ContextProvider, Guardrail, History, Middleware, OutputType
from legato.tools import Tool, tool
from legato.workflow.agent_as_tool import workflow_as_tool

if TYPE_CHECKING:
    from legato.runtime.run import Result, Run
    from legato.workflow.workflow import Workflow


class Agent:
    """One participant: a name, instructions, a model, tools. Immutable, and holds no conversation.

    `instructions` is text or a function of the caller's context. `output_type` is a pydantic model (or any type pydantic knows):
    final replies are validated against it, and the model is told what is wrong, a bounded number of times.

    >>> from legato.testing import ScriptedModel
    >>> triage = Agent(name="triage", instructions="Route the customer.", model=ScriptedModel(["Hello!"]))
    >>> triage
    <Agent triage: 0 tools>
    >>> triage.run_sync("Hi").text
    'Hello!'
    """

    def __init__(
        self,
        name: str,
        instructions: str | Callable[[Any], Any] = "",
        model: Model | str | None = None,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        description: str = "",
        output_type: Any = str,
        history: History | None = None,
        context_providers: Sequence[ContextProvider] = (),
        middleware: Sequence[Middleware] = (),
        guardrails: Sequence[Guardrail] = (),
        output_retries: int = 2,
    ) -> None:
        if not isinstance(name, str) or not name.strip() or len(name) > 200 or not name.isprintable():
            raise BadInput(
                "this cannot be the name of an agent",
                expected="1 to 200 printable characters",
                found=repr(name)[:80],
                do='write Agent(name="triage", ...)',
            )
        if not isinstance(instructions, str) and not callable(instructions):
            raise BadInput(
                f"the instructions of agent {name!r} are neither text nor a function of the context",
                found=type(instructions).__name__,
            )
        self.name = name
        self.instructions = instructions
        self.model = model
        if isinstance(model, str):
            check_string(model, f"agent {name!r}")
        self.tools = _tools(name, tools)
        self.description = text(f"the description of agent {name!r}", description)
        self.output_type = output_type
        self.history = _history(name, history)
        self.context_providers = listed(f"the context providers of agent {name!r}", context_providers)
        self.middleware = listed(f"the middleware of agent {name!r}", middleware)
        self.guardrails = listed(f"the guardrails of agent {name!r}", guardrails)
        self.output_retries = whole_number(f"output_retries of agent {name!r}", output_retries, 0)
        for provider in self.context_providers:
            function(f"a context provider of agent {name!r}", provider)
        self._alone: Workflow | None = None
        for each in self.middleware:
            if isinstance(each, type) or not isinstance(each, Middleware):
                raise BadInput(
                    f"agent {name!r}: middleware= takes objects of classes derived from Middleware",
                    found=repr(each)[:80],
                    do="write middleware=[MyMiddleware()]",
                )
        for guardrail in self.guardrails:
            if not isinstance(guardrail, Guardrail):
                raise BadInput(
                    f"agent {name!r}: a guardrail is made by @guardrail",
                    found=type(guardrail).__name__,
                    do='write @guardrail("input") above the function',
                )

    def __repr__(self) -> str:
        return f"<Agent {self.name}: {len(self.tools)} tool{'s' if len(self.tools) != 1 else ''}>"

    def run(self, message: Any, stream: bool = False, session_id: str | None = None) -> Run:
        """Run this agent by itself, in a conversation of its own: await the result, or iterate over events."""
        return self._workflow().run(message, session_id=session_id, stream=stream)

    def run_sync(self, message: Any, session_id: str | None = None) -> Result:
        """The same for scripts without an event loop."""
        return self._workflow().run_sync(message, session_id=session_id)

    def _workflow(self, limits: Limits | None = None) -> Workflow:
        from legato.workflow.workflow import HandoffBuilder

        if limits is not None:
            if not isinstance(limits, Limits):
                raise BuildError("as_tool takes Limits", found=type(limits).__name__, do="write as_tool(limits=Limits(turns=50))")
            return HandoffBuilder(name=self.name, participants=[self]).with_limits(limits).build()
        if self._alone is None:
            self._alone = HandoffBuilder(name=self.name, participants=[self]).build()
        return self._alone

    def as_tool(self, name: str | None = None, description: str | None = None, *, limits: Limits | None = None) -> Tool:
        """This agent as a tool of another: it is given a task, works in a conversation of its own, and returns its reply.

        That conversation lives in the session `<caller's session>/<the call's idempotency key>` of the same store, so a restart goes on
        with it, and a session that is deleted and made anew under the same id does not. What it asks of people is pending in the caller's
        session, and is answered there.

        What it uses counts in its caller's usage and limits. `limits` are its own, for each task; reaching one is asked in the caller's
        session too.

        >>> Agent("poet", model="openai:gpt-5.1").as_tool(limits=Limits(turns=5)).name
        'ask_poet'
        """
        chosen = text(f"the name of agent {self.name!r} as a tool", name or "ask_" + _plain(self.name))
        about = description or self.description or f"Give a task to {self.name} and get its answer."
        return workflow_as_tool(self._workflow(limits), chosen[:64], about)

    # -- what the driver and the plan need -----------------------------------------------------------------------------

    def rules(self, edges: dict[str, Edge], autonomous: bool, prompt: str, prompt_limit: int) -> AgentRules:
        """This agent as the plan knows it."""
        guarded = {guardrail.on for guardrail in self.guardrails}
        summary = self.history.spec if isinstance(self.history.spec, Summarised) else None
        return AgentRules(
            name=self.name,
            tools={
                each.name: ToolRules(
                    each.name,
                    admission=bool(each.needs_approval) or "tool" in guarded,
                    idempotent=each.idempotent,
                    alone=each.alone,
                    deferred=each.deferred,
                    secrets=_secrets(each),
                )
                for each in self.tools
            },
            edges=edges,
            judges_input="input" in guarded,
            typed=self.output_type is not str,
            judges_output=self.output_type is not str or "output" in guarded,
            output_retries=self.output_retries,
            autonomous=autonomous,
            prompt=prompt,
            prompt_limit=prompt_limit,
            summarise_above=summary.tokens if summary else 0,
            keep_turns=summary.keep if summary else 0,
        )

    def definition(self) -> AgentDefinition:
        """This agent as the driver knows it."""
        return AgentDefinition(
            name=self.name,
            instructions=self.instructions,
            model=resolve(self.model, f"agent {self.name!r}"),
            tools={each.name: each for each in self.tools},
            history=self.history,
            output=typed(self.output_type) if self.output_type is not str else None,
            providers=self.context_providers,
            middleware=self.middleware,
            guardrails=self.guardrails,
            description=self.description,
        )


def typed(kind: Any) -> OutputType:
    """A type as schema and parser. `BadInput` if pydantic cannot make one of it."""
    from pydantic import TypeAdapter, ValidationError

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        schema = msgspec.json.encode(adapter.json_schema()).decode()
    except Exception as error:  # what pydantic raises for a type is documented, what it raises for anything else is not
        raise BadInput(f"{kind!r} cannot be an output type: {error}", do="give a pydantic model or a plain type") from error

    def parse(text: str) -> Any:
        try:
            return adapter.validate_json(text)
        except ValidationError as error:
            told = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'reply'}: {each['msg']}" for each in error.errors()[:5])
            raise ValueError(f"it does not fit the expected type. {told}") from None

    return OutputType(schema, parse)


def _tools(agent: str, given: Iterable[Tool | Callable[..., Any]]) -> tuple[Tool, ...]:
    if isinstance(given, Tool) or not isinstance(given, Iterable):
        raise BuildError(f"agent {agent!r}: tools= takes a list", found=repr(given)[:80], do="write tools=[...]")
    tools = tuple(each if isinstance(each, Tool) else tool(function(f"a tool of agent {agent!r}", each, BuildError)) for each in given)
    for each in tools:
        text(f"the description of tool {each.name!r}", each.description, BuildError)
    names = [each.name for each in tools]
    for name in names:
        if names.count(name) > 1:
            raise BuildError(f"agent {agent!r} has two tools named {name!r}", do=f'give one another name: @tool(name="{name[:62]}_2")')
    return tools


def _secrets(tool: Tool) -> tuple[str, ...]:
    if not tool.secrets:
        return ()
    return Secrets(sorted(tool.secrets), may_show=msgspec.json.decode(tool.parameters).get("properties", {}).keys() - tool.secrets)


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in name)


def _history(agent: str, history: Any) -> History:
    if history is None:
        return History()
    if not isinstance(history, History):
        raise BadInput(
            f"agent {agent!r}: history= takes a policy", found=type(history).__name__, do="write history=legato.history.dialogue()"
        )
    return history


def guardrail(on: str) -> Callable[[Callable[..., Any]], Guardrail]:
    """Make a function (sync or async) a guardrail on "input", "output" or "tool".

    It receives the caller's context and the message's text, the reply's output, or the call; it returns None or True to let it pass,
    and words (or False) to object. The verdict is recorded and not asked for again.

    >>> @guardrail("input")
    ... def no_card_numbers(context, text):
    ...     return "Please do not send card numbers." if "4111" in text else None
    >>> no_card_numbers.on
    'input'
    """
    if on not in ("input", "output", "tool"):
        raise BadInput('a guardrail is on "input", "output" or "tool"', found=repr(on), do='write @guardrail("input")')
    return lambda judge: Guardrail(on, function("a guardrail", judge))
