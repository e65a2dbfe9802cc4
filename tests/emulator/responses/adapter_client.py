"""A client of the Responses adapter without a server: it calls the adapter's methods in the order of the request handler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from legato.emulator.encrypted_content import ContentCipher
from legato.emulator.fake_models.base import FakeReply, ModelPrompt, ReplyCall, ReplyText, ReplyThought
from legato.emulator.ids import IdGenerator
from legato.emulator.model_catalogue import ModelCatalogue
from legato.emulator.request_types import ApiReply, EmulatorRequest, StreamEvent
from legato.emulator.responses.adapter import ResponsesAdapter
from legato.emulator.storage import ProviderStorage
from legato.providers.rules.responses.rules import OPENAI, ResponsesRuleSwitches
from legato.providers.rules.rule_set import RuleViolation

NOW = 1_795_000_000.0
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
ERROR: TypeAdapter[Any] = TypeAdapter(dict[Literal["code", "message"], str])  # the provider sends more codes than the SDK knows
HELLO = FakeReply((ReplyText("Hello, how can I help?"),))
THOUGHTFUL = FakeReply((ReplyThought("The user greets me."), ReplyText("Hello there.")))
LOOKS_UP = FakeReply((ReplyThought("I need the order."), ReplyCall("look_up", '{"order": "A-7"}')))
PARAMETERS = {"type": "object", "properties": {"order": {"type": "string"}}}
TOOL = {"type": "function", "name": "look_up", "parameters": PARAMETERS, "strict": False}


class RequestRejected(Exception):
    """The adapter found violations."""

    def __init__(self, violations: Sequence[RuleViolation], status: int, body: dict[str, Any]) -> None:
        super().__init__("; ".join(map(str, violations)))
        self.rule_ids = [violation.rule.id for violation in violations]
        self.status = status
        self.error = body["error"]


class AdapterClient:
    """A client of one adapter, which numbers its requests."""

    def __init__(
        self,
        storage: ProviderStorage | None = None,
        *,
        seed: int = 0,
        switches: ResponsesRuleSwitches = OPENAI,
        key: bytes = b"key",
        models: ModelCatalogue | None = None,
    ) -> None:
        self.storage = storage or ProviderStorage()
        self.adapter = ResponsesAdapter(self.storage, IdGenerator(seed), ContentCipher(key), switches, models)
        self.request_count = 0

    def __del__(self) -> None:
        self.storage.close()

    def make_request(
        self, body: dict[str, Any] | None = None, *, account: str = "org-1", now: float = NOW, is_azure: bool = False
    ) -> EmulatorRequest:
        """Return a request with a body that went through JSON, as over HTTP."""
        self.request_count += 1
        decoded_body = msgspec.json.decode(
            msgspec.json.encode({"model": "gpt-4o", "input": "Hi", **(body or {})} if body is not None else {})
        )
        return EmulatorRequest(
            "responses", self.request_count, decoded_body, {"authorization": "Bearer sk-0123456789abcdef"}, account, now, is_azure
        )

    def process(self, request: EmulatorRequest, fake_reply: FakeReply) -> ApiReply:
        """Process a request to its end."""
        violations = self.adapter.find_violations(request)
        if violations:
            error_reply = self.adapter.reply_to_violations(request, violations)
            raise RequestRejected(violations, error_reply.status, error_reply.body)
        self.adapter.acquire_locks(request)
        try:
            self.adapter.make_prompt(request)
            reply = self.adapter.make_reply(request, fake_reply)
            self.adapter.store_reply(request, reply)
        finally:
            self.adapter.release_locks(request)
        return reply

    def post(self, body: dict[str, Any], fake_reply: FakeReply = HELLO, *, account: str = "org-1", now: float = NOW) -> dict[str, Any]:
        """Return the body of a reply, checked with the official SDK."""
        response = self.process(self.make_request(body, account=account, now=now), fake_reply).body
        Response.model_validate(response)
        return response

    def stream(self, body: dict[str, Any], fake_reply: FakeReply = HELLO, *, account: str = "org-1") -> list[dict[str, Any]]:
        """Return the events of a reply, each checked with the official SDK."""
        return decode_events(self.process(self.make_request({**body, "stream": True}, account=account), fake_reply).events)

    def make_prompt(self, body: dict[str, Any]) -> ModelPrompt:
        """Return the model's prompt."""
        request = self.make_request(body)
        violations = self.adapter.find_violations(request)
        assert not violations, [str(violation) for violation in violations]
        try:
            return self.adapter.make_prompt(request)
        finally:
            self.adapter.release_locks(request)

    def expect_rejection(self, body: dict[str, Any], *, account: str = "org-1", now: float = NOW) -> RequestRejected:
        """Return the rejection that a request gets."""
        try:
            self.process(self.make_request(body, account=account, now=now), HELLO)
        except RequestRejected as rejection:
            return rejection
        raise AssertionError("the request was accepted")


def decode_events(events: Sequence[StreamEvent], *, typed: bool = True) -> list[dict[str, Any]]:
    """Decode the events and check their names. `typed`: each event, except a nested error, must have the SDK's type."""
    collected = []
    for event in events:
        name, _, data = event.encode().decode().removeprefix("event: ").partition("\ndata: ")
        collected.append(msgspec.json.decode(data))
        assert collected[-1]["type"] == name
        if not typed:
            continue
        if name == "response.failed":
            assert EVENT.validate_python({**collected[-1], "response": {**collected[-1]["response"], "error": None}}).type == name
            ERROR.validate_python(collected[-1]["response"]["error"])
        elif "error" not in collected[-1]:
            assert EVENT.validate_python(collected[-1]).type == name
    return collected


def summarize_types(events: Sequence[dict[str, Any]]) -> list[str]:
    """Return the types of the events without their common prefix. Repeated deltas occur once, with a plus."""
    shortened: list[str] = []
    for event in events:
        name = event["type"].removeprefix("response.")
        if name.endswith(".delta"):
            name = name.removesuffix(".delta") + ".delta+"
        if not (shortened and name.endswith("+") and shortened[-1] == name):
            shortened.append(name)
    return shortened


def rebuild_output(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rebuild the output from `added` events and deltas. Every `done` event must agree with it."""
    output: list[dict[str, Any]] = []
    for event in events:
        kind = event["type"].removeprefix("response.")
        item = output[event["output_index"]] if "output_index" in event and event["output_index"] < len(output) else {}
        match kind:
            case "output_item.added":
                assert event["output_index"] == len(output)
                output.append(msgspec.json.decode(msgspec.json.encode(event["item"])))
            case "content_part.added":
                item["content"].append(dict(event["part"]))
            case "output_text.delta":
                item["content"][event["content_index"]]["text"] += event["delta"]
            case "refusal.delta":
                item["content"][event["content_index"]]["refusal"] += event["delta"]
            case "output_text.done":
                assert item["content"][event["content_index"]]["text"] == event["text"]
            case "refusal.done":
                assert item["content"][event["content_index"]]["refusal"] == event["refusal"]
            case "content_part.done":
                assert item["content"][event["content_index"]] == event["part"]
            case "function_call_arguments.delta":
                item["arguments"] += event["delta"]
            case "function_call_arguments.done":
                assert item["arguments"] == event["arguments"]
            case "custom_tool_call_input.delta":
                item["input"] += event["delta"]
            case "custom_tool_call_input.done":
                assert item["input"] == event["input"]
            case "reasoning_summary_part.added":
                item["summary"].append(dict(event["part"]))
            case "reasoning_summary_text.delta":
                item["summary"][event["summary_index"]]["text"] += event["delta"]
            case "reasoning_summary_part.done":
                assert item["summary"][event["summary_index"]] == event["part"]
            case "output_item.done":
                assert without_encryption(item) == without_encryption(event["item"])
                output[event["output_index"]] = event["item"]
    return output


def without_encryption(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item without the members that differ between events."""
    return {key: value for key, value in item.items() if key not in ("encrypted_content", "status")}


def list_repeated(values: Sequence[str]) -> list[str]:
    """Return the values that occur more than once."""
    return [value for value, times in Counter(values).items() if times > 1]


def make_outputs(output: Sequence[dict[str, Any]], text: str = "shipped") -> list[dict[str, Any]]:
    """Make an output for every call among the items."""
    calls = [item["call_id"] for item in output if item["type"] == "function_call"]
    return [{"type": "function_call_output", "call_id": call, "output": text} for call in calls]
