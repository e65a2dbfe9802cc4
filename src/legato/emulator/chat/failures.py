"""The errors of Chat Completions for failures of the provider: those of the Responses API, except for an input that is too long."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from legato.emulator.request_types import EmulatorRequest, ProviderFailure
from legato.emulator.responses import failures


def make_failure_body(request: EmulatorRequest, failure: ProviderFailure, context_window: int, prompt_tokens: int) -> dict[str, Any]:
    """Return the body of a failed request. `context_window` is the model's."""
    body = failures.make_failure_body(request, _add_message(failure, context_window, prompt_tokens))
    if failure.kind == "context_length":
        body["error"]["param"] = "messages"
    return body


def make_streamed_failure(request: EmulatorRequest, failure: ProviderFailure, context_window: int, prompt_tokens: int) -> dict[str, Any]:
    """Return the last event of a stream that fails."""
    error = failures.make_error(request, _add_message(failure, context_window, prompt_tokens), is_stream=True)
    if failure.kind == "context_length":
        error["param"] = "messages"
    return {"error": {key: error[key] for key in ("message", "type", "param", "code")}}


def _add_message(failure: ProviderFailure, context_window: int, prompt_tokens: int) -> ProviderFailure:
    if failure.kind != "context_length" or failure.message:
        return failure
    advice = (
        f"However, your messages resulted in {max(prompt_tokens, context_window + 1)} tokens. Please reduce the length of the messages."
    )
    return replace(failure, message=f"This model's maximum context length is {context_window} tokens. {advice}")
