"""Checks that every story must pass, written without Legato's views.

The transcript is computed here a second time, from the bare facts and as simply as possible, so that the checks find mistakes in the
library's views. The checks: each call has exactly one output, directly after its reply and in call order; the request to an agent that sees
everything is exactly the transcript so far, each message once and in order; each request begins with all of the request before it; and
a request rebuilt from the ledger equals the one that was sent.
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
    OutputText,
    Refusal,
    Text,
)
from legato.core.messages import Message
from legato.core.view import ModelRequest
from legato.runtime.session import Session
from legato.testing.story import StoryResult

Line: TypeAlias = tuple[Any, ...]
"""One message as plain data: its author and its content."""


async def check_story(result: StoryResult) -> list[ModelRequest]:
    """Check the promises for a story that was played, and return the request behind each reply, in order."""
    await result.session.refresh()
    facts = result.session.facts
    ledgers = {result.session.id: facts}
    for request in result.requests:
        if request.session_id not in ledgers:  # a request of a child session
            ledgers[request.session_id] = list(await result.session.store.read(request.session_id))
        check_request(request, ledgers[request.session_id])
    rebuilt = await rebuild_requests(result.session)
    check_growth(rebuilt)
    check_rebuilt_requests([request for request in result.requests if request.session_id == result.session.id], rebuilt, facts)
    for each in ledgers.values():
        check_ledger(each)
        check_deeds(result, each)
    return rebuilt


async def rebuild_requests(session: Session) -> list[ModelRequest]:
    """Return the request behind each reply of a session, rebuilt from the ledger and checked."""
    await session.refresh()
    facts = session.facts
    requests = [await session.seen(number) for number in range(sum(isinstance(fact, ModelReplied) for fact in facts))]
    for request in requests:
        check_request(request, facts)
    return requests


# -- one request -------------------------------------------------------------------------------------------------------


def check_request(request: ModelRequest, facts: Sequence[AnyFact]) -> None:
    """Check that calls have outputs, and that the request is the transcript or a selection of it."""
    check_pairs(request.messages)
    lines = list_lines(request)
    whole = build_transcript(facts, request.upto)
    if get_policy_name(request) == "Everything":
        assert lines == whole, _describe_difference(request, lines, whole)
    else:
        _check_selection(request, lines, whole)
    for message in request.messages:
        if message.role == "tool":
            _check_output(message, facts)


def check_pairs(messages: Sequence[Message]) -> None:
    """Check that each call has exactly one output, before any other message, in call order; and no output is without its call."""
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


def list_lines(request: ModelRequest) -> list[Line]:
    """Return the messages of a request without those that its turn context and a summary add."""
    added = len(request.turn_context.messages) + bool(request.summary)
    return [_to_line(message) for message in request.messages[added:]]


def get_policy_name(request: ModelRequest) -> str:
    return type(request.turn_context.history).__name__


def _to_line(message: Message) -> Line:
    match message.role:
        case "user":
            return ("prompt",) if message.synthetic else ("user", message.parts)
        case "assistant":
            return "assistant", message.text, tuple((call.id, call.tool, call.arguments) for call in message.calls)
        case _:
            return "tool", message.call


# -- the transcript, from bare facts -----------------------------------------------------------------------------------


def build_transcript(facts: Sequence[AnyFact], upto: int) -> list[Line]:
    """Return the conversation up to a position, as an agent that sees everything must receive it."""
    facts = facts[: upto + 1]
    withheld = {fact.position for fact in facts if isinstance(fact, GuardrailJudged) and fact.kind == "input" and fact.stop}
    lines: list[Line] = []
    waiting: list[tuple[int, Line]] = []  # messages that no request has included yet
    for position, fact in enumerate(facts):
        match fact:
            case MessageReceived() if position not in withheld:
                waiting.append((position, ("user", _to_parts(fact.content))))
            case AgentPrompted():
                lines.append(("prompt",))
            case GuardrailJudged(kind="output", stop=True):
                lines.append(("prompt",))
            case ModelReplied():
                lines += [line for at, line in waiting if at <= fact.upto]
                waiting = [(at, line) for at, line in waiting if at > fact.upto]
                calls = [(f"{position}.{index}", item) for index, item in enumerate(fact.items) if isinstance(item, Call)]
                text = "\n".join(item.text for item in fact.items if isinstance(item, OutputText | Refusal))
                if fact.items:
                    lines.append(("assistant", text, tuple((id, call.tool, call.arguments) for id, call in calls)))
                lines += [("tool", id) for id, _ in calls]
            case _:
                pass
    return lines + [line for _, line in waiting]


def _to_parts(content: Content) -> tuple[Any, ...]:
    return (Text(content),) if isinstance(content, str) else content


def _check_selection(request: ModelRequest, lines: list[Line], whole: list[Line]) -> None:
    """Check a selection by a policy: it may leave out messages and tool traffic, and may not invent, repeat or reorder."""
    rest = iter(whole)
    for line in lines:
        without_text = line[:2] if line[0] == "assistant" and not line[2] else None
        is_next = any(other == line or (without_text is not None and other[:2] == without_text) for other in rest)
        assert is_next, f"the request of {request.agent} has {line}, which is not next in the conversation.\n" + _format_lines(whole)


def _describe_difference(request: ModelRequest, lines: list[Line], whole: list[Line]) -> str:
    summary = f"request number {request.reply_count} (of {request.agent}, up to {request.upto}) is not the conversation"
    return f"{summary}\nrequest:\n{_format_lines(lines)}\nconversation:\n{_format_lines(whole)}"


def _format_lines(lines: list[Line]) -> str:
    return "\n".join(f"  {line}" for line in lines)


# -- outputs -----------------------------------------------------------------------------------------------------------


def _check_output(message: Message, facts: Sequence[AnyFact]) -> None:
    """Check that the output of a call in a request is its recorded outcome."""
    answers = find_answers(facts, message.call)
    assert len(answers) == 1, f"call {message.call} was answered by {answers}"
    text = message.text
    match answers[0]:
        case CallReturned(output=output) | Decided(verdict="answer", output=output):
            assert str(output) in text, f"{message.call}: {output!r} is missing in {text!r}"
        case Decided(reason=reason) | GuardrailJudged(reason=reason):
            assert reason in text, f"{message.call}: {reason!r} is missing in {text!r}"
        case HandedOff(target=target):
            assert target in text, f"{message.call}: {target!r} is missing in {text!r}"


def find_answers(facts: Sequence[AnyFact], ref: str) -> list[AnyFact]:
    """Return the facts that answer a call. A handoff answers the rest of its batch."""
    answers: list[AnyFact] = []
    for fact in facts:
        match fact:
            case CallReturned(late=False) if str(fact.call) == ref:
                answers.append(fact)
            case Decided(verdict="reject" | "answer") if str(fact.call) == ref:
                answers.append(fact)
            case GuardrailJudged(kind="tool", stop=True) if f"{fact.position}.{fact.index}" == ref:
                answers.append(fact)
            case HandedOff() if not answers and str(fact.call.position) == ref.split(".")[0]:
                answers.append(fact)
            case _:
                pass
    return answers


def find_call_number(facts: Sequence[AnyFact], ref: CallRef) -> int:
    """Return the number of a call among the calls of its reply, from 0. Text and reasoning may come before it."""
    reply = facts[ref.position]
    assert isinstance(reply, ModelReplied)
    return sum(isinstance(item, Call) for item in reply.items[: ref.index])


# -- the whole ledger --------------------------------------------------------------------------------------------------


def check_ledger(facts: Sequence[AnyFact]) -> None:
    """Check that no delivery key, no attempt and no answer to a call is recorded twice."""
    keys = [fact.key for fact in facts if isinstance(fact, MessageReceived | Decided) and fact.key]
    assert len(keys) == len(set(keys)), f"a delivery was recorded twice: {keys}"
    starts = [(fact.call, fact.attempt) for fact in facts if isinstance(fact, CallStarted)]
    assert len(starts) == len(set(starts)), f"an attempt was started twice: {starts}"
    for position, fact in enumerate(facts):
        for index, item in enumerate(fact.items if isinstance(fact, ModelReplied) else ()):
            if isinstance(item, Call):
                answers = find_answers(facts, f"{position}.{index}")
                assert len(answers) <= 1, f"call {position}.{index} ({item.tool}) was answered {len(answers)} times: {answers}"


def check_growth(requests: Sequence[ModelRequest]) -> None:
    """Check that among agents that see everything, each request begins with all of the one before."""
    whole = [list_lines(request) for request in requests if get_policy_name(request) == "Everything"]
    for before, after in pairwise(whole):
        assert after[: len(before)] == before, f"the past changed.\nbefore:\n{_format_lines(before)}\nafter:\n{_format_lines(after)}"


def check_rebuilt_requests(requests: Sequence[ModelRequest], rebuilt: Sequence[ModelRequest], facts: Sequence[AnyFact]) -> None:
    """Check that a rebuilt request equals the one that was sent (of several attempts, the one with a reply)."""
    replies = [fact for fact in facts if isinstance(fact, ModelReplied)]
    for request in requests:
        if request.reply_count < len(replies):
            reply = replies[request.reply_count]
            if (reply.agent, reply.upto, reply.context_digest) == (request.agent, request.upto, request.context_digest):
                again = rebuilt[request.reply_count]
                assert (again.turn_context, again.messages) == (request.turn_context, request.messages), (
                    f"the rebuilt request differs: {request}"
                )


def check_deeds(result: StoryResult, facts: Sequence[AnyFact]) -> None:
    """Check that no tool had an effect for a call that never started."""
    started = {str(fact.call) for fact in facts if isinstance(fact, CallStarted)}
    name = facts[0].ledger_id if facts else ""  # type: ignore[union-attr]
    for key, deed in result.world.effects:
        ledger, _, ref = key.partition(":")
        assert ledger != name or ref in started, f"{deed!r} was done for call {ref}, which never started"


# -- reading a request -------------------------------------------------------------------------------------------------


def list_outputs(request: ModelRequest) -> list[str]:
    """Return the outputs in a request, in order."""
    return [message.text for message in request.messages if message.role == "tool"]


def list_texts(request: ModelRequest) -> list[str]:
    """Return the texts of users and agents in a request, in order."""
    return [message.text for message in request.messages if message.role != "tool" and message.text and not message.synthetic]


def list_called_tools(request: ModelRequest) -> list[str]:
    """Return the names of the called tools, in order."""
    return [call.tool for message in request.messages for call in message.calls]
