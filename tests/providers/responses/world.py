"""A provider in memory: what the laws ask, answered from what earlier requests left behind. Ids and seals are made up.

It says nothing about HTTP. Every earlier request is itself put to the laws and must be legal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from legato.emulator.ids import Ids
from legato.emulator.minds.base import Item, Refused, Thought, Use, Words
from legato.providers.rules.responses.held import Blob, HeldItem, ModelInfo
from legato.providers.rules.responses.laws import OPENAI, Profile, judge
from tests.providers.lawcase import Step, filled
from tests.providers.responses.lawcase import PLAIN, THINKS, THINKS_TOO, THINKS_WHEN_TOLD

MODELS = {
    PLAIN: ModelInfo(PLAIN, reasons=False, window=128_000),
    THINKS: ModelInfo(THINKS, True, 400_000, "medium", ("none", "low", "medium", "high", "xhigh")),
    f"{THINKS}-2026-04-23": ModelInfo(THINKS, True, 400_000, "medium"),
    THINKS_TOO: ModelInfo(THINKS_TOO, True, 400_000, "medium"),
    THINKS_WHEN_TOLD: ModelInfo(THINKS_WHEN_TOLD, True, 400_000, "none"),
}
PREFIXES = {"message": "msg_", "function_call": "fc_", "function_call_output": "fc_", "reasoning": "rs_"}


def tokens(request: Any) -> int:
    """A word, a token."""
    return len(str(request.get("input", "") if isinstance(request, dict) else "").split())


class Account:
    """What one organisation's key can see."""

    def __init__(self, organisation: str, ids: Ids, blobs: dict[str, Blob], profile: Profile) -> None:
        self.organisation = organisation
        self.profile = profile
        self._ids = ids
        self._blobs = blobs
        self._chains: dict[str, list[dict[str, Any]]] = {}
        self._talks: dict[str, list[dict[str, Any]]] = {}
        self._items: dict[str, HeldItem] = {}
        self._locked: set[str] = set()
        self._expired: set[str] = set()

    # -- what the laws ask ---------------------------------------------------------------------------------------------

    def chain(self, response: str) -> Sequence[dict[str, Any]] | None:
        return self._chains.get(response)

    def conversation(self, id: str) -> Sequence[dict[str, Any]] | None:
        return self._talks.get(id)

    def locked(self, conversation: str) -> bool:
        return conversation in self._locked

    def stored_prompt(self, id: str) -> bool:
        return False

    def item(self, id: str) -> HeldItem | None:
        return self._items.get(id)

    def blob(self, text: str) -> Blob | None:
        return self._blobs.get(text)

    def model(self, name: str) -> ModelInfo | None:
        return MODELS.get(name)

    def expired(self, response: str) -> bool:
        return response in self._expired

    # -- what happens --------------------------------------------------------------------------------------------------

    def respond(self, request: dict[str, Any], say: Sequence[Item]) -> dict[str, Any]:
        """Accept a request, and let the model say this."""
        complaints = judge(request, self, self.profile, tokens(request))
        assert not complaints, [str(complaint) for complaint in complaints]
        sent = request["input"]
        given = [{"role": "user", "content": sent}] if isinstance(sent, str) else sent
        output = [self._spoken(item) for item in say]
        self._seal(output, request["model"])
        response = {"id": self._ids.hex("resp_", 50), "object": "response", "output": output}
        if request.get("store") is not False and not self.profile.zero_data_retention:
            self._keep(request, given, response)
        return response

    def converse(self, items: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Begin a conversation."""
        id = self._ids.hex("conv_", 48)
        self._talks[id] = [self._stored(item) for item in items]
        return {"id": id, "object": "conversation"}

    def delete(self, response: str) -> None:
        del self._chains[response]

    def expire(self, response: str) -> None:
        del self._chains[response]
        self._expired.add(response)

    def lock(self, conversation: str) -> None:
        self._locked.add(conversation)

    def _spoken(self, item: Item) -> dict[str, Any]:
        match item:
            case Thought():
                return {"id": self._ids.hex("rs_", 50), "type": "reasoning", "summary": []}
            case Use(tool, arguments, id):
                call = id or self._ids.word("call_", 24)
                named = {"call_id": call, "name": tool, "arguments": arguments}
                return {"id": self._ids.hex("fc_", 50), "type": "function_call", "status": "completed", **named}
            case Words(text):
                part = {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
            case Refused(text):
                part = {"type": "refusal", "refusal": text}
        return {"id": self._ids.hex("msg_", 50), "type": "message", "status": "completed", "role": "assistant", "content": [part]}

    def _seal(self, output: list[dict[str, Any]], model: str) -> None:
        for item, after in zip(output, [*output[1:], {}], strict=True):
            if item["type"] == "reasoning":
                item["encrypted_content"] = self._ids.word("gAAAA", 60)
                self._blobs[item["encrypted_content"]] = Blob(self.organisation, item["id"], model, after.get("id", ""))

    def _keep(self, request: dict[str, Any], given: Sequence[dict[str, Any]], response: dict[str, Any]) -> None:
        output = response["output"]
        talk = self._talks.get(request.get("conversation") or "")
        earlier = self._chains.get(request.get("previous_response_id") or "", talk or [])
        new = [self._stored(item) for item in given] + output
        self._chains[response["id"]] = [*earlier, *new]
        if talk is not None:
            talk += new
        for before, item, after in zip([{}, *output], output, [*output[1:], {}], strict=False):
            thought = before.get("id", "") if before.get("type") == "reasoning" else ""
            followed = after.get("id", "") if item["type"] == "reasoning" else ""
            self._items[item["id"]] = HeldItem(item, thought, followed)

    def _stored(self, item: dict[str, Any]) -> dict[str, Any]:
        if item.get("type") == "item_reference":
            return self._items[item["id"]].item
        kind = item.get("type", "message")
        stored = {"id": self._ids.hex(PREFIXES.get(kind, "item_"), 50), "type": kind, **item}
        self._items.setdefault(stored["id"], HeldItem(stored))
        return stored


class World:
    """The provider: every account, and what the steps have saved."""

    def __init__(self, profile: Profile = OPENAI) -> None:
        self._profile = profile
        self._ids = Ids("world")
        self._blobs: dict[str, Blob] = {}
        self._accounts: dict[str, Account] = {}
        self.saved: dict[str, Any] = {}

    def account(self, name: str = "") -> Account:
        """An account; one organisation each."""
        return self._accounts.setdefault(name, Account(f"org-{name}", self._ids, self._blobs, self._profile))

    def take(self, step: Step) -> None:
        """Let a step happen."""
        account = self.account(step.account)
        body = filled(step.body, self.saved)
        match step.kind:
            case "respond":
                self.saved[step.name] = account.respond(body, step.say)
            case "conversation":
                self.saved[step.name] = account.converse(body["items"])
            case "delete":
                account.delete(self.saved[step.name]["id"])
            case "expire":
                account.expire(self.saved[step.name]["id"])
            case "lock":
                account.lock(self.saved[step.name]["id"])
