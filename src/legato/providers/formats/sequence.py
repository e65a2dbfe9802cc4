"""What was said, as a sequence that can be compared. May know: groups. Decides: when a provider holds a prefix of what is to be sent.

A conversation is a sequence of *elements*: a message, a reply, the outputs of a reply's calls. Each has a digest of what it says,
without the ids of items and without reasoning; the ids of calls are part of it, because calls and outputs are told apart by them.
The digest of a sequence is that of the sequence before its last element, and of that element. So it grows with the conversation, and
one comparison tells whether a provider holds exactly what a request begins with: what it holds after a reply is the sequence up to
that reply, and its digest is recorded with it (`ModelReplied.held`).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from legato.core.digests import digest_bytes
from legato.core.facts import Call, Hosted, Item, Refusal, Words
from legato.core.groups import AssistantEntry, Group, OutputEntry
from legato.providers.formats.group_cache import cache_of

_encoder = msgspec.json.Encoder(order="deterministic")
_KEY = "sequence"


def opening(summary: str) -> str:
    """The digest of a sequence of which nothing is said yet, but for a summary of what was before."""
    return _digest(["summary", summary] if summary else [])


def after(before: str, group: Group) -> tuple[str, str]:
    """The digest of a sequence with what a group says, and then with the outputs of its calls, too."""
    cache = cache_of(group)
    found: tuple[str, str] | None = cache.get(_KEY)
    if found is None:
        found = cache[_KEY] = _elements(group)
    said = _and(before, found[0])
    return said, _and(said, found[1]) if found[1] else said


def after_reply(before: str, items: Sequence[Item]) -> str:
    """The digest of what the provider holds once it has replied to this sequence with these items."""
    return _and(before, _digest(["reply", [_plain(items)]]))


def _and(before: str, element: str) -> str:
    return digest_bytes((before + element).encode())


def _digest(what: object) -> str:
    return digest_bytes(_encoder.encode(what))


def _elements(group: Group) -> tuple[str, str]:
    """The digests of what a group says, and of the outputs of its calls if it has any."""
    said: list[object] = []
    outputs: list[object] = []
    for entry in group.entries:
        if isinstance(entry, AssistantEntry):
            said.append(_plain(entry.items))
        elif isinstance(entry, OutputEntry):
            outputs.append([entry.ref.index, entry.content])
        else:
            said.append(entry.content)
    return _digest([group.kind, said]), _digest(outputs) if outputs else ""


def _plain(items: Sequence[Item]) -> list[object]:
    plain: list[object] = []
    for item in items:
        match item:
            case Words(text=text, notes=notes):
                plain.append(["words", text, notes])
            case Call():
                plain.append(["call", item.tool, item.arguments, item.call_id])
            case Refusal(text=text):
                plain.append(["refusal", text])
            case Hosted(kind=kind, body=body):
                plain.append(["hosted", kind, body])
    return plain
