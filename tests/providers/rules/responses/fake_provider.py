"""A fake provider in memory: its state comes from the earlier requests of a test case, which must be legal themselves.

Ids and encrypted content are made up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from legato.emulator.fake_models.base import FakeReplyItem, ReplyCall, ReplyRefusal, ReplyText, ReplyThought
from legato.emulator.ids import IdGenerator
from legato.providers.rules.responses.provider_state import DecryptedContent, ResponsesModelInfo, StoredItem
from legato.providers.rules.responses.rules import OPENAI, ResponsesRuleSwitches, check_request
from tests.providers.rules.responses.sample_requests import (
    NON_REASONING_MODEL,
    OPTIONAL_REASONING_MODEL,
    OTHER_REASONING_MODEL,
    REASONING_MODEL,
)
from tests.providers.rules.rule_cases import SetupStep, fill_placeholders

MODELS = {
    NON_REASONING_MODEL: ResponsesModelInfo(NON_REASONING_MODEL, has_reasoning=False, context_window=128_000),
    REASONING_MODEL: ResponsesModelInfo(REASONING_MODEL, True, 400_000, "medium", ("none", "low", "medium", "high", "xhigh")),
    f"{REASONING_MODEL}-2026-04-23": ResponsesModelInfo(REASONING_MODEL, True, 400_000, "medium"),
    OTHER_REASONING_MODEL: ResponsesModelInfo(OTHER_REASONING_MODEL, True, 400_000, "medium"),
    OPTIONAL_REASONING_MODEL: ResponsesModelInfo(OPTIONAL_REASONING_MODEL, True, 400_000, "none"),
}
ID_PREFIXES = {"message": "msg_", "function_call": "fc_", "function_call_output": "fc_", "reasoning": "rs_"}


def count_tokens(request: Any) -> int:
    """Return the number of words, as the number of tokens."""
    return len(str(request.get("input", "") if isinstance(request, dict) else "").split())


class FakeAccount:
    """The stored state of one organisation."""

    def __init__(
        self, organisation: str, ids: IdGenerator, decrypted: dict[str, DecryptedContent], switches: ResponsesRuleSwitches
    ) -> None:
        self.organisation = organisation
        self.switches = switches
        self._ids = ids
        self._decrypted = decrypted
        self._chains: dict[str, list[dict[str, Any]]] = {}
        self._conversations: dict[str, list[dict[str, Any]]] = {}
        self._items: dict[str, StoredItem] = {}
        self._locked: set[str] = set()
        self._expired: set[str] = set()

    # -- queries of the rules -----------------------------------------------------------------------------------------

    def find_response_items(self, response: str) -> Sequence[dict[str, Any]] | None:
        return self._chains.get(response)

    def find_conversation_items(self, id: str) -> Sequence[dict[str, Any]] | None:
        return self._conversations.get(id)

    def is_conversation_locked(self, conversation: str) -> bool:
        return conversation in self._locked

    def has_prompt(self, id: str) -> bool:
        return False

    def find_item(self, id: str) -> StoredItem | None:
        return self._items.get(id)

    def decrypt(self, text: str) -> DecryptedContent | None:
        return self._decrypted.get(text)

    def find_model(self, name: str) -> ResponsesModelInfo | None:
        return MODELS.get(name)

    def is_response_expired(self, response: str) -> bool:
        return response in self._expired

    # -- steps of a test case -----------------------------------------------------------------------------------------

    def respond(self, request: dict[str, Any], model_output: Sequence[FakeReplyItem]) -> dict[str, Any]:
        """Return the response to a request with the model's output, and store it."""
        violations = check_request(request, self, self.switches, count_tokens(request))
        assert not violations, [str(violation) for violation in violations]
        input = request["input"]
        items = [{"role": "user", "content": input}] if isinstance(input, str) else input
        output = [self._make_item(item) for item in model_output]
        self._encrypt_reasoning(output, request["model"])
        response = {"id": self._ids.make_hex_id("resp_", 50), "object": "response", "output": output}
        if request.get("store") is not False and not self.switches.zero_data_retention:
            self._store_response(request, items, response)
        return response

    def create_conversation(self, items: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return a new conversation with these items."""
        id = self._ids.make_hex_id("conv_", 48)
        self._conversations[id] = [self._store_item(item) for item in items]
        return {"id": id, "object": "conversation"}

    def delete_response(self, response: str) -> None:
        del self._chains[response]

    def expire_response(self, response: str) -> None:
        del self._chains[response]
        self._expired.add(response)

    def lock_conversation(self, conversation: str) -> None:
        self._locked.add(conversation)

    def _make_item(self, item: FakeReplyItem) -> dict[str, Any]:
        match item:
            case ReplyThought():
                return {"id": self._ids.make_hex_id("rs_", 50), "type": "reasoning", "summary": []}
            case ReplyCall(tool, arguments, id):
                call_id = id or self._ids.make_alphanumeric_id("call_", 24)
                members = {"call_id": call_id, "name": tool, "arguments": arguments}
                return {"id": self._ids.make_hex_id("fc_", 50), "type": "function_call", "status": "completed", **members}
            case ReplyText(text):
                part = {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
            case ReplyRefusal(text):
                part = {"type": "refusal", "refusal": text}
        return {"id": self._ids.make_hex_id("msg_", 50), "type": "message", "status": "completed", "role": "assistant", "content": [part]}

    def _encrypt_reasoning(self, output: list[dict[str, Any]], model: str) -> None:
        for item, after in zip(output, [*output[1:], {}], strict=True):
            if item["type"] == "reasoning":
                item["encrypted_content"] = self._ids.make_alphanumeric_id("gAAAA", 60)
                self._decrypted[item["encrypted_content"]] = DecryptedContent(self.organisation, item["id"], model, after.get("id", ""))

    def _store_response(self, request: dict[str, Any], items: Sequence[dict[str, Any]], response: dict[str, Any]) -> None:
        output = response["output"]
        conversation = self._conversations.get(request.get("conversation") or "")
        earlier = self._chains.get(request.get("previous_response_id") or "", conversation or [])
        new = [self._store_item(item) for item in items] + output
        self._chains[response["id"]] = [*earlier, *new]
        if conversation is not None:
            conversation += new
        for before, item, after in zip([{}, *output], output, [*output[1:], {}], strict=False):
            reasoning_id = before.get("id", "") if before.get("type") == "reasoning" else ""
            next_item_id = after.get("id", "") if item["type"] == "reasoning" else ""
            self._items[item["id"]] = StoredItem(item, reasoning_id, next_item_id)

    def _store_item(self, item: dict[str, Any]) -> dict[str, Any]:
        if item.get("type") == "item_reference":
            return self._items[item["id"]].item
        type = item.get("type", "message")
        stored = {"id": self._ids.make_hex_id(ID_PREFIXES.get(type, "item_"), 50), "type": type, **item}
        self._items.setdefault(stored["id"], StoredItem(stored))
        return stored


class FakeProvider:
    """A provider with several accounts, and the saved results of the steps."""

    def __init__(self, switches: ResponsesRuleSwitches = OPENAI) -> None:
        self._switches = switches
        self._ids = IdGenerator("fake provider")
        self._decrypted: dict[str, DecryptedContent] = {}
        self._accounts: dict[str, FakeAccount] = {}
        self.saved_values: dict[str, Any] = {}

    def find_account(self, name: str = "") -> FakeAccount:
        """Return an account; each has an organisation of its own."""
        return self._accounts.setdefault(name, FakeAccount(f"org-{name}", self._ids, self._decrypted, self._switches))

    def run_step(self, step: SetupStep) -> None:
        """Run a step, and save its result."""
        account = self.find_account(step.account)
        body = fill_placeholders(step.body, self.saved_values)
        match step.kind:
            case "respond":
                self.saved_values[step.name] = account.respond(body, step.model_output)
            case "conversation":
                self.saved_values[step.name] = account.create_conversation(body["items"])
            case "delete":
                account.delete_response(self.saved_values[step.name]["id"])
            case "expire":
                account.expire_response(self.saved_values[step.name]["id"])
            case "lock":
                account.lock_conversation(self.saved_values[step.name]["id"])
