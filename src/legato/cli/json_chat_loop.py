"""The loop of `legato chat --json`, for programs.

Each line of input is a message as text, or an object: {"say": "..."}, {"approve": ID, "always": true}, {"reject": ID, "words": "..."},
{"edit": ID, "arguments": {...}}, {"answer": ID, "value": ...}, {"resume": true}. Each line of output is an event.
"""

from __future__ import annotations

from typing import Any

import msgspec

from legato.cli.chat_loop import ChatLoop
from legato.cli.terminal import write_json
from legato.errors import BadInput
from legato.inspection.answers import record_answer
from legato.inspection.event_json import event_to_json
from legato.runtime.events import Event

COMMANDS = ("say", "approve", "reject", "edit", "answer", "resume")


class JsonChatLoop(ChatLoop):
    """A chat loop that prints JSON lines. Pending requests are events, and it prints no questions."""

    def print_greeting(self) -> None:
        write_json(
            {"type": "session", "data": {"session": self.session.id, "workflow": self._workflow.name, "status": self.session.status}}
        )
        for request in self.session.pending:
            self.print_event(Event("request_info", request))

    def print_farewell(self, code: int) -> None:
        pass

    def print_event(self, event: Event) -> None:
        write_json(event_to_json(event, self.session))

    def _ask_pending_requests(self) -> None:
        pass  # requests are events, and answers are lines

    def _take_turn(self) -> None:
        line = self._lines.read_line_without_prompt().strip()
        if line:
            self._call_reporting_errors(self._handle_line, line)

    def print_error(self, code: str, message: str) -> None:
        write_json({"type": "error", "data": {"code": code, "message": message}})

    def _handle_line(self, line: str) -> None:
        command = _decode_command(line) if self._lines.is_interactive and line.startswith("{") else {"say": line}
        session, run = self.session, self._run_coroutine
        match command:
            case {"say": str(text)}:
                self._show_run(session.run(text, stream=True))
                return
            case {"approve": str(id)}:
                run(record_answer(session, id, "approve", always=command.get("always") is True))
            case {"reject": str(id)}:
                run(record_answer(session, id, "reject", message=str(command.get("words", ""))))
            case {"edit": str(id), "arguments": dict(arguments)}:
                run(record_answer(session, id, "edit", arguments=arguments))
            case {"answer": str(id), "value": value}:
                run(record_answer(session, id, "answer", value=value))
            case {"resume": True}:
                pass
            case _:
                raise BadInput("this is not a command", expected=", ".join(COMMANDS), found=line[:80])
        self._show_run(session.resume(stream=True))


def _decode_command(line: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise BadInput(f"this line is not JSON: {error}", do='send a message that begins with a brace as {"say": ...}') from None
