"""Digests of a conversation's history, for comparing it with the history that a provider stores.

A history is a sequence of *elements*: a message, a reply, the outputs of a reply's calls. The digest of an element covers its content
without item ids and without reasoning. Call ids are included, because they pair calls and outputs. The digest of a history combines the
digest of the history before its last element with the digest of that element, so it is extended as the conversation grows. After a
reply, the provider stores the history up to that reply, and the digest is recorded with the reply (`ModelReplied.stored_digest`). One
comparison of digests then shows whether the stored history is a prefix of the history that a request has to send.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from legato.core.digests import digest_bytes
from legato.core.facts import Call, HostedToolUse, OutputText, Refusal, ReplyItem
from legato.core.groups import AssistantEntry, Group, OutputEntry
from legato.providers.formats.group_cache import get_group_cache

_encoder = msgspec.json.Encoder(order="deterministic")
_KEY = "history digests"


def make_initial_digest(summary: str) -> str:
    """Return the digest of an empty history, or of a summary of earlier history."""
    return _digest_value(["summary", summary] if summary else [])


def extend_digest(digest: str, group: Group) -> tuple[str, str]:
    """Return the digest extended by a group's messages or reply, and the same extended by the outputs of its calls."""
    cache = get_group_cache(group)
    element_digests: tuple[str, str] | None = cache.get(_KEY)
    if element_digests is None:
        element_digests = cache[_KEY] = _digest_elements(group)
    with_reply = _append(digest, element_digests[0])
    return with_reply, _append(with_reply, element_digests[1]) if element_digests[1] else with_reply


def extend_digest_with_reply(digest: str, items: Sequence[ReplyItem]) -> str:
    """Return the digest of the history that the provider stores after it replied to this history with these items."""
    return _append(digest, _digest_value(["reply", [_make_comparable_items(items)]]))


def _append(digest: str, element_digest: str) -> str:
    return digest_bytes((digest + element_digest).encode())


def _digest_value(value: object) -> str:
    return digest_bytes(_encoder.encode(value))


def _digest_elements(group: Group) -> tuple[str, str]:
    """Return the digests of a group's content and of the outputs of its calls, which is empty if it has none."""
    content: list[object] = []
    outputs: list[object] = []
    for entry in group.entries:
        if isinstance(entry, AssistantEntry):
            content.append(_make_comparable_items(entry.items))
        elif isinstance(entry, OutputEntry):
            outputs.append([entry.ref.index, entry.content])
        else:
            content.append(entry.content)
    return _digest_value([group.kind, content]), _digest_value(outputs) if outputs else ""


def _make_comparable_items(items: Sequence[ReplyItem]) -> list[object]:
    plain: list[object] = []
    for item in items:
        match item:
            case OutputText(text=text, citations=notes):
                plain.append(["words", text, notes])
            case Call():
                plain.append(["call", item.tool, item.arguments, item.call_id])
            case Refusal(text=text):
                plain.append(["refusal", text])
            case HostedToolUse(kind=kind, body=body):
                plain.append(["hosted", kind, body])
    return plain
