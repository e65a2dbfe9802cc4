"""The conversation as people read it. May know: the state. Decides: what counts as a message.

Messages are what users and agents said to each other, in conversational order: no tool traffic, no approvals, no synthetic prompts,
and no reply that its output type or a guardrail did not accept.
"""

from __future__ import annotations

from legato.core.facts import Judged
from legato.core.groups import Group, spoken
from legato.core.messages import Message, parts_of
from legato.core.state import State


def messages_of(state: State, since: int = 0) -> list[Message]:
    """The messages recorded from position `since` on."""
    messages = []
    for group in (*state.groups, *state.tail):
        if group.position >= since:
            messages.extend(_messages(group))
    if state.withheld:
        # A guardrail that withheld a message answered it in its own words.
        messages += [
            Message(role="assistant", parts=parts_of(fact.words), author_name=fact.by, position=position)
            for position, fact in enumerate(state.facts[since:], since)
            if isinstance(fact, Judged) and fact.kind == "input" and fact.stop
        ]
        messages.sort(key=lambda message: message.position)
    return messages


def _messages(group: Group) -> list[Message]:
    if group.kind == "said":
        return [Message(role="user", parts=parts_of(group.content), author_name=group.author, position=group.position)]
    if group.fact is not None and not group.rejected and (words := spoken(group.fact)):
        return [Message(role="assistant", parts=parts_of(words), author_name=group.agent, position=group.position)]
    return []
