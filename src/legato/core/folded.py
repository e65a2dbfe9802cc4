"""What a ledger means, to be read. May know: facts and groups. Decides: what a message that nobody has replied to overtakes.

`State` (state.py) is this with the rules by which it grows. What a later message overtakes (a pause, a failure, a frame) is not
erased by the message: it is read through properties that compare positions.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from legato.core.facts import (
    NO_OPTIONS,
    Answered,
    AnyFact,
    Attempted,
    CallRef,
    Compacted,
    Returned,
    RunOptions,
    Standing,
)
from legato.core.groups import CallState, Group, OpenCalls
from legato.core.handoff import Arrival
from legato.core.sums import Spent, Tally, WorkTime


class Folded(Struct, eq=False):
    """The fields and what follows from them."""

    facts: list[AnyFact] = []
    session: str = ""
    ledger: str = ""  # the unique name of this ledger, from the last Opened
    names: list[tuple[int, str]] = []  # from which position on the ledger had which unique name
    workflow: str = ""
    # the conversation
    groups: list[Group] = []
    tail: list[Group] = []
    waiting: list[Group] = []  # messages that no guardrail has let pass yet: they are part of nothing
    rejections: int = 0  # replies that were not accepted, which only their agent sees
    withheld: int = 0  # messages that an input guardrail keeps from every view
    pictured: bool = False  # whether anything that was said or returned is more than text
    keys: dict[str, int] = {}  # a delivery's key -> the position it was recorded at
    # control
    active: str = ""
    arrived: Arrival | None = None  # how control came to the active agent
    reply: Group | None = None  # the newest reply
    open: OpenCalls = field(default_factory=OpenCalls)  # its unanswered calls
    options: list[tuple[int, RunOptions]] = []  # from which position on a client asks what of the run
    halted_at: int = -1  # where it was last stopped: what was asked before that is not wanted any more
    # what was erased
    erased: dict[int, int] = {}  # the facts that lost their words -> where that is recorded
    redacted_at: int = -1  # where it was last recorded: no reply to a request made before that is heard
    # what a later message overtakes: read through the properties below
    _frame: str = ""
    _framed_at: int = -1
    _failed: Attempted | None = None
    _halt: str = ""
    _ended: bool = False
    _feedback: str = ""
    # what user code judged about the newest reply
    output_checked: bool = False
    termination_judged: bool = False
    # what is counted, since the user last spoke and over all
    tally: Tally = field(default_factory=Tally)
    spent: Spent = field(default_factory=Spent)
    work: WorkTime = field(default_factory=WorkTime)
    replies: int = 0
    replies_of: dict[str, int] = {}
    asked: tuple[str, int] = ("", -1)  # the provider's conversation that the newest request went to, and how it was known before
    conversations: dict[str, int] = {}  # providers' conversations: the reply they end with, or UNKNOWN
    epoch: int = 0
    standing: set[Standing] = set()
    summaries: dict[str, Compacted] = {}
    frames: set[str] = set()  # the frames that replies and attempts name: they were recorded with them
    late: list[Returned] = []
    losses: list[str] = []

    def __repr__(self) -> str:
        return f"<state of {self.session!r} after {len(self.facts)} facts>"

    @property
    def length(self) -> int:
        """How many facts there are; the position the next one will have."""
        return len(self.facts)

    @property
    def overtaken_at(self) -> int:
        """Where the conversation was last stopped, or words of it erased: a model that was asked before that is not heard any more."""
        return max(self.halted_at, self.redacted_at)

    @property
    def batch(self) -> list[CallState]:
        """The calls of the newest reply, while any is unanswered."""
        return self.reply.calls if self.reply is not None and self.reply.unanswered else []

    @property
    def started(self) -> list[CallState]:
        """The unanswered calls whose tool was started: it runs, or its child session waits, or its outcome is unknown."""
        indexes = [index for (stage, _), of_tool in self.open.indexes.items() if stage == "started" for index in of_tool]
        return self.calls_at(indexes)

    def calls_at(self, indexes: Iterable[int]) -> list[CallState]:
        """The calls of the newest reply with these indexes, in call order."""
        reply = self.reply
        return [call for index in sorted(indexes) if reply is not None and (call := reply.call(index)) is not None]

    @property
    def unseen(self) -> list[Group]:
        """Messages that no reply has seen and no guardrail withholds."""
        return [group for group in self.tail if not group.blocked] if self.withheld else self.tail

    @property
    def spoken_at(self) -> int:
        """Where the newest message stands that no reply has seen and no guardrail withholds; -1 if there is none."""
        unseen = self.unseen
        return unseen[-1].position if unseen else -1

    @property
    def halt(self) -> str:
        """ "cancelled" or "limit" while the conversation is stopped: until the user speaks."""
        return self._halt if self._halt and self.halted_at > self.spoken_at else ""

    @property
    def ended(self) -> bool:
        """Whether the termination condition said enough, and nobody has spoken since."""
        return self._ended and not self.unseen

    @property
    def feedback(self) -> str:
        """The objection to the newest reply, while it stands."""
        return "" if self.unseen else self._feedback

    @property
    def failed(self) -> Attempted | None:
        """The last call of a model, if it left no words and saw all that there is to see. It says when the next is made, if one is."""
        return self._failed if self._failed and self._failed.upto >= self.spoken_at else None

    @property
    def next_attempt(self) -> int:
        """The number of the next attempt at a model request, from 1."""
        failed = self.failed
        return failed.number + (not failed.limit) if failed is not None and not failed.final else 1

    @property
    def frame(self) -> str:
        """The frame in force since control or a message last arrived, or a client last changed its options; empty: a new one is due."""
        changed_at = self.options[-1][0] if self.options else -1
        return self._frame if self._framed_at >= max(self.spoken_at, changed_at) else ""

    @property
    def run_options(self) -> RunOptions:
        """The client's options that are in force now."""
        return self.options[-1][1] if self.options else NO_OPTIONS

    def options_at(self, position: int) -> RunOptions:
        """Return the client's options that were in force at this position."""
        return next((options for at, options in reversed(self.options) if at <= position), NO_OPTIONS)

    def options_of(self, reply: int) -> RunOptions:
        """Return the client's options that the reply at this position was requested with."""
        fact = self.facts[reply]
        return self.options_at(fact.upto) if self.options and isinstance(fact, Answered) else NO_OPTIONS

    @property
    def fresh(self) -> bool:
        """Whether a message began a new run and no reply has followed yet."""
        return bool(unseen := self.unseen) and any(group.began for group in unseen)

    @property
    def awaits_reply(self) -> bool:
        """Whether anything stands in the conversation that a model has not replied to."""
        if (unseen := self.unseen) or self.reply is None:
            return bool(unseen)
        last = self.groups[-1]
        return bool(self.reply.calls) or last.kind == "prompt" or (last.kind == "feedback" and bool(self._feedback))

    def name_at(self, position: int) -> str:
        """The unique name the ledger had when this position was recorded; forks share it for what they share."""
        for start, name in reversed(self.names):
            if position >= start:
                return name
        return self.ledger

    def call(self, ref: CallRef) -> CallState | None:
        """What is recorded about a call, of any reply."""
        for group in reversed(self.groups):
            if group.position == ref.position:
                return group.call(ref.index)
            if group.position < ref.position and group.kind == "reply":
                return None
        return None
