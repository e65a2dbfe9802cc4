"""What a conversation is made of once it is folded. May know: facts. Decides: what belongs together.

The *group* is the unit that views keep or drop: one message of the user, one synthetic prompt, or one reply with every call it
made and every output those calls got. A group is never split, so a view can never hold half a call.

What is made for every fact of a long conversation when it is opened is a `Struct`: that takes half the time of an `__init__`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from legato.core.facts import (
    NO_OPTIONS,
    Call,
    CallPaused,
    CallRef,
    ChildUsageReported,
    Content,
    Item,
    ModelReplied,
    Refusal,
    RunOptions,
    Words,
)
from legato.core.messages import Message, SeenCall, contents_named, parts_of


class Output(Struct, frozen=True, gc=False):
    """The one output a call has in every request."""

    content: Content
    status: str
    position: int


class Attempt(Struct, eq=False):
    """One start of a tool."""

    number: int
    epoch: int
    lost: bool = False
    known: bool = False  # how it really ended is recorded, in time or late
    paused: CallPaused | None = None  # it ended because its child session could not go on
    missing: bool = False  # its child session is not there, so it cannot be resumed

    def __repr__(self) -> str:
        return f"<attempt {self.number} epoch {self.epoch}{' lost' if self.lost else ''}{' known' if self.known else ''}>"


Phase: TypeAlias = Literal["unchecked", "needs_approval", "ready", "running", "lost", "paused", "stopped", "answered"]
"""Where a call stands. `unchecked`: nothing is decided about it. `needs_approval`: a person must approve it. `ready`: it may start, as far
as approval goes. `running`: an attempt is open. `lost`: nobody knows how its last attempt ended. `paused`: it waits for its child
session. `stopped`: it is not to run (any further), and is yet to be answered. `answered`: it has its output."""


class CallState(Struct, eq=False):
    """One call of one reply, and everything that has been recorded about it."""

    ref: CallRef
    call: Call
    arguments: str  # as the model wrote them, or as a person changed them
    edited: bool = False
    gate: bool | None = None  # whether it needs approval; None: not decided yet
    guarded: bool = False  # a guardrail let it pass
    approved: bool = False
    redo: bool = False  # a person asked to run a lost attempt again
    reported: ChildUsageReported | None = None  # what its child session has used so far
    refused: str = ""  # why it does not run: it is beyond a limit that its reply names
    stopped: str = ""  # "cancelled", "limit" or "erased": it is not to run (any further), whatever the user says next
    attempts: tuple[Attempt, ...] = ()
    output: Output | None = None
    decisions: tuple[int, ...] = ()  # the positions of the facts that asked for a decision about it, and of the decisions
    filed: tuple[Phase, str] | None = None  # where `OpenCalls` has it

    @property
    def phase(self) -> Phase:
        """Where the call stands."""
        if self.output is not None:
            return "answered"
        last = self.attempts[-1] if self.attempts else None
        runs = last is not None and not last.lost and last.paused is None
        if self.stopped and not (runs and self.stopped == "erased"):  # what runs has its arguments already
            return "stopped"
        if last is not None:
            return "running" if runs else "paused" if last.paused is not None else "ready" if self.redo else "lost"
        if self.refused:
            return "stopped"
        if self.gate is None:
            return "unchecked"
        return "needs_approval" if self.lacks_approval else "ready"

    @property
    def lacks_approval(self) -> bool:
        """Whether the call needs an approval that it does not have."""
        return bool(self.gate) and not self.approved

    @property
    def running(self) -> Attempt | None:
        """The attempt that is open: started, and neither returned, lost, paused nor answered in another way."""
        if self.output is None and self.attempts:
            last = self.attempts[-1]
            return None if last.lost or last.paused else last
        return None

    @property
    def paused(self) -> CallPaused | None:
        """What it waits for, while its child session cannot go on."""
        return self.attempts[-1].paused if self.output is None and self.attempts else None

    @property
    def waited(self) -> CallPaused | None:
        """What it last waited for, although it may have gone on since."""
        return next((attempt.paused for attempt in reversed(self.attempts) if attempt.paused), None)

    @property
    def next_attempt(self) -> int:
        """The number that the next start of its tool has."""
        return len(self.attempts) + 1

    def __repr__(self) -> str:
        return f"<call {self.ref} {self.call.tool} {self.output.status if self.output else self.phase}>"


class OpenCalls(Struct, eq=False):
    """The unanswered calls of the newest reply, by phase and tool, so that nobody has to go through all of them for every fact.

    They are filed when somebody looks: reading a ledger changes the calls of every reply, and looks at those of the last one.
    """

    changed: list[CallState] = []
    """Calls that have changed since they were filed; at first, all."""
    _by_phase: dict[tuple[Phase, str], list[CallState]] = {}
    _begun: list[CallState] = []

    @property
    def by_phase(self) -> dict[tuple[Phase, str], list[CallState]]:
        """For each phase and tool its calls, in call order."""
        self._file_changed()
        return self._by_phase

    @property
    def begun(self) -> list[CallState]:
        """The calls whose tool was started, in call order."""
        self._file_changed()
        return self._begun

    def _file_changed(self) -> None:
        for call in self.changed:
            self._file(call)
        self.changed.clear()

    def _file(self, call: CallState) -> None:
        phase = call.phase
        place = (phase, call.call.tool) if phase != "answered" else None
        if place == call.filed:
            return
        if call.filed is not None:
            left = self._by_phase[call.filed]
            _remove(left, call)
            if not left:
                del self._by_phase[call.filed]
        _remove(self._begun, call)
        if place is not None:
            insort(self._by_phase.setdefault(place, []), call, key=index_of)
            if call.attempts:
                insort(self._begun, call, key=index_of)
        call.filed = place


def index_of(call: CallState) -> int:
    """The place of a call in its reply."""
    return call.ref.index


def _remove(calls: list[CallState], call: CallState) -> None:
    """Take a call out of a list that is in call order, if it is there."""
    at = bisect_left(calls, call.ref.index, key=index_of)
    if at < len(calls) and calls[at] is call:
        del calls[at]


class UserEntry(Struct, frozen=True):
    """Words from the user's side; `synthetic` when no user said them."""

    content: Content
    author: str = ""
    synthetic: bool = False
    position: int = -1


class AssistantEntry(Struct, frozen=True):
    """What a model replied, verbatim."""

    agent: str
    items: tuple[Item, ...]
    position: int


class OutputEntry(Struct, frozen=True):
    """The output of one call."""

    ref: CallRef
    call: Call
    content: Content
    status: str


Entry: TypeAlias = UserEntry | AssistantEntry | OutputEntry


NO_CONTENTS: frozenset[str] = frozenset()


class Group(Struct, eq=False, weakref=True):
    """See the module's docstring. Only the newest reply of a ledger can be incomplete."""

    kind: Literal["said", "prompt", "feedback", "reply"]
    position: int
    agent: str = ""
    author: str = ""
    content: Content = ""
    fact: ModelReplied | None = None
    calls: list[CallState] = []
    unanswered: int = 0
    handed_to: str = ""
    judged: str | None = None  # the agent whose input guardrails have looked at it
    blocked: bool = False  # and withhold it
    began: bool = False  # a message that found the conversation at rest
    rejected: bool = False  # a reply that was not accepted: its agent sees it with the objection, people do not
    unjudged: bool = False  # a guarded reply without a verdict: people see none of its words
    options: RunOptions = NO_OPTIONS  # of a message: what it asks of the run; of a reply: what was in force in its request
    _by_index: dict[int, CallState] | None = None
    _contents: frozenset[str] | None = None
    _entries: tuple[Entry, ...] | None = None
    _words: Group | None = None

    @property
    def complete(self) -> bool:
        return self.unanswered == 0

    def call(self, index: int) -> CallState | None:
        """The call that is the item of this index, if that is one."""
        if self._by_index is None:
            self._by_index = {call.ref.index: call for call in self.calls}
        return self._by_index.get(index)

    @property
    def public_words(self) -> str:
        """What people may read of a reply: nothing that was rejected or has yet to be judged."""
        return "" if self.fact is None or self.rejected or self.unjudged else spoken(self.fact)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The group as every wire sees it: the reply verbatim, then one output per call in call order. Cached when complete."""
        if self._entries is None:
            entries = tuple(self._render())
            if not self.complete:
                return entries
            self._entries = entries
        return self._entries

    def _render(self) -> Iterator[Entry]:
        if self.fact is None:
            yield UserEntry(self.content, self.author, self.kind != "said", self.position)
            return
        if self.fact.items:
            yield AssistantEntry(self.agent, self.fact.items, self.position)
        for call in self.calls:
            if call.output is not None:
                yield OutputEntry(call.ref, call.call, call.output.content, call.output.status)

    @property
    def contents_named(self) -> frozenset[str]:
        """The digests of the pictures and files that the group shows. Cached when complete: every request asks every group."""
        if self._contents is None:
            shown = [self.content, *(call.output.content for call in self.calls if call.output is not None)]
            named = NO_CONTENTS.union(*(contents_named(content) for content in shown if not isinstance(content, str)))
            if not self.complete:
                return named
            self._contents = named or NO_CONTENTS
        return self._contents

    def words(self) -> Group | None:
        """The group without tool traffic and reasoning, or None if no words are left. For policies; cached when complete."""
        if self.fact is None or not self.calls:
            return self if self.fact is None or spoken(self.fact) else None
        if self._words is None:
            said = tuple(item for item in self.fact.items if isinstance(item, (Words, Refusal)))
            if not said:
                return None
            words = Group(self.kind, self.position, self.agent)
            words.fact = self.fact
            words._entries = (AssistantEntry(self.agent, said, self.position),)
            self._words = words
        return self._words

    def __repr__(self) -> str:
        return f"<{self.kind} at {self.position}{' of ' + self.agent if self.agent else ''}, {len(self.calls)} calls>"


def spoken(fact: ModelReplied) -> str:
    """What a reply says to the user."""
    if len(fact.items) == 1 and type(fact.items[0]) is Words:  # as most do: opening a long conversation asks this of every reply
        return fact.items[0].text
    return "\n".join([item.text for item in fact.items if type(item) is Words or type(item) is Refusal])


def refusal_of(fact: ModelReplied) -> str:
    """The words in which the model declined; empty if it said anything else."""
    if any(type(item) is Words and item.text.strip() for item in fact.items):
        return ""
    return "\n".join([item.text for item in fact.items if type(item) is Refusal])


def message_of(entry: Entry) -> Message:
    """An entry as a message, for people and for scripted models."""
    match entry:
        case UserEntry():
            return Message(
                role="user",
                parts=parts_of(entry.content),
                author_name=entry.author,
                position=entry.position,
                synthetic=entry.synthetic,
            )
        case AssistantEntry():
            words = "\n".join(item.text for item in entry.items if isinstance(item, (Words, Refusal)))
            calls = tuple(
                SeenCall(f"{entry.position}.{index}", item.tool, item.arguments, item.call_id)
                for index, item in enumerate(entry.items)
                if isinstance(item, Call)
            )
            return Message(role="assistant", parts=parts_of(words), author_name=entry.agent, position=entry.position, calls=calls)
        case OutputEntry():
            return Message(role="tool", parts=parts_of(entry.content), author_name=entry.call.tool, call=str(entry.ref))
