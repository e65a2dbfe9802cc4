"""A conversation in JSON lines. May know: sessions. Decides: what a program may say to one, and what it is told.

Each line of input is a message as text, or an object: {"say": "..."}, {"approve": ID, "always": true}, {"reject": ID, "words": "..."},
{"edit": ID, "arguments": {...}}, {"answer": ID, "value": ...}, {"resume": true}. Each line of output is an event.
"""

from __future__ import annotations

from typing import Any

import msgspec

from legato.cli.talking import Talk
from legato.cli.telling import write_json
from legato.errors import BadInput
from legato.inspection.answers import give_answer
from legato.inspection.event_data import event_data
from legato.runtime.events import Event

COMMANDS = ("say", "approve", "reject", "edit", "answer", "resume")


class JsonTalk(Talk):
    """The same loop, for programs: nothing is asked, everything is told."""

    def greet(self) -> None:
        write_json(
            {"type": "session", "data": {"session": self.session.id, "workflow": self._workflow.name, "status": self.session.status}}
        )
        for request in self.session.pending:
            self.show(Event("request_info", request))

    def leave(self, code: int) -> None:
        pass

    def show(self, event: Event) -> None:
        write_json(event_data(event, self.session))

    def _settle(self) -> None:
        pass  # questions are events, and answers are lines

    def _turn(self) -> None:
        line = self._lines.next().strip()
        if line:
            self._told(self._said, line)

    def tell_error(self, code: str, words: str) -> None:
        write_json({"type": "error", "data": {"code": code, "message": words}})

    def _said(self, line: str) -> None:
        told = _command(line) if self._lines.asks and line.startswith("{") else {"say": line}
        session, do = self.session, self._do
        match told:
            case {"say": str(text)}:
                self._drive(session.run(text, stream=True))
                return
            case {"approve": str(id)}:
                do(give_answer(session, id, "approve", always=told.get("always") is True))
            case {"reject": str(id)}:
                do(give_answer(session, id, "reject", words=str(told.get("words", ""))))
            case {"edit": str(id), "arguments": dict(arguments)}:
                do(give_answer(session, id, "edit", arguments=arguments))
            case {"answer": str(id), "value": value}:
                do(give_answer(session, id, "answer", value=value))
            case {"resume": True}:
                pass
            case _:
                raise BadInput("this is no command", expected=", ".join(COMMANDS), found=line[:80])
        self._drive(session.resume(stream=True))


def _command(line: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise BadInput(f"this line is no JSON: {error}", do='a message that begins with a brace goes as {"say": ...}') from None
