"""Events of a session on a terminal, the same during a run and when they are replayed from the ledger."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from legato.cli.terminal import USER_STYLE, AgentColours, get_symbol, print_line
from legato.core.messages import Message
from legato.inspection.terminal_safe_text import to_one_line, truncate
from legato.runtime.events import Event, HandoffData, OutputData, ToolData

MAX_OUTPUT_CHARS = 300
"""Characters of a tool's output that are printed; `legato show --json` has all of it."""

_INDENT = "  "
_DECISION_WORDS = {
    "approve": "approved",
    "reject": "declined",
    "edit": "approved with other arguments",
    "answer": "answered",
    "revoke": "withdrawn",
}


class EventPrinter:
    """Prints events in order. `colours` are those of the agents."""

    def __init__(self, agents: Sequence[str]) -> None:
        self.colours = AgentColours(agents)
        self._speaker = ""  # the agent whose line is not complete

    def print_event(self, event: Event) -> None:
        """Print one event. Deltas of a reply continue its line."""
        if (print_data := _PRINT_METHODS.get(event.type)) is not None:
            print_data(self, event.data)
        elif event.data is None:
            self.print_note("note", event.type)
        else:
            self.print_note("note", f"{event.type.replace('_', ' ')}: {event.data}")

    def _print_output(self, output: OutputData) -> None:
        if output.delta:
            self._print_delta(output)
        else:
            self._print_line((f"{output.author_name} {get_symbol('says')} ", self.colours.of(output.author_name)), output.text)

    def _print_message(self, message: Message) -> None:
        self._print_line((f"{message.author_name or 'you'} {get_symbol('says')} ", USER_STYLE), message.text)

    def _print_handoff(self, handoff: HandoffData) -> None:
        reason = f"  {to_one_line(handoff.reason)}" if handoff.reason else ""
        source, target = ((name, self.colours.of(name)) for name in (handoff.source, handoff.target))
        self._print_line((f"{_INDENT}{get_symbol('handoff')} ", "dim"), source, " to ", target, (reason, "dim"))

    def _print_call_started(self, call: ToolData) -> None:
        attempt = f"  attempt {call.attempt}" if call.attempt > 1 else ""
        self.print_note("tool", f"{call.tool}({call.arguments}){attempt}")

    def _print_call_returned(self, call: ToolData) -> None:
        self.print_note("done" if call.status == "ok" else "failed", f"{call.tool}: {_format_output(call)}")

    def _print_unusual_end(self, call: ToolData, ended: str) -> None:
        self.print_note("note", f"{call.tool}: {ended}{f' = {_format_output(call)}' if call.output else ''}")

    def _print_decision(self, text: str) -> None:
        verdict, _, about = text.partition(" ")
        self.print_note("note", f"{_DECISION_WORDS.get(verdict, verdict)}: {truncate(about, MAX_OUTPUT_CHARS)}")

    def print_note(self, kind: str, words: str, colour: str = "dim") -> None:
        """Print a line that is not part of a message."""
        self._print_line((f"{_INDENT}{get_symbol(kind)} {words}", colour))

    def end_line(self) -> None:
        """End an incomplete line."""
        if self._speaker:
            print_line()
            self._speaker = ""

    @property
    def is_mid_line(self) -> bool:
        """True while the line of an agent's reply is incomplete."""
        return bool(self._speaker)

    def _print_delta(self, output: OutputData) -> None:
        if self._speaker != output.author_name:
            self.end_line()
            print_line((f"{output.author_name} {get_symbol('says')} ", self.colours.of(output.author_name)), end="")
            self._speaker = output.author_name
        print_line(output.text, end="")

    def _print_line(self, *pieces: str | tuple[str, str]) -> None:
        self.end_line()
        print_line(*pieces)


def _format_output(call: ToolData) -> str:
    return f"{truncate(call.output, MAX_OUTPUT_CHARS)}{f' [{call.status}]' if call.status not in ('', 'ok') else ''}"


_PRINT_METHODS: dict[str, Callable[[EventPrinter, Any], None]] = {
    "output": EventPrinter._print_output,
    "output_reset": lambda printer, _: printer.print_note("again", "this reply was interrupted: it is withdrawn, and streamed again"),
    "said": EventPrinter._print_message,
    "handoff_sent": EventPrinter._print_handoff,
    "tool_started": EventPrinter._print_call_started,
    "tool_returned": EventPrinter._print_call_returned,
    "tool_lost": lambda printer, call: printer._print_unusual_end(call, "its outcome is unknown"),
    "tool_late": lambda printer, call: printer._print_unusual_end(call, "ended after its call was answered"),
    "tool_paused": lambda printer, call: printer._print_unusual_end(call, call.status),
    "decided": lambda printer, text: printer._print_decision(str(text)),
    "loss": lambda printer, text: printer.print_note("note", f"not sent: {text}"),
    "model_failed": lambda printer, text: printer.print_note("failed", str(text)),
    # The chat loop prints requests and the status; messages come as `output` already.
    **dict.fromkeys(("status", "request_info", "message"), lambda printer, _: printer.end_line()),
}
"""Print methods by event type. Of other types, the name and the data are printed."""
