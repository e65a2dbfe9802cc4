"""A conversation on a terminal. May know: events. Decides: how what happens reads, live and afterwards.

The same events are shown whether they happen now or are read from a ledger: a session that is looked at tomorrow reads as it did today.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from legato.cli.telling import USER, Colours, symbol, tell
from legato.core.messages import Message
from legato.inspection.plain import one_line, shortened
from legato.runtime.events import Event, HandoffData, OutputData, ToolData

LONGEST = 300
"""How much of a tool's output is shown, in letters; `legato show --json` has all of it."""

_INDENT = "  "
_DECIDED = {
    "approve": "approved",
    "reject": "declined",
    "edit": "approved with other arguments",
    "answer": "answered",
    "revoke": "withdrawn",
}


class Transcript:
    """Prints events, one after the other. `colours` are those of the agents."""

    def __init__(self, agents: Sequence[str]) -> None:
        self.colours = Colours(agents)
        self._speaker = ""  # who is in the middle of a line

    def show(self, event: Event) -> None:
        """What one event looks like. Pieces of words go on in the line that they began."""
        if (shown := _SHOWN.get(event.type)) is not None:
            shown(self, event.data)
        elif event.data is None:
            self.note("note", event.type)
        else:
            self.note("note", f"{event.type.replace('_', ' ')}: {event.data}")

    def _output(self, said: OutputData) -> None:
        if said.delta:
            self._piece(said)
        else:
            self._line((f"{said.author_name} {symbol('says')} ", self.colours.of(said.author_name)), said.text)

    def _said(self, message: Message) -> None:
        self._line((f"{message.author_name or 'you'} {symbol('says')} ", USER), message.text)

    def _handoff(self, passed: HandoffData) -> None:
        reason = f"  {one_line(passed.reason)}" if passed.reason else ""
        source, target = ((name, self.colours.of(name)) for name in (passed.source, passed.target))
        self._line((f"{_INDENT}{symbol('handoff')} ", "dim"), source, " to ", target, (reason, "dim"))

    def _started(self, call: ToolData) -> None:
        again = f"  attempt {call.attempt}" if call.attempt > 1 else ""
        self.note("tool", f"{call.tool}({call.arguments}){again}")

    def _returned(self, call: ToolData) -> None:
        self.note("done" if call.status == "ok" else "failed", f"{call.tool}: {_shortened(call)}")

    def _odd_end(self, call: ToolData, ended: str) -> None:
        self.note("note", f"{call.tool}: {ended}{f' = {_shortened(call)}' if call.output else ''}")

    def _decided(self, text: str) -> None:
        verdict, _, about = text.partition(" ")
        self.note("note", f"{_DECIDED.get(verdict, verdict)}: {shortened(about, LONGEST)}")

    def note(self, kind: str, words: str, colour: str = "dim") -> None:
        """Something between the words."""
        self._line((f"{_INDENT}{symbol(kind)} {words}", colour))

    def end(self) -> None:
        """End a line that somebody is in the middle of."""
        if self._speaker:
            tell()
            self._speaker = ""

    @property
    def speaking(self) -> bool:
        """Whether somebody is in the middle of their words."""
        return bool(self._speaker)

    def _piece(self, said: OutputData) -> None:
        if self._speaker != said.author_name:
            self.end()
            tell((f"{said.author_name} {symbol('says')} ", self.colours.of(said.author_name)), end="")
            self._speaker = said.author_name
        tell(said.text, end="")

    def _line(self, *pieces: str | tuple[str, str]) -> None:
        self.end()
        tell(*pieces)


def _shortened(call: ToolData) -> str:
    return f"{shortened(call.output, LONGEST)}{f' [{call.status}]' if call.status not in ('', 'ok') else ''}"


_SHOWN: dict[str, Callable[[Transcript, Any], None]] = {
    "output": Transcript._output,
    "output_reset": lambda screen, _: screen.note("again", "that broke off: it is withdrawn, and comes again whole"),
    "said": Transcript._said,
    "handoff_sent": Transcript._handoff,
    "tool_started": Transcript._started,
    "tool_returned": Transcript._returned,
    "tool_lost": lambda screen, call: screen._odd_end(call, "nobody knows how it ended"),
    "tool_late": lambda screen, call: screen._odd_end(call, "ended after its call had been answered"),
    "tool_paused": lambda screen, call: screen._odd_end(call, call.status),
    "decided": lambda screen, text: screen._decided(str(text)),
    "loss": lambda screen, text: screen.note("note", f"not sent along: {text}"),
    "model_failed": lambda screen, text: screen.note("failed", str(text)),
    # What the chat does next tells these; words come as `output`.
    **dict.fromkeys(("status", "request_info", "message"), lambda screen, _: screen.end()),
}
"""How each type of event is shown; of another type, its name and its data."""
