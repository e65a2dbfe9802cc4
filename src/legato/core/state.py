"""The state machine. May know: facts. Decides: which fact may follow which, and what a ledger means.

State is `fold(facts)` and is never stored. Resume, recovery, time travel and the normal step are the same thing: fold, then ask
`owed` (owed.py) what the world still owes the conversation. The rules:

 1. A ledger begins with `Opened`. A later `Opened` must have an origin: the ledger is a fork, a copy or the new place of another from
    there on. It renames all requests and begins epochs anew: an attempt that was open belongs to no driver here. In a fork and a
    copy it also voids whatever permits an effect: approvals of calls that have no output, standing approvals, allowances
    (inheritance.py).
 2. `Said` is always legal. A message lands in the *tail*, and joins the groups when a reply that saw it (`upto`) is recorded; so one
    that came while a model was thinking, or a call was pending, follows that reply's whole batch. It overtakes whatever stands
    before it: a limit refused, a cancel, a termination, an objection, a failure, a frame. A *guarded* one waits outside until an
    agent's guardrails have let it pass (`Judged`), and lands then; one that they withhold was never there. No request sees past
    a message that waits. What its client asks of the run (`options`) is in force from where it lands until the next message lands, or
    an answer (`Decided`) brings other options. The calls of a reply are of the tools that were offered in its request.
 3. `Answered` is legal when something waits for a reply, every call of the previous reply has its output, `upto` covers that batch,
    and the agent is the one in control (or a message began a new run). Its calls form the *batch*. `Attempted` is legal where a
    reply is, and leaves no words. `Asked` is legal where a reply is; what the conversation it names holds is unknown until
    that reply has come, and for good if it never does.
 4. A call goes: unanswered -> (Judged, Gated) -> (Decided) -> Started -> Returned. `Gated` once; `Decided` only while that very thing is
    pending, with the digest of the recorded arguments; `Started` only when no attempt is open, numbered one above the last, and,
    if gated, approved for exactly those arguments; never, if the call is beyond a limit that its reply names.
 5. `Cancelled`, and a limit that a person refuses, stop the conversation until the user speaks, and the open calls for good: they are
    answered and never started. What a limit finds started comes to its end. A message that waits when a limit is refused is heard
    when it lands; one that waits when it is cancelled is not judged before the user speaks again.
 6. A call is answered once: by `Returned`, by `Decided` (reject, answer), by `Judged` (a guardrail's no) or by `HandedOff`.
    A `Returned` for an attempt of an answered call, or for an attempt that another one followed, is `late`: kept for people, once.
 7. `Lost` is legal for an open attempt. It makes the outcome unknown; a `Returned` that comes after all still answers the call,
    unless a person decided first. `Paused` is legal for an open attempt too, and ends it without an output: nothing else will be heard
    of that attempt, and the call waits until it is started again. `Lost` is legal for a paused attempt as well: its child session is
    missing. `UsageReported` is legal for a call that was started, whatever has become of it.
 8. `HandedOff` is legal when nothing of the batch but handoffs is unanswered, and the reply is within its limit of calls. It answers
    them all: its own call as taken, the others as not taken.
 9. `Prompted` is legal when the last reply had no calls and nobody has spoken since. `Judged` names what it judged and is legal once
    for it. `Compacted` moves forward only.
10. `Redacted` is always legal, and names facts that stand before it and have lost their words by then. Summaries among them are void:
    what they covered is seen again. Calls of a reply among them that are unanswered and do not run are not to run any more. A frame is
    due, and a reply to a request that was made before it is not heard: it may hold what was erased.

What is illegal raises `IllegalFact` naming the fact, the state and why; it changes nothing, and no store ever sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from legato.core import wording
from legato.core.call_limits import refusals
from legato.core.call_rules import CallRules, with_arguments
from legato.core.facts import (
    NO_OPTIONS,
    NO_USAGE,
    Answered,
    AnyFact,
    Asked,
    Attempted,
    Call,
    CallRef,
    Cancelled,
    Compacted,
    Decided,
    Gated,
    HandedOff,
    Judged,
    Lost,
    Opened,
    Paused,
    Prompted,
    Redacted,
    Refusal,
    Returned,
    RunOptions,
    Said,
    Started,
    Usage,
    UsageReported,
    Words,
)
from legato.core.groups import CallState, Group, OpenCalls, Output
from legato.core.handoff import Arrival

NEW, UNKNOWN = -1, -2
"""What a provider's conversation ends with, where that is no reply."""

NOT_ASKED = ("", -1)
UNTOUCHED = "conversation_locked"
"""The code of a failure that left the provider's conversation as it was."""


class State(CallRules):
    """What a ledger means. Made by `fold`; advanced one fact at a time by `apply`, at a cost that depends on the fact alone."""

    def apply(self, fact: AnyFact) -> None:
        """Advance by one fact, or raise `IllegalFact` and change nothing."""
        if not self.facts and type(fact) is not Opened:
            self._refuse(fact, "a ledger begins with Opened")
        _RULES[type(fact)](self, fact)
        self.facts.append(fact)

    # -- how a conversation begins and what users say ------------------------------------------------------------------

    def _opened(self, fact: Opened) -> None:
        if self.facts and fact.origin is None:
            self._refuse(fact, "the ledger is open already, and this names no origin")
        self.ledger = fact.ledger
        self.workflow = fact.workflow
        self.names.append((self.length, fact.ledger))
        self.epoch = 0
        for call in self.batch:
            if call.running:
                call.running.epoch = 0
        if fact.origin is not None and fact.origin.kind != "move":
            self._void_permissions()

    def _void_permissions(self) -> None:
        """Take back whatever permits an effect: this ledger runs beside the one that it was given in. See inheritance.py."""
        self.standing.clear()
        self.tally.allowances.clear()
        self.keys = {key: at for key, at in self.keys.items() if type(self.facts[at]) is not Decided}
        self.conversations = dict.fromkeys(self.conversations, UNKNOWN)
        for call in self.batch:
            if call.output is None:
                call.approved = call.redo = False
                if not call.attempts:  # what has started ran with the arguments as they were edited
                    call.arguments, call.edited = call.call.arguments, False
                self.open.changed.append(call)

    def _said(self, fact: Said) -> None:
        if fact.key and fact.key in self.keys:
            self._refuse(fact, f"the delivery {fact.key!r} was recorded at position {self.keys[fact.key]}")
        self._check_options(fact, fact.options)
        group = Group("said", len(self.facts), author=fact.author, content=fact.content, options=fact.options or NO_OPTIONS)
        self._remember(fact.key)
        if fact.guarded:
            self.waiting.append(group)
        else:
            self._land(group)

    def _land(self, group: Group) -> None:
        """A message takes its place in the conversation, and begins a run."""
        group.began = not self.awaits_reply or bool(self.halt) or self.ended
        if self._halt == "limit":
            self._halt = ""  # it may have been said before the limit was refused, and waited: the user has spoken all the same
        in_order = not self.tail or self.tail[-1].position < group.position
        self.tail.append(group)
        if not in_order:  # it waited for its guardrail, and others were said meanwhile
            self.tail.sort(key=_position)
        self.tally = self.tally.following()
        self._set_options(group.options)
        self._heard(group.content)

    def _check_options(self, fact: AnyFact, options: RunOptions | None) -> None:
        if options is None:
            return
        names = [tool.name for tool in options.tools]
        if not all(names) or len(set(names)) < len(names):
            self._refuse(fact, "each tool of a client has a name of its own")
        if bool(options.digest) != bool(names or options.typed) or (options.required and not names):
            self._refuse(fact, "a client's options name the definitions of what they ask for, and of nothing else")

    def _set_options(self, options: RunOptions) -> None:
        """From here on a client asks this of the run."""
        if options != self.run_options:
            self.options.append((self.length, options))

    def _cancelled(self, fact: Cancelled) -> None:
        self._stop("cancelled")
        self._failed = None

    def _stop(self, why: str) -> None:
        """Stop until the user speaks, and the calls of the open batch for good. What a limit finds started comes to its end."""
        self._halt, self._feedback, self.halted_at = why, "", self.length
        for call in self.batch:
            over_budget = call.paused is not None and call.paused.needed != NO_USAGE  # the refused limit is what it waits for
            if call.output is None and not (why == "limit" and call.attempts and not over_budget):
                call.stopped = why
                self.open.changed.append(call)

    # -- what models reply ---------------------------------------------------------------------------------------------

    def _may_call(self, fact: Answered | Asked | Attempted) -> None:
        if self.reply and self.reply.unanswered:
            self._refuse(fact, "the last reply has calls without outputs")
        if not self.awaits_reply:
            self._refuse(fact, "nothing waits for a reply")
        if fact.agent != self.active and self.active and not self.fresh:
            self._refuse(fact, f"{fact.agent!r} is not in control")

    def _answered(self, fact: Answered) -> None:
        self._may_call(fact)
        if self._halt and self.halt:
            self._refuse(fact, f"the conversation is stopped ({self.halt})")
        if fact.upto < self.overtaken_at:
            what = "the conversation was stopped" if self.halted_at > self.redacted_at else "words were erased"
            self._refuse(fact, f"{what} at {self.overtaken_at}, after its request was made")
        position = len(self.facts)
        if not self._floor() <= fact.upto < position or (self.waiting and self._waits_before(fact.upto)):
            self._refuse(fact, f"its request saw up to {fact.upto}, which is not what there was to see")
        groups, tail = self.groups, self.tail
        while tail and tail[0].position <= fact.upto:
            groups.append(tail.pop(0))
        group = Group("reply", position, fact.agent, fact=fact, unjudged=fact.guarded)
        if self.options:
            group.options = self.options_at(fact.upto)
        for index, item in enumerate(fact.items):
            if type(item) is Call:
                group.calls.append(CallState(CallRef(position, index), item, item.arguments))
            elif type(item) is Words or type(item) is Refusal:
                self.spent.letters += len(item.text)
        group.unanswered = len(group.calls)
        if fact.calls_allowed >= 0 or fact.argument_bytes_allowed >= 0:
            for call, words in zip(group.calls, refusals(fact, [call.call for call in group.calls]), strict=True):
                call.refused = words
        groups.append(group)
        self.reply = group
        self.open = OpenCalls(list(group.calls))
        if fact.agent != self.active:
            self.arrived, self.tally.prompts = None, 0
        self.frames.add(fact.frame)
        self._frame, self._framed_at = fact.frame, fact.upto
        self.active, self._failed, self._halt = fact.agent, None, ""
        if fact.base and fact.base in self.conversations:
            self.conversations[fact.base] = position
        self.asked = NOT_ASKED
        self.output_checked, self._feedback, self.termination_judged, self._ended = False, "", False, False
        self.replies += 1
        self.replies_of[fact.agent] = self.replies_of.get(fact.agent, 0) + 1
        self.tally.turns += 1
        self.tally.tool_rounds = self.tally.tool_rounds + 1 if group.calls else 0
        self.spent.turns += 1
        self.spent.spend(fact.agent, fact.usage)
        self._work(fact.at, fact.took)
        if fact.losses:
            self.losses.extend(fact.losses)

    def _asked_provider(self, fact: Asked) -> None:
        self._may_call(fact)
        before = self.conversations.get(fact.conversation, NEW)
        if before == UNKNOWN:
            self._refuse(fact, f"nobody knows what the provider holds in {fact.conversation!r}")
        self.asked = (fact.conversation, before)
        self.conversations[fact.conversation] = UNKNOWN

    def _attempted(self, fact: Attempted) -> None:
        self._may_call(fact)
        conversation, before = self.asked
        if fact.code == UNTOUCHED and conversation:
            self.conversations[conversation] = before
        self.asked = NOT_ASKED
        self._failed = fact
        self.frames.add(fact.frame)
        # After the last attempt somebody has to change something, and that may be the agent: the next one sees it anew.
        self._frame, self._framed_at = "" if fact.final else fact.frame, fact.upto
        self.spent.spend(fact.agent, fact.usage)
        worked = self.tally.active_ms
        self._work(fact.at, fact.took)
        if fact.limit:  # it took what was left of the limit, to the millisecond: the wall clock may say less
            self.tally.active_ms = max(self.tally.active_ms, worked + fact.took)

    def _floor(self) -> int:
        """The lowest `upto` a request may have had: it must have seen the whole last batch and what followed it."""
        if self.reply is None:
            return self.unseen[0].position if self.unseen else 0
        floor = self.groups[-1].position  # the reply, or what followed it
        for call in self.reply.calls:
            if call.output and call.output.position > floor:
                floor = call.output.position
        return floor

    def _waits_before(self, upto: int) -> bool:
        """Whether a message that stands no later than this waits for a guardrail."""
        return any(group.position <= upto for group in self.waiting)

    # -- what people decide (what becomes of a call is in call_rules.py) -----------------------------------------------

    def _decided(self, fact: Decided) -> None:
        if fact.key and fact.key in self.keys:
            self._refuse(fact, f"the delivery {fact.key!r} was recorded at position {self.keys[fact.key]}")
        self._check_options(fact, fact.options)
        if fact.kind == "limit":
            self._decided_limit(fact)
        elif fact.kind == "standing":
            if fact.standing not in self.standing:
                self._refuse(fact, "there is no such standing approval")
            self.standing.discard(fact.standing)
        else:
            self._decided_call(fact, self._open_call(fact, fact.call))
        if fact.options is not None:
            self._set_options(fact.options)
        self._remember(fact.key)

    def _decided_limit(self, fact: Decided) -> None:
        if not fact.limit or self.halt or self.ended:
            self._refuse(fact, "no limit is waiting for an answer")
        if fact.verdict == "approve":
            self.tally.allowances[fact.limit] = self.tally.allowances.get(fact.limit, 0) + 1
        elif fact.verdict == "reject":
            self._stop("limit")
        else:
            self._refuse(fact, "a limit is approved or rejected")

    # -- control, judgement, prompts -----------------------------------------------------------------------------------

    def _handed_off(self, fact: HandedOff) -> None:
        taken = self._open_call(fact, fact.call)
        if fact.source != self.active:
            self._refuse(fact, f"{fact.source!r} is not in control")
        if self.halt:
            self._refuse(fact, f"the conversation is stopped ({self.halt})")
        assert self.reply is not None and self.reply.fact is not None
        if taken.attempts or taken.stopped or taken.refused or self.reply.fact.calls_allowed >= 0 or (taken.gate and not taken.approved):
            self._refuse(fact, f"call {fact.call} is not a handoff that may be taken")
        # What else of the batch is unanswered must be handoffs too, decided but overtaken; the plan sees to that, and a call that
        # was started or waits for somebody is none.
        for call in self.batch:
            if call.output is None and call is not taken and (call.attempts or (call.gate and not call.approved)):
                self._refuse(fact, f"call {call.ref} of the same reply has no output yet")
        self.reply.handed_to = fact.target
        for call in self.batch:
            if call.output is None:
                words = with_arguments(call, wording.handed_off(fact.target)) if call is taken else wording.not_taken(fact.target)
                self._output(call, Output(words, "ok" if call is taken else "not_taken", self.length))
        self.arrived = Arrival(fact.source, fact.target, taken.arguments)
        self.active, self._frame, self.tally.prompts = fact.target, "", 0
        self.tally.handoffs += 1
        self.tally.tool_rounds = 0
        self.tally.count_edge(fact.source, fact.target)
        self.spent.by_handoff.append((fact.source, fact.target, Usage()))

    def _judged(self, fact: Judged) -> None:
        match fact.kind:
            case "tool":
                call = self._open_call(fact, CallRef(fact.position, fact.index))
                if call.guarded or call.attempts:
                    self._refuse(fact, "this call was judged before")
                call.guarded = True
                if fact.stop:
                    self._output(call, Output(wording.guarded(fact.words), "blocked", self.length))
            case "input":
                group = next((group for group in (*self.waiting, *self.unseen) if group.position == fact.position), None)
                if group is None or group.judged == fact.agent:
                    self._refuse(fact, "no message waits to be judged there")
                waits = group in self.waiting
                group.judged, group.blocked = fact.agent, fact.stop
                self.withheld += fact.stop
                if waits:
                    self.waiting.remove(group)
                if waits and not fact.stop:
                    self._land(group)
                elif waits:
                    self.tail.append(group)  # for people, who see what was said and why it was withheld
                    self.tail.sort(key=_position)
            case "output" | "termination":
                if self.reply is None or self.reply.position != fact.position or not self.reply.complete:
                    self._refuse(fact, "that is not the newest reply, or it has calls without outputs")
                if fact.kind == "output":
                    if self.output_checked:
                        self._refuse(fact, "this reply was judged before")
                    self.output_checked, self.reply.unjudged = True, False
                    if fact.stop:
                        self._ended = False  # what the run would have ended with is not to be shown
                        self.tally.output_retries += 1
                        self._feedback = fact.words
                        self.reply.rejected = True
                        self.rejections += 1
                        told = wording.feedback(fact.words)
                        self.groups.append(Group("feedback", self.length, self.reply.agent, content=told))
                else:
                    if self.termination_judged:
                        self._refuse(fact, "termination was judged for this reply before")
                    self.termination_judged = True
                    self._ended = fact.stop

    def _prompted(self, fact: Prompted) -> None:
        if self.reply is None or self.reply.calls or self.unseen or self.halt or self.ended or self.groups[-1] is not self.reply:
            self._refuse(fact, "only an agent whose reply made no calls, and whom nobody has answered, is prompted")
        if fact.agent != self.active:
            self._refuse(fact, f"{fact.agent!r} is not in control")
        self.groups.append(Group("prompt", self.length, content=fact.text))
        self.tally.prompts += 1
        self.spent.letters += len(fact.text)

    def _compacted(self, fact: Compacted) -> None:
        before = self.summaries.get(fact.agent)
        if fact.upto >= self.length or (before and fact.upto <= before.upto):
            self._refuse(fact, "a summary covers more than the one before it, and nothing that has not happened")
        if self._waits_before(fact.upto):
            self._refuse(fact, "a message that it would cover waits to be judged")
        self.summaries[fact.agent] = fact
        self.spent.spend(fact.agent, fact.usage)

    def _redacted(self, fact: Redacted) -> None:
        named = (*fact.positions, *fact.along)
        if not fact.positions or len(fact.digests) != len(fact.positions) or len(set(named)) != len(named):
            self._refuse(fact, "it names each fact once, and for each that was asked for a digest")
        if not 0 <= min(named) <= max(named) < self.length:
            self._refuse(fact, "it names facts that are not there")
        for position in named:
            self.erased[position] = self.length
        self.redacted_at = self.length
        self.summaries = {
            each.agent: each for at, each in enumerate(self.facts) if type(each) is Compacted and at not in self.erased
        }
        self._frame = ""
        for call in self.batch:
            if call.output is None and not call.stopped and call.ref.position in fact.positions:
                call.stopped = "erased"
                self.open.changed.append(call)

    # -- sums ----------------------------------------------------------------------------------------------------------

    def _remember(self, key: str) -> None:
        if key:
            self.keys[key] = self.length

def _position(group: Group) -> int:
    return group.position


_RULES: dict[type, Callable[[State, Any], None]] = {
    Opened: State._opened,
    Said: State._said,
    Answered: State._answered,
    Asked: State._asked_provider,
    Attempted: State._attempted,
    Gated: State._gated,
    Decided: State._decided,
    Started: State._started,
    Returned: State._returned,
    Lost: State._lost,
    Paused: State._paused,
    UsageReported: State._usage_reported,
    HandedOff: State._handed_off,
    Judged: State._judged,
    Prompted: State._prompted,
    Compacted: State._compacted,
    Cancelled: State._cancelled,
    Redacted: State._redacted,
}


def fold(facts: Iterable[AnyFact], session: str = "") -> State:
    """The state that these facts lead to."""
    state = State(session=session)
    for fact in facts:
        state.apply(fact)
    return state
