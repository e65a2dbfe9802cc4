"""Bugs, on purpose: each breaks a compiler, a proof or a reader in one way. A sweep that does not see it is blind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec.structs import replace

from legato.core.facts import Call
from legato.providers.formats import calls, course
from legato.providers.formats.anthropic import compile as anthropic
from legato.providers.formats.anthropic import past as anthropic_past
from legato.providers.formats.chat import compile as chat
from legato.providers.formats.responses import compile as responses
from legato.providers.formats.responses import past, read

Patch = Callable[[Any, str, Any], None]
BUGS: dict[str, Callable[[Patch], None]] = {}


def bug(sentence: str) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    def register(make: Callable[[Patch], None]) -> Callable[[Patch], None]:
        BUGS[sentence] = make
        return make

    return register


@contextmanager
def seeded(sentence: str) -> Iterator[None]:
    """While active, the package has this bug."""
    undo: list[tuple[Any, str, Any]] = []

    def patch(owner: Any, name: str, value: Any) -> None:
        undo.append((owner, name, owner.__dict__[name]))
        setattr(owner, name, value)

    try:
        BUGS[sentence](patch)
        yield
    finally:
        for owner, name, value in reversed(undo):
            setattr(owner, name, value)


# -- what is sent ------------------------------------------------------------------------------------------------------


@bug("over Responses the last output of a reply is dropped")
def _(patch: Patch) -> None:
    before = responses._Writing.write

    def write(self: Any, group: Any) -> Any:
        fragment = before(self, group)
        items = msgspec.json.decode(b"[" + fragment.body + b"]")
        if items and items[-1].get("type") == "function_call_output":
            items.pop()
        return replace(fragment, body=msgspec.json.encode(items)[1:-1])

    patch(responses._Writing, "write", write)


@bug("over Chat Completions the outputs of two calls are exchanged")
def _(patch: Patch) -> None:
    before = chat._Writing.fragment

    def fragment(self: Any, group: Any) -> Any:
        made = before(self, group)
        messages = msgspec.json.decode(b"[" + made.body + b"]")
        outputs = [message for message in messages if message["role"] == "tool"]
        if len(outputs) > 1:
            outputs[0]["content"], outputs[1]["content"] = outputs[1]["content"], outputs[0]["content"]
        return replace(made, body=msgspec.json.encode(messages)[1:-1])

    patch(chat._Writing, "fragment", fragment)


@bug("a message of the user is sent twice")
def _(patch: Patch) -> None:
    before = anthropic._Conversation.add

    def add(self: Any, group: Any, own: bool, request: Any) -> None:
        before(self, group, own, request)
        if group.kind == "said":
            before(self, group, own, request)

    patch(anthropic._Conversation, "add", add)


@bug("words are sent with the id of their item")
def _(patch: Patch) -> None:
    before = responses._Writing._reply

    def reply(self: Any, entry: Any) -> Any:
        return [{"id": "msg_1", **item} if item.get("role") == "assistant" else item for item in before(self, entry)]

    patch(responses._Writing, "_reply", reply)


@bug("reasoning goes back to whoever asks")
def _(patch: Patch) -> None:
    before = responses._Written.add

    def add(self: Any, group: Any, own: bool, request: Any) -> None:
        self.origin = group.fact.origin if group.fact else ""
        before(self, group, own, request)

    patch(responses._Written, "add", add)


@bug("thinking goes back whatever stands before it")
def _(patch: Patch) -> None:
    before = anthropic_past.Replay.of

    def of(self: Any, group: Any, *more: Any) -> tuple[str, bool]:
        withheld, _ = before(self, group, *more)
        return ("" if withheld == anthropic_past.MOVED else withheld), True

    patch(anthropic_past.Replay, "of", of)


# -- ids ---------------------------------------------------------------------------------------------------------------


@bug("ids that come twice are kept")
def _(patch: Patch) -> None:
    patch(course.Course, "_gets_own_ids", lambda self, group: calls.usable_ids(group) is None)


@bug("ids that look like ours are kept")
def _(patch: Patch) -> None:
    before = calls.is_wire_id
    patch(calls, "is_wire_id", lambda id: before(id.replace("_", "-")))


@bug("what is sent by value keeps ids that the provider holds already")
def _(patch: Patch) -> None:
    before = past.past_of

    def past_of(request: Any, options: Any, proof: Any) -> Any:
        found = before(request, options, proof)
        if found.base:  # as if only what is new were looked at
            for group in request.groups[found.groups :]:
                if calls.usable_ids(group):
                    proof.own.discard(group.position)
        return found

    patch(responses, "past_of", past_of)


# -- what the provider holds -------------------------------------------------------------------------------------------


@bug("a reply is gone on from without proof")
def _(patch: Patch) -> None:
    before = past.Proof._link
    patch(past.Proof, "_link", lambda self, group, fact, sound, proved: before(self, group, fact, sound, True))


@bug("a chain is gone on with in which an id comes twice")
def _(patch: Patch) -> None:
    before = past.Proof._link
    patch(past.Proof, "_link", lambda self, group, fact, sound, proved: before(self, group, fact, True, proved))


@bug("a conversation is used again of which nobody knows what it holds")
def _(patch: Patch) -> None:
    patch(past, "usable_conversation", lambda request, origin: next(reversed(past.proof_of(request, origin).conversations), ""))


# -- what is kept ------------------------------------------------------------------------------------------------------


@bug("what was kept of another view is taken for the beginning of this one")
def _(patch: Patch) -> None:
    kept: dict[str, Any] = {}
    patch(course, "cache_of", lambda group: kept)
    patch(course.Course, "begins", lambda self, groups: True)


@bug("what was kept for other reasoning is taken for this request")
def _(patch: Patch) -> None:
    before = course.course_of

    def course_of(request: Any, key: str, about: Any, begin: Any) -> Any:
        return before(request, key, (), begin)

    patch(responses, "course_of", course_of)


# -- what is read ------------------------------------------------------------------------------------------------------


@bug("of two calls in a reply one is read")
def _(patch: Patch) -> None:
    before = read.read_reply

    def read_reply(*given: Any, **more: Any) -> Any:
        reply = before(*given, **more)
        first = next((item for item in reply.items if isinstance(item, Call)), None)
        return replace(reply, items=tuple(item for item in reply.items if not isinstance(item, Call) or item is first))

    patch(read, "read_reply", read_reply)
