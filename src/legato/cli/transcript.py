"""A conversation on a terminal. May know: events. Decides: how what happens reads, live and afterwards.

The same events are shown whether they happen now or are read from a ledger: a session that is looked at tomorrow reads as it did today.
"""

from __future__ import annotations

from collections.abc import Sequence

from legato.cli.telling import USER, Colours, symbol, tell
from legato.drive.events import Event, HandoffData, OutputData, ToolData
from legato.shown.plain import one_line, shortened

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
_QUIET = {"status", "request_info", "message"}  # what the chat does next tells them; words come as `output`


class Transcript:
    """Prints events, one after the other. `colours` are those of the agents."""

    def __init__(self, agents: Sequence[str]) -> None:
        self.colours = Colours(agents)
        self._speaker = ""  # who is in the middle of a line

    def show(self, event: Event) -> None:
        """What one event looks like. Pieces of words go on in the line that they began."""
        match event.type, event.data:
            case "output", OutputData(delta=True) as said:
                self._piece(said)
            case "output", OutputData() as said:
                self._line((f"{said.author_name} {symbol('says')} ", self.colours.of(said.author_name)), said.text)
            case "output_reset", _:
                self.note("again", "that broke off: it is withdrawn, and comes again whole")
            case "said", message:
                self._line((f"{message.author_name or 'you'} {symbol('says')} ", USER), message.text)
            case "handoff_sent", HandoffData() as passed:
                reason = f"  {one_line(passed.reason)}" if passed.reason else ""
                target = (passed.target, self.colours.of(passed.target))
                self._line(
                    (f"{_INDENT}{symbol('handoff')} ", "dim"),
                    (passed.source, self.colours.of(passed.source)),
                    " to ",
                    target,
                    (reason, "dim"),
                )
            case "tool_started", ToolData() as call:
                again = f"  attempt {call.attempt}" if call.attempt > 1 else ""
                self.note("tool", f"{call.tool}({call.arguments}){again}")
            case "tool_returned", ToolData() as call:
                self.note("done" if call.status == "ok" else "failed", f"{call.tool}: {_shortened(call)}")
            case ("tool_lost" | "tool_late" | "tool_paused") as kind, ToolData() as call:
                told = {"tool_lost": "nobody knows how it ended", "tool_late": "ended after its call had been answered"}
                self.note("note", f"{call.tool}: {told.get(kind, call.status)}{f' = {_shortened(call)}' if call.output else ''}")
            case "decided", text:
                verdict, _, about = str(text).partition(" ")
                self.note("note", f"{_DECIDED.get(verdict, verdict)}: {shortened(about, LONGEST)}")
            case "loss", text:
                self.note("note", f"not sent along: {text}")
            case "model_failed", text:
                self.note("failed", str(text))
            case kind, _ if kind in _QUIET:
                self.end()
            case kind, None:
                self.note("note", kind)
            case kind, data:
                self.note("note", f"{kind.replace('_', ' ')}: {data}")

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
