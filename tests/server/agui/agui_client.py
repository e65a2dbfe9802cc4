"""A minimal AG-UI client, which decodes events with the protocol's own types and keeps the resulting state."""

from __future__ import annotations

from typing import Any

import httpx2
from ag_ui.core import Event, Interrupt
from pydantic import TypeAdapter

from legato.server import Server

EVENTS: TypeAdapter[Any] = TypeAdapter(Event)
START_EVENTS = ("TEXT_MESSAGE_START", "TOOL_CALL_START", "SUBAGENT_STARTED")


class FrontEndState:
    """The state that a front end derives from events: its messages and pending interrupts."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.state: Any = {}
        self.pending: list[Interrupt] = []
        self.events: list[Any] = []

    def apply(self, event: Any) -> None:
        """Apply an event."""
        assert not event.model_extra, event  # nothing that the protocol does not know
        self.events.append(event)
        match event.type.value:
            case "TEXT_MESSAGE_START":
                self._find_or_add_message(event.message_id, {"role": event.role, "content": ""})
            case "TEXT_MESSAGE_CONTENT":
                self._find_or_add_message(event.message_id)["content"] += event.delta
            case "TOOL_CALL_START":
                message = self._find_or_add_message(event.parent_message_id, {"role": "assistant"})
                message.setdefault("toolCalls", []).append(
                    {"id": event.tool_call_id, "type": "function", "function": {"name": event.tool_call_name, "arguments": ""}}
                )
            case "TOOL_CALL_ARGS":
                self._find_call(event.tool_call_id)["arguments"] += event.delta
            case "TOOL_CALL_RESULT":
                self._find_or_add_message(event.message_id, {"role": "tool", "toolCallId": event.tool_call_id, "content": event.content})
            case "MESSAGES_SNAPSHOT":
                self.messages = [message.model_dump(by_alias=True) for message in event.messages]
            case "STATE_SNAPSHOT":
                self.state = event.snapshot
            case "RUN_FINISHED":
                self.pending = list(event.outcome.interrupts) if event.outcome.type == "interrupt" else []

    def _find_or_add_message(self, id: str, new: dict[str, Any] | None = None) -> dict[str, Any]:
        for message in self.messages:
            if message["id"] == id:
                return message
        assert new is not None, id
        self.messages.append({"id": id, **new})
        return self.messages[-1]

    def _find_call(self, id: str) -> dict[str, Any]:
        calls = [call for message in self.messages for call in message.get("toolCalls", ())]
        found: dict[str, Any] = next(call["function"] for call in calls if call["id"] == id)
        return found

    def check_run(self) -> None:
        """Check the protocol's rules for every run."""
        kinds = self.kinds
        assert kinds[0] == "RUN_STARTED"
        assert kinds[-1] in ("RUN_FINISHED", "RUN_ERROR")
        assert len([kind for kind in kinds if kind in ("RUN_STARTED", "RUN_FINISHED", "RUN_ERROR")]) == 2
        for start in START_EVENTS:
            end = {"SUBAGENT_STARTED": "SUBAGENT_FINISHED"}.get(start, start.replace("START", "END"))
            if kinds[-1] == "RUN_FINISHED":
                assert kinds.count(start) == kinds.count(end), kinds

    @property
    def kinds(self) -> list[str]:
        """The types of the last run's events."""
        return [event.type.value for event in self.events]

    @property
    def texts(self) -> list[str]:
        """The visible messages of users and agents."""
        return [f"{each['role']}: {each['content']}" for each in self.messages if each["role"] != "tool" and each.get("content")]

    def list_custom_values(self, name: str) -> list[Any]:
        """Return the values of custom events in the last run."""
        return [event.value for event in self.events if event.type.value == "CUSTOM" and event.name == name]


class AguiClient(FrontEndState):
    """A client of one thread."""

    def __init__(self, server: Server, thread: str = "t", path: str = "/agui") -> None:
        super().__init__()
        self._url, self._token = f"{server.url}{path}", server.token
        self.thread = thread
        self._runs = 0

    def say(self, content: Any, id: str = "", **more: Any) -> list[Any]:
        """Send a message, and read the run."""
        self.messages.append({"id": id or f"m{len(self.messages)}", "role": "user", "content": content})
        return self.run(**more)

    def answer(self, *payloads: Any, **more: Any) -> list[Any]:
        """Answer the pending interrupts, in order."""
        resume = [
            {"interruptId": interrupt.id, "status": "resolved", "payload": payload}
            for interrupt, payload in zip(self.pending, payloads, strict=True)
        ]
        return self.run(resume=resume, **more)

    def run(self, on_event: Any = None, **more: Any) -> list[Any]:
        """Run once, and return all events. `on_event` is called with each event."""
        self._runs += 1
        body = {"threadId": self.thread, "runId": f"run-{self._runs}", "messages": self.messages, "state": self.state, **more}
        self.events = []
        with (
            httpx2.Client(headers={"authorization": f"Bearer {self._token}"}, timeout=60) as client,
            client.stream("POST", self._url, json=body) as response,
        ):
            assert response.status_code == 200, response.read()
            for line in response.iter_lines():
                if line.startswith("data: "):
                    event = EVENTS.validate_json(line.removeprefix("data: "))
                    self.apply(event)
                    if on_event is not None:
                        on_event(event)
        self.check_run()
        return self.events
