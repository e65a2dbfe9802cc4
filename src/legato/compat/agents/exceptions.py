"""The SDK's exceptions, under the SDK's names.

A run that ends in one of these has lost nothing: `error.run_data` is its result so far, and `error.run_data.to_state()` goes on from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from legato.compat.agents.guardrail import InputGuardrailResult, OutputGuardrailResult


class AgentsException(Exception):
    """The root of what this facade raises. Errors of Legato itself (`legato.errors`) pass through as they are."""

    run_data: Any = None


class UserError(AgentsException):
    """The program asks for something that cannot be had here; the message says what to write instead."""

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(message)


class MaxTurnsExceeded(AgentsException):
    """The model was called `max_turns` times and the run is not over. It is paused, not lost."""

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(message)


class ModelBehaviorError(AgentsException):
    """The model did not give what was asked of it: its output does not fit the output type, several times over."""

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(message)


class ModelCallFailed(AgentsException):
    """The provider could not be reached, or refused. Ours: the SDK lets its client's exception out here."""

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(message)


class InputGuardrailTripwireTriggered(AgentsException):
    """An input guardrail objected. The message is part of nothing: no model has seen it, and none will."""

    def __init__(self, guardrail_result: InputGuardrailResult) -> None:
        self.guardrail_result = guardrail_result
        super().__init__(f"the input guardrail {guardrail_result.guardrail.get_name()!r} objected")


class OutputGuardrailTripwireTriggered(AgentsException):
    """An output guardrail objected. The reply is withheld."""

    def __init__(self, guardrail_result: OutputGuardrailResult) -> None:
        self.guardrail_result = guardrail_result
        super().__init__(f"the output guardrail {guardrail_result.guardrail.get_name()!r} objected")
