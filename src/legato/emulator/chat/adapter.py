"""The adapter of Chat Completions. The API stores nothing between requests, except completions whose requests ask for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from legato.emulator.chat import failures, prompt_builder, reply_writer
from legato.emulator.fake_models.base import FakeReply, ModelPrompt
from legato.emulator.ids import IdGenerator
from legato.emulator.lenient_json import as_string
from legato.emulator.model_catalogue import CatalogueModel, ModelCatalogue
from legato.emulator.request_types import ApiReply, EmulatorRequest, ErrorReply, ProviderFailure, StreamEvent
from legato.emulator.responses.endpoint_replies import make_not_found
from legato.emulator.responses.failures import find_wait, make_retry_headers
from legato.emulator.responses.headers import make_headers
from legato.emulator.storage import ProviderStorage
from legato.emulator.tokens import count_request_tokens
from legato.providers.rules.chat import rules
from legato.providers.rules.chat.model_info import ChatModelInfo, FindChatModel
from legato.providers.rules.rule_set import RuleViolation

STORED_KIND = "chat.completion"
"""The kind of a stored completion in the provider's storage."""


class ChatAdapter:
    """`POST /v1/chat/completions`, and Azure's path for it."""

    api = "chat"

    def __init__(self, storage: ProviderStorage, ids: IdGenerator, switches: rules.ChatRuleSwitches, models: ModelCatalogue) -> None:
        self._storage = storage
        self._ids = ids
        self._switches = switches
        self._models = models

    def find_violations(self, request: EmulatorRequest) -> Sequence[RuleViolation]:
        """Return how a request violates the rules of Chat Completions."""
        body = _body_with_model(request) if request.non_object_body is None else request.non_object_body
        return tuple(
            rules.check_request(
                body, find_model=self._model_lookup(request), token_count=_count_prompt_tokens(request), switches=self._switches
            )
        )

    def reply_to_violations(self, request: EmulatorRequest, violations: Sequence[RuleViolation]) -> ErrorReply:
        """Return the first violation as OpenAI's error."""
        first = violations[0]
        return ErrorReply(
            first.status, rules.render_error_body(first), make_headers(request, self._ids, status=first.status), tuple(violations)
        )

    def reply_to_failure(self, request: EmulatorRequest, failure: ProviderFailure) -> ErrorReply:
        """Return a failure of the provider as OpenAI's error, with the headers that belong to it."""
        wait = find_wait(failure) if failure.kind == "rate_limit" else 0.0
        headers = make_headers(request, self._ids, status=failure.status, wait=wait)
        body = failures.make_failure_body(request, failure, self._find_model(request).context_window, _count_prompt_tokens(request))
        return ErrorReply(failure.status, body, headers | make_retry_headers(failure))

    def apply_state_fault(self, request: EmulatorRequest, kind: str) -> bool:
        """Return False: requests do not refer to stored objects."""
        return False

    def acquire_locks(self, request: EmulatorRequest) -> None:
        """Do nothing: this API has no locks."""

    def make_prompt(self, request: EmulatorRequest) -> ModelPrompt:
        """Return the model's prompt for the first choice."""
        return self.make_prompts(request)[0]

    def make_prompts(self, request: EmulatorRequest) -> tuple[ModelPrompt, ...]:
        """Return the model's prompts, one for each of the `n` choices. They differ in the seed only."""
        model, body = self._find_model(request), _body_with_model(request)
        return tuple(
            prompt_builder.build_prompt(body, model.name, bool(model.has_reasoning), choice)
            for choice in range(prompt_builder.read_reply_options(body).choice_count)
        )

    def make_reply(self, request: EmulatorRequest, fake_reply: FakeReply, *further_replies: FakeReply) -> ApiReply:
        """Return the completion and its chunks. The further replies are for further choices; too few repeat the last one."""
        options = prompt_builder.read_reply_options(request.body)
        replies = [fake_reply, *further_replies][: options.choice_count]
        replies += [replies[-1]] * (options.choice_count - len(replies))
        existing_ids = prompt_builder.list_call_ids(request.body)
        choices = [reply_writer.write_choice(reply, options, self._ids, existing_ids, self._switches.shows_reasoning) for reply in replies]
        metadata = reply_writer.CompletionMetadata(
            id=self._ids.make_alphanumeric_id("chatcmpl-", 29),
            created=int(request.now),
            model=self._find_model(request).reply_name,
            service_tier=options.service_tier,
            prompt_tokens=_count_prompt_tokens(request),
            is_azure=request.is_azure,
        )
        return ApiReply(
            reply_writer.make_completion(metadata, choices), tuple(reply_writer.make_chunks(metadata, choices, options, self._ids))
        )

    def store_reply(self, request: EmulatorRequest, reply: ApiReply) -> None:
        """Store the completion if the request has `store: true`."""
        if request.body.get("store") is True:
            self._storage.put(request.account, STORED_KIND, reply.body["id"], reply.body)

    def get_stored_completion(self, request: EmulatorRequest, id: str, query: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        """Answer `GET /v1/chat/completions/{id}`. The error's message is inferred from those of other stored objects."""
        completion = self._storage.get(request.account, STORED_KIND, id)
        return (200, completion) if completion else make_not_found("Chat completion", id)

    def release_locks(self, request: EmulatorRequest) -> None:
        """Do nothing: this API has no locks."""

    def make_failing_stream(
        self, request: EmulatorRequest, reply: ApiReply, failure: ProviderFailure, after_events: int, is_flat: bool
    ) -> tuple[StreamEvent, ...]:
        """Return some chunks, then an event with the error, and no `[DONE]`. No other form is documented, so `is_flat` changes nothing."""
        event = failures.make_streamed_failure(request, failure, self._find_model(request).context_window, _count_prompt_tokens(request))
        return (*reply.events[: min(after_events, len(reply.events) - 1)], StreamEvent(event))

    def make_headers(self, request: EmulatorRequest, *, is_stream: bool, status: int = 200) -> dict[str, str]:
        """Return the headers of a reply."""
        return make_headers(request, self._ids, is_stream=is_stream, status=status)

    def _find_model(self, request: EmulatorRequest) -> CatalogueModel:
        name = as_string(_body_with_model(request).get("model"))
        return self._models.find("openai", name, is_deployment=request.is_azure) or CatalogueModel(name)

    def _model_lookup(self, request: EmulatorRequest) -> FindChatModel:
        def find_model_info(name: str) -> ChatModelInfo | None:
            if not name:  # the rules accept this only where no model has to be named
                return ChatModelInfo("")
            return self._models.find_chat_info(name, is_deployment=request.is_azure)

        return find_model_info


def _body_with_model(request: EmulatorRequest) -> dict[str, Any]:
    """Return the body. On Azure the path may name the model."""
    return {**request.body, "model": request.deployment} if request.deployment else request.body


def _count_prompt_tokens(request: EmulatorRequest) -> int:
    return count_request_tokens(prompt_builder.list_prompt_texts(request.body))
