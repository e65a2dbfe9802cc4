"""What user code is given of a run. May know: the session that runs. Decides: nothing.

The caller's context is the caller's: it is passed on and never recorded. What is used is read from the ledger.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from legato.core.facts import Answered, Attempted, Said
from legato.core.facts import Usage as Spent
from legato.core.state import State

if TYPE_CHECKING:
    from legato.session import Session

TContext = TypeVar("TContext")


@dataclass(frozen=True)
class InputTokensDetails:
    cached_tokens: int = 0


@dataclass(frozen=True)
class OutputTokensDetails:
    reasoning_tokens: int = 0


@dataclass(frozen=True)
class Usage:
    """What a run has used, counted from the ledger."""

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
    """What was used since the user last spoke."""
    total, requests = Spent(), 0
    for fact in reversed(state.facts):
        if isinstance(fact, Said):
            break
        if isinstance(fact, (Answered, Attempted)):
            total, requests = total + fact.usage, requests + 1
    return usage_of(total, requests)


@dataclass(eq=False)
class RunContextWrapper(Generic[TContext]):
    """The caller's context, as the SDK's functions receive it."""

    context: TContext
    session: Session | None = field(default=None, repr=False)
    """Ours: the Legato session that runs."""
    judged: list[Any] = field(default_factory=list, repr=False)
    """What guardrails said in this very run, with whatever objects they gave. The verdicts themselves are in the ledger."""

    @property
    def usage(self) -> Usage:
        """What this run has used so far."""
        return usage_since(self.session.state) if self.session is not None else Usage()


@dataclass(eq=False)
class ToolContext(RunContextWrapper[TContext]):
    """The same for a tool: which call it is."""

    tool_name: str = ""
    tool_call_id: str = ""
    tool_arguments: str = ""
    idempotency_key: str = ""
    """Ours: the same for every attempt of this call; see `legato.ToolContext`."""
