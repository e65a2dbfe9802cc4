"""A Responses dialect on a bench: requests go through it in the order in which the server would take them through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from legato.emulator.asks import Answer, Ask, Event
from legato.emulator.ids import Ids
from legato.emulator.minds.base import Prompt, Say, Thought, Use, Words
from legato.emulator.models import Catalogue
from legato.emulator.responses.dialect import ResponsesDialect
from legato.emulator.seal import Seal
from legato.emulator.shelf import Shelf
from legato.providers.rules.responses.laws import OPENAI, Profile
from legato.providers.rules.rule_set import Complaint

NOW = 1_795_000_000.0
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
ERROR: TypeAdapter[Any] = TypeAdapter(dict[Literal["code", "message"], str])  # the SDK knows fewer codes than the wire sends
HELLO = Say((Words("Hello, how can I help?"),))
THOUGHTFUL = Say((Thought("The user greets me."), Words("Hello there.")))
LOOKS_UP = Say((Thought("I need the order."), Use("look_up", '{"order": "A-7"}')))
PARAMETERS = {"type": "object", "properties": {"order": {"type": "string"}}}
TOOL = {"type": "function", "name": "look_up", "parameters": PARAMETERS, "strict": False}


class Refused(Exception):
    """The law book complained."""

    def __init__(self, complaints: Sequence[Complaint], status: int, body: dict[str, Any]) -> None:
        super().__init__("; ".join(map(str, complaints)))
        self.clauses = [complaint.clause.id for complaint in complaints]
        self.status = status
        self.error = body["error"]


class Bench:
    """A dialect, and a pen that numbers the requests."""

    def __init__(
        self, shelf: Shelf | None = None, *, seed: int = 0, profile: Profile = OPENAI, key: bytes = b"key", models: Catalogue | None = None
    ) -> None:
        self.shelf = shelf or Shelf()
        self.dialect = ResponsesDialect(self.shelf, Ids(seed), Seal(key), profile, models)
        self.asked = 0

    def __del__(self) -> None:
        self.shelf.close()

    def ask(self, body: dict[str, Any] | None = None, *, account: str = "org-1", now: float = NOW, azure: bool = False) -> Ask:
        """A request. What comes over the wire is JSON, so it is JSON here."""
        self.asked += 1
        sent = msgspec.json.decode(msgspec.json.encode({"model": "gpt-4o", "input": "Hi", **(body or {})} if body is not None else {}))
        return Ask("responses", self.asked, sent, {"authorization": "Bearer sk-0123456789abcdef"}, account, now, azure)

    def take(self, ask: Ask, say: Say) -> Answer:
        """Take a request through the dialect to its end."""
        complaints = self.dialect.judge(ask)
        if complaints:
            refusal = self.dialect.refuse(ask, complaints)
            raise Refused(complaints, refusal.status, refusal.body)
        self.dialect.begin(ask)
        try:
            self.dialect.prompt(ask)
            answer = self.dialect.answer(ask, say)
            self.dialect.keep(ask, answer)
        finally:
            self.dialect.end(ask)
        return answer

    def post(self, body: dict[str, Any], say: Say = HELLO, *, account: str = "org-1", now: float = NOW) -> dict[str, Any]:
        """The body of an answer, which the official SDK can read."""
        answered = self.take(self.ask(body, account=account, now=now), say).body
        Response.model_validate(answered)
        return answered

    def stream(self, body: dict[str, Any], say: Say = HELLO, *, account: str = "org-1") -> list[dict[str, Any]]:
        """The events of an answer, each of which the official SDK can read."""
        return told(self.take(self.ask({**body, "stream": True}, account=account), say).events)

    def prompt(self, body: dict[str, Any]) -> Prompt:
        """What the model would be given."""
        ask = self.ask(body)
        complaints = self.dialect.judge(ask)
        assert not complaints, [str(complaint) for complaint in complaints]
        try:
            return self.dialect.prompt(ask)
        finally:
            self.dialect.end(ask)

    def refused(self, body: dict[str, Any], *, account: str = "org-1", now: float = NOW) -> Refused:
        """The refusal that a request gets."""
        try:
            self.take(self.ask(body, account=account, now=now), HELLO)
        except Refused as refused:
            return refused
        raise AssertionError("it was accepted")


def told(events: Sequence[Event], *, typed: bool = True) -> list[dict[str, Any]]:
    """The events as they arrive, named by their types. `typed`: each, but for a nested error, has the form that the SDK declares."""
    found = []
    for event in events:
        name, _, data = event.encode().decode().removeprefix("event: ").partition("\ndata: ")
        found.append(msgspec.json.decode(data))
        assert found[-1]["type"] == name
        if not typed:
            continue
        if name == "response.failed":
            assert EVENT.validate_python({**found[-1], "response": {**found[-1]["response"], "error": None}}).type == name
            ERROR.validate_python(found[-1]["response"]["error"])
        elif "error" not in found[-1]:
            assert EVENT.validate_python(found[-1]).type == name
    return found


def types(events: Sequence[dict[str, Any]]) -> list[str]:
    """The types of the events, without their common beginning; what comes several times in a row once, with a plus."""
    shortened: list[str] = []
    for event in events:
        name = event["type"].removeprefix("response.")
        if name.endswith(".delta"):
            name = name.removesuffix(".delta") + ".delta+"
        if not (shortened and name.endswith("+") and shortened[-1] == name):
            shortened.append(name)
    return shortened


def rebuild(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The output, put together from nothing but `added` and deltas; every `done` on the way must agree with it."""
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
                assert unsealed(item) == unsealed(event["item"])
                output[event["output_index"]] = event["item"]
    return output


def unsealed(item: dict[str, Any]) -> dict[str, Any]:
    """An item without what differs from telling to telling."""
    return {key: value for key, value in item.items() if key not in ("encrypted_content", "status")}


def repeated(values: Sequence[str]) -> list[str]:
    """What occurs more than once."""
    return [value for value, times in Counter(values).items() if times > 1]


def returned(output: Sequence[dict[str, Any]], words: str = "shipped") -> list[dict[str, Any]]:
    """An output for every call among the items."""
    calls = [item["call_id"] for item in output if item["type"] == "function_call"]
    return [{"type": "function_call_output", "call_id": call, "output": words} for call in calls]
