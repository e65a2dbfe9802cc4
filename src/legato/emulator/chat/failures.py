"""How Chat Completions fails: as the Responses API does, but for an input that is too long. May know: asks. Decides: nothing."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from legato.emulator.asks import Ask, Failure
from legato.emulator.responses.failures import body_of, error_of


def body(ask: Ask, failure: Failure, window: int, tokens: int) -> dict[str, Any]:
    """The body of a failed request. `window`: the model's; `tokens`: those of the request."""
    told = body_of(ask, _worded(failure, window, tokens))
    if failure.kind == "context_length":
        told["error"]["param"] = "messages"
    return told


def streamed(ask: Ask, failure: Failure, window: int, tokens: int) -> dict[str, Any]:
    """The last frame of a stream that fails."""
    error = error_of(ask, _worded(failure, window, tokens), streamed=True)
    if failure.kind == "context_length":
        error["param"] = "messages"
    return {"error": {key: error[key] for key in ("message", "type", "param", "code")}}


def _worded(failure: Failure, window: int, tokens: int) -> Failure:
    if failure.kind != "context_length" or failure.message:
        return failure
    words = f"However, your messages resulted in {max(tokens, window + 1)} tokens. Please reduce the length of the messages."
    return replace(failure, message=f"This model's maximum context length is {window} tokens. {words}")
