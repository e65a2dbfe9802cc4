"""Groups: the units of a folded conversation, and the state of the calls in them.

A *group* is one message of the user, one synthetic prompt, one objection to a reply, or one reply with all its calls and their outputs.
Views keep or drop whole groups, so a view never has a call without its output.

Objects that are created for every fact of a long conversation are `Struct`s: creating one takes half the time of an `__init__`.
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
    ModelReplied,
    OutputText,
    Refusal,
    ReplyItem,
    RunOptions,
)
from legato.core.messages import Message, MessageCall, find_attachment_digests, to_parts


class CallOutput(Struct, frozen=True, gc=False):
    """The output of a call. A call has one output, the same in every request."""

    content: Content
    status: str
    position: int


class CallAttempt(Struct, eq=False):
    """One attempt to run a call."""

    number: int
    epoch: int
    lost: bool = False
    outcome_known: bool = False  # its real outcome is recorded, in time or late
    pause: CallPaused | None = None  # it ended because its child session could not continue
    child_missing: bool = False  # its child session is not in the store, so it cannot be resumed

    def __repr__(self) -> str:
        return f"<attempt {self.number} epoch {self.epoch}{' lost' if self.lost else ''}{' known' if self.outcome_known else ''}>"


CallPhase: TypeAlias = Literal["unchecked", "needs_approval", "ready", "running", "lost", "paused", "stopped", "answered"]
"""The phase of a call.

- `unchecked`: nothing is decided about the call.
- `needs_approval`: a person must approve it.
- `ready`: it may start, as far as approval is concerned.
- `running`: an attempt is open.
- `lost`: the outcome of its last attempt is unknown.
- `paused`: it waits for its child session.
- `stopped`: it must not run (any further), and has no output yet.
- `answered`: it has its output.
"""


class CallState(Struct, eq=False):
    """One call of a reply, with everything that has been recorded about it."""

    ref: CallRef
    call: Call
    arguments: str  # as the model wrote them, or as a person edited them
    edited: bool = False
    needs_approval: bool | None = None  # None: not decided yet
    guardrails_passed: bool = False
    approved: bool = False
    rerun_approved: bool = False  # a person asked to run a lost attempt again
    child_usage: ChildUsageReported | None = None  # the last usage report of its child session
    child_usage_position: int = -1  # the position of that report
    limit_error: str = ""  # the text for the model, if the call exceeds a limit that its reply names: it does not run
    stop_reason: str = ""  # "cancelled", "limit" or "erased": it must not run (any further), whatever the user says next
    attempts: tuple[CallAttempt, ...] = ()
    output: CallOutput | None = None
    decision_positions: tuple[int, ...] = ()  # of approval checks, losses and decisions; not of an `Opened` that voids them
    index_key: tuple[CallPhase, str] | None = None  # its key in `OpenCalls`

    @property
    def phase(self) -> CallPhase:
        """The phase of the call."""
        if self.output is not None:
            return "answered"
        last = self.attempts[-1] if self.attempts else None
        runs = last is not None and not last.lost and last.pause is None
        if self.stop_reason and not (runs and self.stop_reason == "erased"):  # a running tool has its arguments already
            return "stopped"
        if last is not None:
            return "running" if runs else "paused" if last.pause is not None else "ready" if self.rerun_approved else "lost"
        if self.limit_error:
            return "stopped"
        if self.needs_approval is None:
            return "unchecked"
        return "needs_approval" if self.lacks_approval else "ready"

    @property
    def lacks_approval(self) -> bool:
        """True if the call needs an approval that it does not have."""
        return bool(self.needs_approval) and not self.approved

    @property
    def open_attempt(self) -> CallAttempt | None:
        """The attempt that was started, and has neither returned nor been lost, paused or answered in another way."""
        if self.output is None and self.attempts:
            last = self.attempts[-1]
            return None if last.lost or last.pause else last
        return None

    @property
    def pause(self) -> CallPaused | None:
        """The pause of the last attempt, while the child session cannot continue."""
        return self.attempts[-1].pause if self.output is None and self.attempts else None

    @property
    def last_pause(self) -> CallPaused | None:
        """The most recent pause of any attempt, although the call may have continued since."""
        return next((attempt.pause for attempt in reversed(self.attempts) if attempt.pause), None)

    @property
    def next_attempt(self) -> int:
        """The number of the next attempt."""
        return len(self.attempts) + 1

    def __repr__(self) -> str:
        return f"<call {self.ref} {self.call.tool} {self.output.status if self.output else self.phase}>"


class OpenCalls(Struct, eq=False):
    """An index of the newest reply's unanswered calls by phase and tool, so that no fact needs a scan of all calls.

    It is updated when it is read: folding a ledger changes the calls of every reply, but only those of the last one are looked up.
    """

    changed_calls: list[CallState] = []
    """The calls that have changed since they were indexed; all calls at first."""
    _by_phase: dict[tuple[CallPhase, str], list[CallState]] = {}
    _started_calls: list[CallState] = []

    @property
    def by_phase(self) -> dict[tuple[CallPhase, str], list[CallState]]:
        """The calls of each phase and tool, in call order."""
        self._index_changed()
        return self._by_phase

    @property
    def started_calls(self) -> list[CallState]:
        """The calls with at least one attempt, in call order."""
        self._index_changed()
        return self._started_calls

    @property
    def has_paused_calls(self) -> bool:
        """True if calls wait for their child sessions."""
        return any(call.pause for call in self.started_calls)

    def _index_changed(self) -> None:
        for call in self.changed_calls:
            self._index(call)
        self.changed_calls.clear()

    def _index(self, call: CallState) -> None:
        phase = call.phase
        key = (phase, call.call.tool) if phase != "answered" else None
        if key == call.index_key:
            return
        if call.index_key is not None:
            old_calls = self._by_phase[call.index_key]
            _remove(old_calls, call)
            if not old_calls:
                del self._by_phase[call.index_key]
        _remove(self._started_calls, call)
        if key is not None:
            insort(self._by_phase.setdefault(key, []), call, key=get_call_index)
            if call.attempts:
                insort(self._started_calls, call, key=get_call_index)
        call.index_key = key


def get_call_index(call: CallState) -> int:
    """Return the index of a call among its reply's items."""
    return call.ref.index


def _remove(calls: list[CallState], call: CallState) -> None:
    """Remove a call from a list in call order, if it is there."""
    at = bisect_left(calls, call.ref.index, key=get_call_index)
    if at < len(calls) and calls[at] is call:
        del calls[at]


class UserEntry(Struct, frozen=True):
    """A message on the user's side. `synthetic`: no user wrote it."""

    content: Content
    author: str = ""
    synthetic: bool = False
    position: int = -1


class AssistantEntry(Struct, frozen=True):
    """A model's reply, verbatim."""

    agent: str
    items: tuple[ReplyItem, ...]
    position: int


class OutputEntry(Struct, frozen=True):
    """The output of one call."""

    ref: CallRef
    call: Call
    content: Content
    status: str


Entry: TypeAlias = UserEntry | AssistantEntry | OutputEntry


NO_DIGESTS: frozenset[str] = frozenset()


class Group(Struct, eq=False, weakref=True):
    """A unit of the conversation; see the module's docstring. Only the newest reply of a ledger can be incomplete."""

    kind: Literal["said", "prompt", "feedback", "reply"]
    position: int
    agent: str = ""
    author: str = ""
    content: Content = ""
    fact: ModelReplied | None = None
    calls: list[CallState] = []
    unanswered_count: int = 0
    handed_to: str = ""
    checked_by: str | None = None  # of a message: the agent whose input guardrails have checked it
    withheld: bool = False  # of a message: the guardrails withhold it
    begins_run: bool = False  # of a message: it arrived while the conversation was idle
    rejected: bool = False  # of a reply: it was not accepted; its agent sees it with the objection, people do not
    awaits_checks: bool = False  # of a reply: its output has no verdict yet; people see none of its text
    options: RunOptions = NO_OPTIONS  # of a message: the run options it brings; of a reply: those that its request was made with
    _by_index: dict[int, CallState] | None = None
    _content_digests: frozenset[str] | None = None
    _entries: tuple[Entry, ...] | None = None
    _without_tool_traffic: Group | None = None

    @property
    def is_complete(self) -> bool:
        return self.unanswered_count == 0

    def find_call(self, index: int) -> CallState | None:
        """Return the call that is the reply's item with this index; None if that is not a call."""
        if self._by_index is None:
            self._by_index = {call.ref.index: call for call in self.calls}
        return self._by_index.get(index)

    @property
    def public_text(self) -> str:
        """The text of a reply that people may read; empty if it was rejected or has not been checked yet."""
        return "" if self.fact is None or self.rejected or self.awaits_checks else extract_reply_text(self.fact)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The group as entries of a request: the reply verbatim, then one output per call in call order. Cached when complete."""
        if self._entries is None:
            entries = tuple(self._render())
            if not self.is_complete:
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
    def content_digests(self) -> frozenset[str]:
        """The digests of the images and files in the group. Cached when complete, because every request reads it of every group."""
        if self._content_digests is None:
            contents = [self.content, *(call.output.content for call in self.calls if call.output is not None)]
            digests = NO_DIGESTS.union(*(find_attachment_digests(content) for content in contents if not isinstance(content, str)))
            if not self.is_complete:
                return digests
            self._content_digests = digests or NO_DIGESTS
        return self._content_digests

    def without_tool_traffic(self) -> Group | None:
        """Return the group without tool traffic and reasoning, for history policies; None if no text is left. Cached when complete."""
        if self.fact is None or not self.calls:
            return self if self.fact is None or extract_reply_text(self.fact) else None
        if self._without_tool_traffic is None:
            text_items = tuple(item for item in self.fact.items if isinstance(item, (OutputText, Refusal)))
            if not text_items:
                return None
            text_only = Group(self.kind, self.position, self.agent)
            text_only.fact = self.fact
            text_only._entries = (AssistantEntry(self.agent, text_items, self.position),)
            self._without_tool_traffic = text_only
        return self._without_tool_traffic

    def __repr__(self) -> str:
        return f"<{self.kind} at {self.position}{' of ' + self.agent if self.agent else ''}, {len(self.calls)} calls>"


def extract_reply_text(fact: ModelReplied) -> str:
    """Return the text of a reply to the user."""
    if len(fact.items) == 1 and type(fact.items[0]) is OutputText:  # as in most replies: opening a long conversation reads all of them
        return fact.items[0].text
    return "\n".join([item.text for item in fact.items if type(item) is OutputText or type(item) is Refusal])


def extract_refusal(fact: ModelReplied) -> str:
    """Return the text in which the model declined; empty if the reply has any other text."""
    if any(type(item) is OutputText and item.text.strip() for item in fact.items):
        return ""
    return "\n".join([item.text for item in fact.items if type(item) is Refusal])


def to_message(entry: Entry) -> Message:
    """Return an entry as a message, for people and for scripted models."""
    match entry:
        case UserEntry():
            return Message(
                role="user",
                parts=to_parts(entry.content),
                author_name=entry.author,
                position=entry.position,
                synthetic=entry.synthetic,
            )
        case AssistantEntry():
            text = "\n".join(item.text for item in entry.items if isinstance(item, (OutputText, Refusal)))
            calls = tuple(
                MessageCall(f"{entry.position}.{index}", item.tool, item.arguments, item.call_id)
                for index, item in enumerate(entry.items)
                if isinstance(item, Call)
            )
            return Message(role="assistant", parts=to_parts(text), author_name=entry.agent, position=entry.position, calls=calls)
        case OutputEntry():
            return Message(role="tool", parts=to_parts(entry.content), author_name=entry.call.tool, call=str(entry.ref))
