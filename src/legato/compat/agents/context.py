"""The contexts that user code receives from a run.

The caller's context belongs to the caller: it is passed on and never recorded. Usage is read from the ledger.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from legato.compat.agents.unsupported_errors import mirrors
from legato.core.facts import Decided, MessageReceived, ModelReplied, ModelRequestFailed
from legato.core.facts import Usage as Spent
from legato.core.groups import CallState
from legato.core.state import State

if TYPE_CHECKING:
    from legato.compat.agents.agent import Agent
    from legato.runtime.session import Session

TContext = TypeVar("TContext")


@dataclass(frozen=True)
class InputTokensDetails:
    cached_tokens: int = 0


@dataclass(frozen=True)
class OutputTokensDetails:
    reasoning_tokens: int = 0


@mirrors("Usage")
@dataclass(frozen=True)
class Usage:
    """A run's usage, counted from the ledger."""

    requests: int = 0
    input_tokens: int = 0
    input_tokens_details: InputTokensDetails = InputTokensDetails()
    output_tokens: int = 0
    output_tokens_details: OutputTokensDetails = OutputTokensDetails()
    total_tokens: int = 0


def usage_of(spent: Spent, requests: int) -> Usage:
    """Tokens under the SDK's names."""
    return Usage(
        requests,
        spent.input,
        InputTokensDetails(spent.cached),
        spent.output,
        OutputTokensDetails(spent.reasoning),
        spent.total,
    )


def usage_since(state: State) -> Usage:
    """Return the usage since the user's last message."""
    total, requests = Spent(), 0
    for fact in reversed(state.facts):
        if isinstance(fact, MessageReceived):
            break
        if isinstance(fact, (ModelReplied, ModelRequestFailed)):
            total, requests = total + fact.usage, requests + 1
    return usage_of(total, requests)


@mirrors("RunContextWrapper")
@dataclass(eq=False)
class RunContextWrapper(Generic[TContext]):
    """The caller's context, as the SDK's functions receive it."""

    context: TContext
    session: Session | None = field(default=None, repr=False, kw_only=True)
    """Ours: the Legato session that runs."""
    judged: list[Any] = field(default_factory=list, repr=False, kw_only=True)
    """What guardrails said in this very run, with whatever objects they gave. The verdicts themselves are in the ledger."""

    @property
    def usage(self) -> Usage:
        """The usage of this run so far."""
        return usage_since(self.session.state) if self.session is not None else Usage()

    def get_approval_status(self, tool_name: str, call_id: str, **which: Any) -> bool | None:
        """Return True if a call was approved, False if rejected; None if it is undecided or needs no approval."""
        call = self._call(call_id)
        if call is None:
            return None
        return True if call.approved else False if self._rejected(call) is not None else None

    is_tool_approved = get_approval_status

    def get_rejection_message(self, tool_name: str, call_id: str, **which: Any) -> str | None:
        """The words with which a call was rejected."""
        call = self._call(call_id)
        return self._rejected(call) if call is not None else None

    def _call(self, call_id: str) -> CallState | None:
        state = self.session.state if self.session is not None else State()
        found = (call for group in reversed(state.groups) for call in group.calls if call.call.call_id == call_id)
        return next(found, None)

    def _rejected(self, call: CallState) -> str | None:
        facts = self.session.state.facts if self.session is not None else []
        found = (facts[position] for position in call.decision_positions if facts)
        return next((fact.reason for fact in found if isinstance(fact, Decided) and fact.verdict == "reject"), None)


AgentHookContext = RunContextWrapper
"""What hooks are given of a run: the same."""


@mirrors("ToolContext")
@dataclass(eq=False)
class ToolContext(RunContextWrapper[TContext]):
    """The same for a tool: which call it is."""

    tool_name: str = ""
    tool_call_id: str = ""
    tool_arguments: str = ""
    tool_call: Any = field(default=None, repr=False)
    """The call in OpenAI's type."""
    agent: Agent[Any] | None = field(default=None, repr=False)
    idempotency_key: str = field(default="", kw_only=True)
    """Ours: the same for every attempt of this call; see `legato.ToolContext`."""

    @property
    def qualified_tool_name(self) -> str:
        return self.tool_name

    @classmethod
    def from_agent_context(
        cls, context: RunContextWrapper[TContext], tool_call_id: str, tool_call: Any = None, agent: Agent[Any] | None = None, **call: Any
    ) -> ToolContext[TContext]:
        """The context of a call, from that of its run: for tests of tools."""
        name, arguments = getattr(tool_call, "name", ""), getattr(tool_call, "arguments", "")
        told = {"tool_name": name, "tool_arguments": arguments, "tool_call": tool_call, "agent": agent, **call}
        return cls(context.context, tool_call_id=tool_call_id, session=context.session, judged=context.judged, **told)
