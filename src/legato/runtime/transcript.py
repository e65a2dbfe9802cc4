"""The conversation as people read it. May know: the state. Decides: what counts as a message.

Messages are what users and agents said to each other, in conversational order: no tool traffic, no approvals, no synthetic prompts,
and no reply that its output type or a guardrail did not accept, or has yet to judge.
"""

from __future__ import annotations

from legato.core.facts import GuardrailJudged
from legato.core.groups import Group, spoken
from legato.core.messages import Message, parts_of
from legato.core.state import State


def messages_of(state: State, since: int = 0) -> list[Message]:
    """The messages recorded from position `since` on."""
    messages = []
    answers = _answers_of_guardrails(state) if state.withheld else {}
    groups = state.groups if state.withheld else state.groups[_first(state.groups, since) :]
    for group in (*groups, *state.tail, *state.waiting):
        if group.position >= since and not group.unjudged:
            messages.extend(_messages(group))
        if group.blocked and answers[group.position].position >= since:
            messages.append(answers[group.position])
    return messages


def _first(groups: list[Group], since: int) -> int:
    """Where to look for what was recorded from `since` on: behind the last reply before it, which had seen all that stands before it."""
    index = len(groups)
    while index and not (groups[index - 1].kind == "reply" and groups[index - 1].position < since):
        index -= 1
    return index


def accepted_messages(state: State) -> list[Message]:
    """The messages without those that a guardrail withholds, or has yet to judge: what user code may pass on to models."""
    return [message for group in (*state.groups, *state.tail) if not group.blocked for message in _messages(group)]


def _answers_of_guardrails(state: State) -> dict[int, Message]:
    """A guardrail that withheld a message answered it in its own words: by the position of that message."""
    return {
        fact.position: Message(role="assistant", parts=parts_of(fact.words), author_name=fact.by, position=position)
        for position, fact in enumerate(state.facts)
        if isinstance(fact, GuardrailJudged) and fact.kind == "input" and fact.stop
    }


def _messages(group: Group) -> list[Message]:
    if group.kind == "said":
        return [Message(role="user", parts=parts_of(group.content), author_name=group.author, position=group.position)]
    if group.fact is not None and not group.rejected and (words := spoken(group.fact)):
        return [Message(role="assistant", parts=parts_of(words), author_name=group.agent, position=group.position)]
    return []
