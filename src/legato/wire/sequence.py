"""What was said, as a sequence that can be compared. May know: groups. Decides: when a provider holds a prefix of what is to be sent.

A conversation is a sequence of *elements*: a message, a reply, the outputs of a reply's calls. Each has a digest of what it says,
without provider ids and without reasoning. What a provider holds after a reply is the sequence up to that reply; its digest is
recorded with it (`Answered.held`). A later request may go on from there if the sequence it is to send begins with exactly that.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from legato.core.digest import digest_bytes
from legato.core.facts import Item, Reasoning
from legato.core.groups import AssistantEntry, Group, OutputEntry
from legato.core.view import Request

_encoder = msgspec.json.Encoder(order="deterministic")
_KEY = "sequence"


def elements(group: Group) -> tuple[bytes, ...]:
    """The digests of a group's elements: one for a message, two for a reply with calls."""
    found: tuple[bytes, ...] | None = group.wire.get(_KEY)
    if found is None:
        found = tuple(_elements(group))
        if group.complete:
            group.wire[_KEY] = found
    return found


def _elements(group: Group) -> list[bytes]:
    said: list[object] = []
    outputs: list[object] = []
    for entry in group.entries:
        if isinstance(entry, AssistantEntry):
            said.append([_plain(item) for item in entry.items if not isinstance(item, Reasoning)])
        elif isinstance(entry, OutputEntry):
            outputs.append([entry.ref.index, entry.content])
        else:
            said.append(entry.content)
    digests = [_digest([group.kind, said])]
    return [*digests, _digest(outputs)] if outputs else digests


def _digest(what: object) -> bytes:
    return digest_bytes(_encoder.encode(what)).encode()


def _plain(item: object) -> object:
    plain = msgspec.to_builtins(item)
    return {name: value for name, value in plain.items() if name not in ("item_id", "call_id")}


def held(digests: Sequence[bytes]) -> str:
    """The digest of a sequence."""
    return digest_bytes(b"\n".join(digests))


def sequence(request: Request) -> list[bytes]:
    """What a request is to say, whole. A summary stands first, as it does in the request."""
    digests = [_digest(["summary", request.summary])] if request.summary else []
    for group in request.groups:
        digests += elements(group)
    return digests


def after_reply(digests: Sequence[bytes], items: Sequence[Item]) -> str:
    """The digest of what the provider holds once it has replied to this sequence with these items."""
    reply = _digest(["reply", [[_plain(item) for item in items if not isinstance(item, Reasoning)]]])
    return held([*digests, reply])
