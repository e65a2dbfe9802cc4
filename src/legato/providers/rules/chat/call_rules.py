"""The rules about calls and the tool messages that answer them."""

from __future__ import annotations

from collections.abc import Iterator

from legato.providers.rules.chat.check_order import CALLS, RULES
from legato.providers.rules.chat.messages import MessageWithCalls, ToolMessage, list_unanswered_ids
from legato.providers.rules.chat.request_context import ChatContext
from legato.providers.rules.rule_set import Finding


@RULES.rule("C2", "A tool message follows a message with calls.", CALLS, grade="B", as_of="2026-11")
def tool_message_follows_calls(context: ChatContext, subject: ToolMessage | MessageWithCalls) -> Iterator[Finding]:
    if isinstance(subject, ToolMessage) and subject.preceding_ids is None:
        message = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
        yield Finding(message, param=f"messages.[{subject.index}].role", path=f"messages[{subject.index}]")


@RULES.rule("C2b", "A tool message answers a call of the message before it.", CALLS, grade="B", as_of="2026-11")
def tool_message_has_its_call(context: ChatContext, subject: ToolMessage | MessageWithCalls) -> Iterator[Finding]:
    if isinstance(subject, ToolMessage) and subject.preceding_ids is not None and subject.call_id not in subject.preceding_ids:
        yield _invalid_call_id(subject, f"'tool_call_id' of '{subject.call_id}' not found in 'tool_calls' of previous message.")


@RULES.rule("C14", "A call is answered once.", CALLS, grade="D", as_of="2026-11", switch="duplicate_answers")
def call_is_answered_once(context: ChatContext, subject: ToolMessage | MessageWithCalls) -> Iterator[Finding]:
    if isinstance(subject, ToolMessage) and subject.is_repeated:  # Legato's own words: the API's were never seen
        yield _invalid_call_id(subject, f"'tool_call_id' of '{subject.call_id}' was already answered by an earlier message.")


def _invalid_call_id(message: ToolMessage, problem: str) -> Finding:
    param, path = f"messages.[{message.index}].tool_call_id", f"messages[{message.index}].tool_call_id"
    return Finding(f"Invalid parameter: {problem}", param=param, path=path)


@RULES.rule("C1", "All calls of a message are answered directly after it.", CALLS, grade="B", as_of="2026-11")
def calls_are_answered(context: ChatContext, subject: ToolMessage | MessageWithCalls) -> Iterator[Finding]:
    if isinstance(subject, MessageWithCalls) and (ids := list_unanswered_ids(subject)):
        message = "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
        note = context.switches.pairing_note or f"The following tool_call_ids did not have response messages: {', '.join(ids)}"
        # Seen with the index of the message in place of the missing tool message, and with `messages` at the end of the conversation.
        param = "messages" if subject.next_index is None else f"messages.[{subject.next_index}].role"
        yield Finding(f"{message} {note}", param=param, path=f"messages[{subject.index}]")


RULES.add_permission("CA1", "A message's calls may be answered in any order.", grade="A", as_of="2026-07", phase=CALLS)
