"""The adapter of Anthropic's Messages API.

The API stores nothing between requests: what it must recognise comes back in signatures that only the emulator can make.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from typing import Any

from legato.emulator.anthropic import failures, prompt_builder, reply_writer
from legato.emulator.anthropic.provider_state import EmulatorAnthropicState
from legato.emulator.encrypted_content import ContentCipher
from legato.emulator.fake_models.base import FakeReply, ModelPrompt
from legato.emulator.ids import IdGenerator
from legato.emulator.lenient_json import as_integer, as_string
from legato.emulator.model_catalogue import CatalogueModel, ModelCatalogue
from legato.emulator.request_types import ApiReply, EmulatorRequest, ErrorReply, ProviderFailure, StreamEvent
from legato.emulator.tokens import count_request_tokens
from legato.providers.rules.anthropic import rules
from legato.providers.rules.anthropic.thinking_blocks import list_dropped_thinking
from legato.providers.rules.rule_set import RuleViolation

_REPLY_PARAMETERS = ("max_tokens", "metadata", "stop_sequences", "temperature", "service_tier", "top_k", "top_p", "stream", "container")
_COUNTING_MAX_TOKENS = 64_000  # `max_tokens` for checking a `count_tokens` request, which has none


class AnthropicAdapter:
    """`POST /v1/messages` and `/v1/messages/count_tokens`."""

    api = "anthropic"

    def __init__(self, ids: IdGenerator, cipher: ContentCipher, switches: rules.AnthropicRuleSwitches, models: ModelCatalogue) -> None:
        self._ids = ids
        self._cipher = cipher
        self._switches = switches
        self._models = models

    def find_violations(self, request: EmulatorRequest) -> Sequence[RuleViolation]:
        """Return how a request violates Anthropic's rules. The tokens are counted only if the request is legal otherwise."""
        return tuple(self._check_body(request, request.body if request.non_object_body is None else request.non_object_body))

    def reply_to_violations(self, request: EmulatorRequest, violations: Sequence[RuleViolation]) -> ErrorReply:
        """Return the first violation as Anthropic's error."""
        request_id = self._new_request_id()
        headers = failures.make_headers(request, _organisation_id(request), request_id)
        return ErrorReply(violations[0].status, rules.render_error_body(violations[0], request_id), headers, tuple(violations))

    def reply_to_failure(self, request: EmulatorRequest, failure: ProviderFailure) -> ErrorReply:
        """Return a failure of the provider as Anthropic's error. The reply to an invalid key has no rate limit headers."""
        request_id = self._new_request_id()
        body = failures.make_body(request, failure, self._find_model(request).context_window, _count_prompt_tokens(request), request_id)
        return ErrorReply(
            failures.find_status(failure), body, failures.make_headers(request, _organisation_id(request), request_id, failure)
        )

    def apply_state_fault(self, request: EmulatorRequest, kind: str) -> bool:
        """Return False: requests do not refer to stored objects."""
        return False

    def acquire_locks(self, request: EmulatorRequest) -> None:
        """Do nothing: this API has no locks."""

    def make_prompt(self, request: EmulatorRequest) -> ModelPrompt:
        """Return the model's prompt."""
        return prompt_builder.build_prompt(request.body, self._find_model(request).name)

    def make_reply(self, request: EmulatorRequest, fake_reply: FakeReply) -> ApiReply:
        """Return the message and its events."""
        model, state, options = self._find_model(request), self._provider_state(request), prompt_builder.read_reply_options(request.body)

        def sign(thinking: str, before: Sequence[dict[str, Any]]) -> str:
            return state.sign(request.body, model.name, thinking, before)

        content = reply_writer.write_content(fake_reply, options, self._ids, sign, prompt_builder.list_call_ids(request.body))
        dropped = self._find_dropped_thinking(request) if prompt_builder.wants_transformations(request.headers) else None
        body = reply_writer.make_message(
            self._ids.make_alphanumeric_id("msg_01", 22),
            model.reply_name,
            self._count_tokens(request),
            content,
            transformations=dropped,
            has_thinking=options.has_thinking,
            reports_edits=request.body.get("context_management") is not None,
        )
        return ApiReply(body, tuple(reply_writer.make_events(body, content.streamed_inputs)))

    def store_reply(self, request: EmulatorRequest, reply: ApiReply) -> None:
        """Do nothing: this API stores no replies."""

    def release_locks(self, request: EmulatorRequest) -> None:
        """Do nothing: this API has no locks."""

    def make_failing_stream(
        self, request: EmulatorRequest, reply: ApiReply, failure: ProviderFailure, after_events: int, is_flat: bool
    ) -> tuple[StreamEvent, ...]:
        """Return some events, then an error and the end. The documented form is the observed one, so `is_flat` changes nothing."""
        error = failures.make_error(request, failure, self._find_model(request).context_window, _count_prompt_tokens(request))
        return (*reply.events[: min(after_events, len(reply.events) - 1)], StreamEvent({"type": "error", "error": error}, "error"))

    def make_headers(self, request: EmulatorRequest, *, is_stream: bool, status: int = 200) -> dict[str, str]:
        """Return the headers of a reply."""
        return failures.make_headers(request, _organisation_id(request), self._new_request_id())

    def count_tokens(self, request: EmulatorRequest) -> tuple[int, dict[str, Any]]:
        """Answer `POST /v1/messages/count_tokens` with a status and a body.

        A request that may be sent may be counted, without the parameters of the reply.
        """
        body = {name: value for name, value in request.body.items() if name not in _REPLY_PARAMETERS}
        violations = self._check_body(request, _with_max_tokens(body))
        if violations:
            return violations[0].status, rules.render_error_body(violations[0], self._new_request_id())
        unknown_parameter = next((name for name, value in request.body.items() if name in _REPLY_PARAMETERS and value is not None), None)
        if unknown_parameter:
            error = {"type": "invalid_request_error", "message": f"{unknown_parameter}: Extra inputs are not permitted"}
            return 400, {"type": "error", "error": error, "request_id": self._new_request_id()}
        return 200, {"input_tokens": self._count_tokens(request)}

    def _provider_state(self, request: EmulatorRequest) -> EmulatorAnthropicState:
        return EmulatorAnthropicState(request.account, self._cipher, self._models)

    def _find_model(self, request: EmulatorRequest) -> CatalogueModel:
        name = as_string(request.body.get("model"))
        return self._models.find("anthropic", name) or CatalogueModel(name, "anthropic")

    def _check_body(self, request: EmulatorRequest, body: Any) -> list[RuleViolation]:
        state, window = self._provider_state(request), self._find_model(request).context_window
        violations = rules.check_request(body, request.headers, state, self._switches, body_bytes=request.body_bytes)
        if violations or not window or (tokens := self._count_tokens(request)) <= window:
            return violations
        return rules.check_request(body, request.headers, state, self._switches, token_count=tokens)

    def _find_dropped_thinking(self, request: EmulatorRequest) -> list[dict[str, str]]:
        """Return the changes to the thinking of a legal request that the model does not read as it was sent."""
        return list_dropped_thinking(request.body, request.headers, self._provider_state(request), self._switches)

    def _count_tokens(self, request: EmulatorRequest) -> int:
        """Count the tokens of a legal request. Dropped thinking does not count."""
        return _count_prompt_tokens(
            request, [change["path"] for change in self._find_dropped_thinking(request) if change["type"] == "thinking_dropped"]
        )

    def _new_request_id(self) -> str:
        return self._ids.make_alphanumeric_id("req_011C", 20)


def _count_prompt_tokens(request: EmulatorRequest, dropped: Collection[str] = ()) -> int:
    return count_request_tokens(prompt_builder.list_prompt_texts(request.body, dropped))


def _with_max_tokens(body: dict[str, Any]) -> dict[str, Any]:
    """Return the body of a `count_tokens` request with a `max_tokens`, and with a thinking budget below it."""
    thinking = body.get("thinking")
    if isinstance(thinking, dict) and (as_integer(thinking.get("budget_tokens")) or 0) >= _COUNTING_MAX_TOKENS:
        body = {**body, "thinking": {**thinking, "budget_tokens": _COUNTING_MAX_TOKENS - 1}}
    return {**body, "max_tokens": _COUNTING_MAX_TOKENS}


def _organisation_id(request: EmulatorRequest) -> str:
    """Return the account's id in Anthropic's form."""
    digits = hashlib.sha256(request.account.encode("utf-8", "replace")).hexdigest()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))
