"""The adapter of the Responses API.

A response and its items are stored, unless the request has `store: false` or the account has zero data retention. A request that names a
conversation adds its input and output to that conversation even with `store: false`: the conversation is the client's own record, and
only the response object is not stored (inferred, grade D). A failed response is not stored.

A background response is complete at once. In one piece its status is `completed`; as a stream it is `queued` first. It can be retrieved
later like any stored response.
"""

from __future__ import annotations

from collections.abc import Sequence

from legato.emulator.encrypted_content import ContentCipher
from legato.emulator.fake_models.base import FakeReply, ModelPrompt
from legato.emulator.ids import IdGenerator
from legato.emulator.lenient_json import as_list, as_string
from legato.emulator.model_catalogue import ModelCatalogue
from legato.emulator.request_types import ApiReply, EmulatorRequest, ErrorReply, ProviderFailure, StreamEvent
from legato.emulator.responses.accepted_request import (
    AcceptedRequest,
    accept_request,
    count_tokens_to_check,
    find_conversation_id,
    make_turn,
    normalize_body,
)
from legato.emulator.responses.conversation_endpoints import ConversationEndpoints
from legato.emulator.responses.events import make_failing_stream, make_opening_events, make_stream
from legato.emulator.responses.failures import find_wait, make_error, make_failure_body, make_retry_headers
from legato.emulator.responses.headers import make_headers
from legato.emulator.responses.output import write_output
from legato.emulator.responses.prompt_builder import build_prompt
from legato.emulator.responses.provider_state import EmulatorResponsesState, ResponsesStorage
from legato.emulator.responses.response_endpoints import ResponseEndpoints
from legato.emulator.responses.response_object import make_failed_response, make_response
from legato.emulator.storage import ProviderStorage
from legato.providers.rules.responses.rules import ResponsesRuleSwitches, check_request, render_error_body
from legato.providers.rules.rule_set import RuleViolation


class ResponsesAdapter:
    """`POST /v1/responses`. The endpoints of stored objects are `response_endpoints` and `conversation_endpoints`."""

    api = "responses"

    def __init__(
        self,
        objects: ProviderStorage,
        ids: IdGenerator,
        cipher: ContentCipher,
        switches: ResponsesRuleSwitches,
        models: ModelCatalogue | None = None,
    ) -> None:
        self._ids = make_fresh_ids(objects, ids)
        self._switches = switches
        self._accepted: dict[int, AcceptedRequest] = {}  # by the id() of the request, until `release_locks`
        self.storage = ResponsesStorage(objects, cipher, models or ModelCatalogue())
        self.response_endpoints = ResponseEndpoints(self.storage)
        self.conversation_endpoints = ConversationEndpoints(self.storage, self._ids, switches)

    # -- checking ------------------------------------------------------------------------------------------------------

    def find_violations(self, request: EmulatorRequest) -> Sequence[RuleViolation]:
        """Return how a request violates the rules. A stream that is too long for the model is accepted, and fails while it runs (F2)."""
        state = EmulatorResponsesState(self.storage, request.account, request.now, is_deployment=request.is_azure)
        prompt_tokens = 0 if request.wants_stream else count_tokens_to_check(request, self.storage)
        violations = check_request(
            normalize_body(request) if request.non_object_body is None else request.non_object_body, state, self._switches, prompt_tokens
        )
        self.storage.locked_once.clear()
        return violations

    def reply_to_violations(self, request: EmulatorRequest, violations: Sequence[RuleViolation]) -> ErrorReply:
        """Return the first violation as the API's error."""
        violation = violations[0]
        headers = make_headers(request, self._ids, status=violation.status)
        return ErrorReply(violation.status, render_error_body(violation, self._switches), headers, tuple(violations))

    def reply_to_failure(self, request: EmulatorRequest, failure: ProviderFailure) -> ErrorReply:
        """Return a failure of the provider as the API's error, with the headers that belong to it."""
        wait = find_wait(failure) if failure.kind == "rate_limit" else 0.0
        headers = make_headers(request, self._ids, status=failure.status, wait=wait)
        return ErrorReply(failure.status, make_failure_body(request, failure), headers | make_retry_headers(failure))

    def apply_state_fault(self, request: EmulatorRequest, kind: str) -> bool:
        """Make a stored object unusable: "expired" the previous response, for good; "locked" the conversation, for this request."""
        body = normalize_body(request)
        if kind == "expired" and (previous := as_string(body.get("previous_response_id"))):
            return self.storage.expire_response(request.account, previous)
        if kind == "locked" and (conversation := find_conversation_id(body)):
            self.storage.locked_once.add((request.account, conversation))
            return True
        return False

    # -- replying ------------------------------------------------------------------------------------------------------

    def acquire_locks(self, request: EmulatorRequest) -> None:
        """Take the lock of the conversation."""
        if self._accept(request).conversation_id:
            self.storage.locks.add((request.account, self._accept(request).conversation_id))

    def make_prompt(self, request: EmulatorRequest) -> ModelPrompt:
        """Return the model's prompt, from the effective input."""
        return build_prompt(self._accept(request))

    def make_reply(self, request: EmulatorRequest, fake_reply: FakeReply) -> ApiReply:
        """Return the model's reply as a response and its events."""
        accepted = self._accept(request)
        model = accepted.model.reply_name
        wants_encrypted_content = self._switches.encrypted_by_default or "reasoning.encrypted_content" in as_list(
            accepted.body.get("include")
        )

        def encrypt(item_id: str, next_item_id: str) -> str:
            return self.storage.cipher.encrypt_reasoning(request.account, item_id, model, next_item_id) if wants_encrypted_content else ""

        output = write_output(fake_reply, accepted, encrypt)
        body = make_response(accepted, output)
        reply = ApiReply(body, make_stream(accepted, body, output))
        if not accepted.exceeds_context_window:
            return reply
        events = self.make_failing_stream(request, reply, ProviderFailure("context_length", 400), 0, is_flat=False)
        assert isinstance(events[-1].data, dict)
        return ApiReply(events[-1].data["response"], events)

    def store_reply(self, request: EmulatorRequest, reply: ApiReply) -> None:
        """Store the response and its items, and add input and output to the conversation."""
        accepted, body = self._accept(request), reply.body
        row = self.storage.find_conversation(request.account, accepted.conversation_id) if accepted.conversation_id else None
        stores_response = body["store"] is not False
        if body["status"] == "failed" or not (stores_response or row):
            return
        parent = row["tail"] if row else body["previous_response_id"] or ""
        self.storage.turns.add(request.account, make_turn(accepted, body["output"], parent))
        if row:
            self.storage.objects.put(request.account, "conversation", accepted.conversation_id, {**row, "tail": accepted.response_id})
        if stores_response:
            self.storage.store_response(request.account, body)

    def release_locks(self, request: EmulatorRequest) -> None:
        """Release the lock of the conversation."""
        accepted = self._accepted.pop(id(request), None)
        if accepted and accepted.conversation_id:
            self.storage.locks.discard((request.account, accepted.conversation_id))

    def make_failing_stream(
        self, request: EmulatorRequest, reply: ApiReply, failure: ProviderFailure, after_events: int, is_flat: bool
    ) -> tuple[StreamEvent, ...]:
        """Return the reply's first events, then the error and the failed response. Every stream opens before it fails."""
        accepted = self._accept(request)
        opening_events = make_opening_events(accepted, reply.body)
        sent_events = reply.events[: max(len(opening_events), min(after_events, len(reply.events) - 1))]
        error = make_error(request, failure, is_stream=True)
        response = make_failed_response(reply.body, error["code"] or "server_error", error["message"])
        return make_failing_stream(sent_events, response, error, is_flat=is_flat)

    def make_headers(self, request: EmulatorRequest, *, is_stream: bool, status: int = 200) -> dict[str, str]:
        """Return the headers of a reply."""
        return make_headers(request, self._ids, is_stream=is_stream, status=status)

    # -- accepted requests ---------------------------------------------------------------------------------------------

    def _accept(self, request: EmulatorRequest) -> AcceptedRequest:
        accepted = self._accepted.get(id(request))
        if accepted is None or accepted.request is not request:
            stores_anything = not self._switches.zero_data_retention
            accepted = self._accepted[id(request)] = accept_request(request, self.storage, self._ids, stores_anything=stores_anything)
        return accepted


def make_fresh_ids(objects: ProviderStorage, ids: IdGenerator) -> IdGenerator:
    """Return other ids if the storage was used by an earlier emulator, so that a restarted emulator repeats no id."""
    row = objects.get("", "emulator", "responses") or {"lives": 0}
    objects.put("", "emulator", "responses", {"lives": row["lives"] + 1})
    return IdGenerator(f"{ids.make_hex_id('', 32)}/{row['lives']}") if row["lives"] else ids
