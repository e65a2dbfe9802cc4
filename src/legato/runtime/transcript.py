"""The messages of a conversation, as people read it.

Messages are the texts of users and agents in conversational order: no tool calls, no approvals, no synthetic prompts, and no reply that an
output type or a guardrail has rejected or not checked yet.
"""

from __future__ import annotations

from legato.core.facts import GuardrailJudged
from legato.core.groups import Group, extract_reply_text
from legato.core.messages import Message, to_parts
from legato.core.state import State


def list_messages(state: State, since: int = 0) -> list[Message]:
    """Return the messages that were recorded from position `since` on."""
    messages = []
    answers = _find_guardrail_answers(state) if state.withheld_message_count else {}
    groups = state.groups if state.withheld_message_count else state.groups[_find_first_index(state.groups, since) :]
    for group in (*groups, *state.new_messages, *state.unchecked_messages):
        if group.position >= since and not group.awaits_checks:
            messages.extend(_to_messages(group))
        if group.withheld and answers[group.position].position >= since:
            messages.append(answers[group.position])
    return messages


def _find_first_index(groups: list[Group], since: int) -> int:
    """Return the index behind the last reply before `since`. That reply saw all groups before it, so they are older than `since`."""
    index = len(groups)
    while index and not (groups[index - 1].kind == "reply" and groups[index - 1].position < since):
        index -= 1
    return index


def list_accepted_messages(state: State) -> list[Message]:
    """Return the messages that no guardrail withholds or has yet to check. User code may pass them on to models."""
    return [message for group in (*state.groups, *state.new_messages) if not group.withheld for message in _to_messages(group)]


def _find_guardrail_answers(state: State) -> dict[int, Message]:
    """Return the guardrails' answers to the messages that they withhold, by the positions of these messages."""
    return {
        fact.position: Message(role="assistant", parts=to_parts(fact.reason), author_name=fact.guardrail, position=position)
        for position, fact in enumerate(state.facts)
        if isinstance(fact, GuardrailJudged) and fact.kind == "input" and fact.stop
    }


def _to_messages(group: Group) -> list[Message]:
    if group.kind == "said":
        return [Message(role="user", parts=to_parts(group.content), author_name=group.author, position=group.position)]
    if group.fact is not None and not group.rejected and (text := extract_reply_text(group.fact)):
        return [Message(role="assistant", parts=to_parts(text), author_name=group.agent, position=group.position)]
    return []
