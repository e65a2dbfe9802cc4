"""A conversation of another framework, before it is written as a ledger.

Readers (one file per source) yield `UserMessage`, `AgentReply` and `ToolOutput`, in order. This module decides which call an output belongs
to, where a reply ends, and how control passed, the same for every source. The facts are proposed to the same rules as all others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from legato.compat.imports.untrusted_input import escape_unprintable
from legato.core.digests import digest_arguments
from legato.core.facts import (
    AnyFact,
    ApprovalChecked,
    Call,
    CallRef,
    CallReturned,
    CallStarted,
    Content,
    HandedOff,
    MessageReceived,
    ModelReplied,
    Opened,
    ReplyItem,
)
from legato.core.texts_for_model import MAY_HAVE_TAKEN_EFFECT
from legato.core.turn_context import TurnContext, encode_turn_context

MAX_PRINTED_LINES = 20
"""Lines of a kind that a report prints."""


class UserMessage(Struct, frozen=True):
    """A user said something."""

    content: Content
    author: str = ""


class AgentReply(Struct, frozen=True):
    """An agent's model said or called something; what follows without an output between is the same reply."""

    agent: str
    items: tuple[ReplyItem, ...]
    handoffs: dict[int, str] = {}
    """Which of the items are calls that pass control, and to whom."""
    asks: frozenset[int] = frozenset()
    """Which of the items are calls that wait for a person's approval, if they have no output."""


class ToolOutput(Struct, frozen=True):
    """A call's output."""

    call_id: str
    content: Content
    failed: bool = False


Entry: TypeAlias = UserMessage | AgentReply | ToolOutput


class Report(Struct):
    """The report of an import. `left_out` lists the parts that are not in the ledger."""

    source: str
    messages: int = 0
    replies: int = 0
    calls: int = 0
    handoffs: int = 0
    pending: int = 0
    unknown: int = 0
    copies: int = 0
    left_out: list[str] = []
    notes: list[str] = []

    def __str__(self) -> str:
        told = f"{self.source}: {self.messages} messages, {self.replies} replies, {self.calls} calls, {self.handoffs} handoffs"
        lines = [
            told,
            f"  {self.pending} calls wait for approval" if self.pending else "",
            f"  {self.unknown} calls had no output; they are answered as of unknown outcome" if self.unknown else "",
            f"  {self.copies} copies that the framework had made of messages were not taken" if self.copies else "",
            *_listed("left out", self.left_out),
            *_listed("note", self.notes),
        ]
        return "\n".join(escape_unprintable(line) for line in lines if line)


def _listed(what: str, lines: list[str]) -> list[str]:
    """Return the first lines, and the number of the others."""
    more = [f"  {what}: {len(lines) - MAX_PRINTED_LINES} more"] if len(lines) > MAX_PRINTED_LINES else []
    return [*(f"  {what}: {line}" for line in lines[:MAX_PRINTED_LINES]), *more]


class _Reply:
    """One reply: its items, which of its calls have which output, and whether an output was met (then it is complete)."""

    def __init__(self, agent: str) -> None:
        self.agent = agent
        self.items: list[ReplyItem] = []
        self.handoffs: dict[int, str] = {}
        self.asks: set[int] = set()
        self.outputs: dict[int, ToolOutput] = {}
        self.met_output = False
        self._open: dict[str, deque[int]] = {}

    def add(self, spoke: AgentReply) -> None:
        start = len(self.items)
        self.items.extend(spoke.items)
        self._look_for_calls(start)
        self.handoffs |= {start + index: target for index, target in spoke.handoffs.items()}
        self.asks |= {start + index for index in spoke.asks}

    def put_before(self, spoke: AgentReply) -> None:
        """The same, before what is there."""
        size = len(spoke.items)
        self.items[:0] = spoke.items
        self.handoffs = dict(spoke.handoffs) | {size + index: target for index, target in self.handoffs.items()}
        self.asks = set(spoke.asks) | {size + index for index in self.asks}
        self.outputs = {size + index: came for index, came in self.outputs.items()}
        self._open.clear()
        self._look_for_calls(0)

    def _look_for_calls(self, start: int) -> None:
        """Note which calls have no output, by id, the earliest first."""
        for index in range(start, len(self.items)):
            if isinstance(call := self.items[index], Call) and index not in self.outputs:
                self._open.setdefault(call.call_id, deque()).append(index)

    def answers(self, came: ToolOutput) -> bool:
        """Give an output to the earliest call of its id that has none."""
        if not (waiting := self._open.get(came.call_id)):
            return False
        self.outputs[waiting.popleft()] = came
        self.met_output = True
        return True

    @property
    def only_hands_over(self) -> bool:
        """True if all calls are handoffs, so that no output can have been seen before the other agent began."""
        return bool(self.handoffs) and set(self.calls) == set(self.handoffs)

    @property
    def calls(self) -> list[int]:
        return [index for index, item in enumerate(self.items) if isinstance(item, Call)]


def group_turns(entries: Sequence[Entry], report: Report) -> list[UserMessage | _Reply]:
    """Messages and replies, each call with its output."""
    turns: list[UserMessage | _Reply] = []
    waiting: dict[str, deque[_Reply]] = {}
    for entry in entries:
        last = turns[-1] if turns else None
        match entry:
            case UserMessage():
                turns.append(entry)
            case AgentReply():
                if isinstance(last, _Reply) and last.agent == entry.agent and last.only_hands_over:
                    last.put_before(entry)  # words that an agent said after its handoff and before the other began
                    _expect(waiting, last, entry)
                    continue
                if not isinstance(last, _Reply) or last.agent != entry.agent or last.met_output:
                    if not turns:
                        report.left_out.append(f"what {entry.agent or 'an agent'} said before anybody had spoken")
                        continue
                    turns.append(last := _Reply(entry.agent))
                last.add(entry)
                _expect(waiting, last, entry)
            case ToolOutput():
                _pair(entry, waiting, report)
    return turns


def _expect(waiting: dict[str, deque[_Reply]], reply: _Reply, spoke: AgentReply) -> None:
    for item in spoke.items:
        if isinstance(item, Call):
            waiting.setdefault(item.call_id, deque()).append(reply)


def _pair(came: ToolOutput, waiting: dict[str, deque[_Reply]], report: Report) -> None:
    """Give an output to the earliest call of its id that has none: call ids may be used again."""
    replies = waiting.get(came.call_id)
    if not replies or not replies.popleft().answers(came):
        report.left_out.append(f"an output for call {came.call_id!r}, which is not there or has its output")


class LedgerWriter:
    """Writes the ledger of what was gathered, fact by fact."""

    def __init__(self, report: Report, at: int) -> None:
        self.facts: list[AnyFact] = []
        self.contents: dict[str, bytes] = {}
        self._report = report
        self._at = at

    def write(self, turns: Sequence[UserMessage | _Reply], ledger: str, workflow: str) -> None:
        """All of it."""
        self.facts.append(Opened(at=self._at, ledger_id=ledger, workflow=workflow))
        followers = [""]  # of each turn, from the last: who replies next
        for turn in reversed(turns):
            followers.append(turn.agent if isinstance(turn, _Reply) else followers[-1])
        for place, turn in enumerate(turns):
            if isinstance(turn, UserMessage):
                self.facts.append(MessageReceived(at=self._at, content=turn.content, author=turn.author))
                self._report.messages += 1
            else:
                at_once = place + 1 < len(turns) and isinstance(turns[place + 1], _Reply)
                self._reply(turn, followers[len(turns) - place - 1], at_once)

    def _reply(self, reply: _Reply, follower: str, at_once: bool) -> None:
        position = len(self.facts)
        target, taken = self._passes(reply, follower, at_once, position)
        self.facts.append(
            ModelReplied(
                at=self._at, agent=reply.agent, context_digest=self._frame(reply.agent), upto=position - 1, items=tuple(reply.items)
            )
        )
        self._report.replies += 1
        self._report.calls += len(reply.calls)
        waits = False
        for index in reply.calls:
            if target and (index == taken or index in reply.handoffs):
                continue  # answered by the handoff, all of them
            call = reply.items[index]
            assert isinstance(call, Call)
            waits |= self._call(call, CallRef(position, index), reply.outputs.get(index), index in reply.asks and not follower)
        if target and waits:
            self._report.notes.append(f"control passes to {target} once the calls that wait are decided")
        elif target:
            self.facts.append(HandedOff(at=self._at, call=CallRef(position, taken), source=reply.agent, target=target))
            self._report.handoffs += 1

    def _passes(self, reply: _Reply, follower: str, at_once: bool, position: int) -> tuple[str, int]:
        """To whom control passed with this reply, and by which of its calls. A call is added where the source had kept none."""
        if follower and follower != reply.agent and (at_once or reply.calls):
            target = follower
        elif not follower and reply.handoffs:
            target = next(iter(reply.handoffs.values()))
        else:
            return "", -1
        taken = next((index for index, whom in reply.handoffs.items() if whom == target), next(iter(reply.handoffs), -1))
        if taken < 0:
            taken = len(reply.items)
            reply.items.append(Call(f"handoff_to_{target}", "{}", f"call_imported_{position}"))
            self._report.notes.append(f"{reply.agent} passed control to {target}; the source kept no call for it, so one was written")
        elif reply.handoffs[taken] != target:
            whom = reply.handoffs[taken]
            self._report.notes.append(f"{reply.agent} passed control to {whom}, who said nothing; {target} spoke next")
        return target, taken

    def _call(self, call: Call, ref: CallRef, output: ToolOutput | None, asks: bool) -> bool:
        """Write the outcome of a call. Return True if it waits for a person."""
        if output is not None:
            self.facts.append(CallStarted(at=self._at, call=ref, attempt=1, epoch=0))
            self.facts.append(
                CallReturned(at=self._at, call=ref, attempt=1, output=output.content, status="error" if output.failed else "ok")
            )
        elif asks:
            self.facts.append(ApprovalChecked(at=self._at, call=ref, needed=True, digest=digest_arguments(call.arguments)))
            self._report.pending += 1
        else:
            words = (
                f"The outcome of {call.tool!r} is unknown: where this conversation was kept before, the call had no output. "
                f"{MAY_HAVE_TAKEN_EFFECT}"
            )
            self.facts.append(CallReturned(at=self._at, call=ref, output=words, status="error"))
            self._report.unknown += 1
        return output is None and asks

    def _frame(self, agent: str) -> str:
        """Return the digest of an imported turn context. Its options match no model, so the next turn gets a context of its own."""
        digest, data = encode_turn_context(TurnContext(agent=agent, options='{"imported":true}'))
        self.contents[digest] = data
        return digest
