"""What every story is held to. May know: facts as they are recorded, and messages as models were asked. Knows no view of Legato's.

The transcript is worked out here a second time, from the bare facts and as simply as possible, so that a mistake in the library's views
cannot hide itself. Then: each call has exactly one output, right behind its reply and in call order; an agent that sees everything
was asked exactly the transcript so far, each message once and in order; what one request said, the next one says again, and
only what happened in between comes on top; and the request shown from the ledger is the one that was really asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from legato.core.facts import (
    AgentPrompted,
    AnyFact,
    Call,
    CallRef,
    CallReturned,
    CallStarted,
    Content,
    Decided,
    GuardrailJudged,
    HandedOff,
    MessageReceived,
    ModelReplied,
    Refusal,
    Text,
    Words,
)
from legato.core.messages import Message
from legato.core.view import Request
from legato.runtime.session import Session
from legato.testing.story import Told

Line: TypeAlias = tuple[Any, ...]
"""One message, as plain data: who, and what."""


async def check(told: Told) -> list[Request]:
    """Hold a story that was told to the promises; return the request behind each of its replies, in order."""
    await told.session.refresh()
    facts = told.session.facts
    ledgers = {told.session.id: facts}
    for request in told.requests:
        if request.session not in ledgers:  # of an agent that works as a tool
            ledgers[request.session] = list(await told.session.store.read(request.session))
        check_request(request, ledgers[request.session])
    shown = await requests_of(told.session)
    check_growth(shown)
    check_shown([request for request in told.requests if request.session == told.session.id], shown, facts)
    for each in ledgers.values():
        check_ledger(each)
        check_deeds(told, each)
    return shown


async def requests_of(session: Session) -> list[Request]:
    """The request behind each reply of a session, as the ledger shows it; each is checked."""
    await session.refresh()
    facts = session.facts
    shown = [await session.seen(number) for number in range(sum(isinstance(fact, ModelReplied) for fact in facts))]
    for request in shown:
        check_request(request, facts)
    return shown


# -- one request -------------------------------------------------------------------------------------------------------


def check_request(request: Request, facts: Sequence[AnyFact]) -> None:
    """Calls are answered, and what is said is what happened."""
    check_pairs(request.messages)
    lines = conversation(request)
    whole = transcript(facts, request.upto)
    if policy(request) == "Everything":
        assert lines == whole, _difference(request, lines, whole)
    else:
        _check_selection(request, lines, whole)
    for message in request.messages:
        if message.role == "tool":
            _check_output(message, facts)


def check_pairs(messages: Sequence[Message]) -> None:
    """Each call exactly one output, before anything else is said, in call order; no output without its call."""
    ids: set[str] = set()
    expected: list[str] = []
    for message in messages:
        if expected:
            assert message.role == "tool", f"{message} came before the outputs of {expected}"
            assert message.call == expected[0], f"the output of {message.call} came where that of {expected[0]} was due"
            expected.pop(0)
            continue
        assert message.role != "tool", f"an output without its call: {message}"
        expected = [call.id for call in message.calls]
        assert not ids.intersection(expected), f"a call was sent twice: {expected}"
        ids.update(expected)
    assert not expected, f"calls without outputs: {expected}"


def conversation(request: Request) -> list[Line]:
    """What a request says besides what its frame and a summary add."""
    added = len(request.frame.messages) + bool(request.summary)
    return [_line(message) for message in request.messages[added:]]


def policy(request: Request) -> str:
    return type(request.frame.history).__name__


def _line(message: Message) -> Line:
    match message.role:
        case "user":
            return ("prompt",) if message.synthetic else ("user", message.parts)
        case "assistant":
            return "assistant", message.text, tuple((call.id, call.tool, call.arguments) for call in message.calls)
        case _:
            return "tool", message.call


# -- the transcript, from bare facts -----------------------------------------------------------------------------------


def transcript(facts: Sequence[AnyFact], upto: int) -> list[Line]:
    """The conversation up to a position, as an agent that sees everything must be told it."""
    facts = facts[: upto + 1]
    withheld = {fact.position for fact in facts if isinstance(fact, GuardrailJudged) and fact.kind == "input" and fact.stop}
    lines: list[Line] = []
    waiting: list[tuple[int, Line]] = []  # said, and not yet seen by any reply
    for position, fact in enumerate(facts):
        match fact:
            case MessageReceived() if position not in withheld:
                waiting.append((position, ("user", _parts(fact.content))))
            case AgentPrompted():
                lines.append(("prompt",))
            case GuardrailJudged(kind="output", stop=True):
                lines.append(("prompt",))
            case ModelReplied():
                lines += [line for at, line in waiting if at <= fact.upto]
                waiting = [(at, line) for at, line in waiting if at > fact.upto]
                calls = [(f"{position}.{index}", item) for index, item in enumerate(fact.items) if isinstance(item, Call)]
                words = "\n".join(item.text for item in fact.items if isinstance(item, Words | Refusal))
                if fact.items:
                    lines.append(("assistant", words, tuple((id, call.tool, call.arguments) for id, call in calls)))
                lines += [("tool", id) for id, _ in calls]
            case _:
                pass
    return lines + [line for _, line in waiting]


def _parts(content: Content) -> tuple[Any, ...]:
    return (Text(content),) if isinstance(content, str) else content


def _check_selection(request: Request, lines: list[Line], whole: list[Line]) -> None:
    """A policy may leave out messages and tool traffic; it may not invent, repeat or reorder."""
    rest = iter(whole)
    for line in lines:
        wordless = line[:2] if line[0] == "assistant" and not line[2] else None
        found = any(other == line or (wordless is not None and other[:2] == wordless) for other in rest)
        assert found, f"{request.agent} was told {line}, which was not said there.\n" + _listed(whole)


def _difference(request: Request, lines: list[Line], whole: list[Line]) -> str:
    told = f"request number {request.turn} (of {request.agent}, up to {request.upto}) is not the conversation"
    return f"{told}\nasked:\n{_listed(lines)}\nhappened:\n{_listed(whole)}"


def _listed(lines: list[Line]) -> str:
    return "\n".join(f"  {line}" for line in lines)


# -- outputs -----------------------------------------------------------------------------------------------------------


def _check_output(message: Message, facts: Sequence[AnyFact]) -> None:
    """What a model is told of a call is what became of it."""
    answers = answers_of(facts, message.call)
    assert len(answers) == 1, f"call {message.call} was answered by {answers}"
    told = message.text
    match answers[0]:
        case CallReturned(output=output) | Decided(verdict="answer", output=output):
            assert str(output) in told, f"{message.call}: {output!r} is missing in {told!r}"
        case Decided(words=words) | GuardrailJudged(words=words):
            assert words in told, f"{message.call}: {words!r} is missing in {told!r}"
        case HandedOff(target=target):
            assert target in told, f"{message.call}: {target!r} is missing in {told!r}"


def answers_of(facts: Sequence[AnyFact], ref: str) -> list[AnyFact]:
    """The facts that answer a call. A handoff answers what is left of its batch."""
    found: list[AnyFact] = []
    for fact in facts:
        match fact:
            case CallReturned(late=False) if str(fact.call) == ref:
                found.append(fact)
            case Decided(verdict="reject" | "answer") if str(fact.call) == ref:
                found.append(fact)
            case GuardrailJudged(kind="tool", stop=True) if f"{fact.position}.{fact.index}" == ref:
                found.append(fact)
            case HandedOff() if not found and str(fact.call.position) == ref.split(".")[0]:
                found.append(fact)
            case _:
                pass
    return found


def nth_call(facts: Sequence[AnyFact], ref: CallRef) -> int:
    """The how manieth call of its reply this is, from 0. Words and thoughts may stand before it."""
    reply = facts[ref.position]
    assert isinstance(reply, ModelReplied)
    return sum(isinstance(item, Call) for item in reply.items[: ref.index])


# -- the whole ledger --------------------------------------------------------------------------------------------------


def check_ledger(facts: Sequence[AnyFact]) -> None:
    """No key twice, no attempt twice, no call answered twice."""
    keys = [fact.key for fact in facts if isinstance(fact, MessageReceived | Decided) and fact.key]
    assert len(keys) == len(set(keys)), f"a delivery was recorded twice: {keys}"
    starts = [(fact.call, fact.attempt) for fact in facts if isinstance(fact, CallStarted)]
    assert len(starts) == len(set(starts)), f"an attempt was started twice: {starts}"
    for position, fact in enumerate(facts):
        for index, item in enumerate(fact.items if isinstance(fact, ModelReplied) else ()):
            if isinstance(item, Call):
                answers = answers_of(facts, f"{position}.{index}")
                assert len(answers) <= 1, f"call {position}.{index} ({item.tool}) was answered {len(answers)} times: {answers}"


def check_growth(shown: Sequence[Request]) -> None:
    """Among agents that see everything, each request begins with all of the one before."""
    whole = [conversation(request) for request in shown if policy(request) == "Everything"]
    for before, after in pairwise(whole):
        assert after[: len(before)] == before, f"the past changed.\nbefore:\n{_listed(before)}\nafter:\n{_listed(after)}"


def check_shown(asked: Sequence[Request], shown: Sequence[Request], facts: Sequence[AnyFact]) -> None:
    """A request shown from the ledger is the one that was really asked (of several attempts: the one that was answered)."""
    replies = [fact for fact in facts if isinstance(fact, ModelReplied)]
    for request in asked:
        if request.turn < len(replies):
            reply = replies[request.turn]
            if (reply.agent, reply.upto, reply.frame) == (request.agent, request.upto, request.frame_digest):
                again = shown[request.turn]
                assert (again.frame, again.messages) == (request.frame, request.messages), f"shown otherwise than asked: {request}"


def check_deeds(told: Told, facts: Sequence[AnyFact]) -> None:
    """Nothing was done for a call that never started."""
    started = {str(fact.call) for fact in facts if isinstance(fact, CallStarted)}
    name = facts[0].ledger if facts else ""  # type: ignore[union-attr]
    for key, what in told.world.deeds:
        ledger, _, ref = key.partition(":")
        assert ledger != name or ref in started, f"{what!r} was done for call {ref}, which never started"


# -- reading a request -------------------------------------------------------------------------------------------------


def outputs(request: Request) -> list[str]:
    """The outputs in a request, in order."""
    return [message.text for message in request.messages if message.role == "tool"]


def said(request: Request) -> list[str]:
    """The words in a request, in order: what users and agents said."""
    return [message.text for message in request.messages if message.role != "tool" and message.text and not message.synthetic]


def calls(request: Request) -> list[str]:
    """The names of the tools called, in order."""
    return [call.tool for message in request.messages for call in message.calls]
