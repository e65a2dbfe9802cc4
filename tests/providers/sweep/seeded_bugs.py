"""Bugs on purpose: each breaks an encoder, the stored history or a decoder in one way. The sweep must detect all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec.structs import replace

from legato.core.facts import Call
from legato.providers.formats import call_ids, incremental_encoder
from legato.providers.formats.anthropic import encode as anthropic
from legato.providers.formats.anthropic import thinking_replay
from legato.providers.formats.chat import encode as chat
from legato.providers.formats.responses import decode, stored_history
from legato.providers.formats.responses import encode as responses

Patch = Callable[[Any, str, Any], None]
BUGS: dict[str, Callable[[Patch], None]] = {}


def register_bug(sentence: str) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    def add_bug(make: Callable[[Patch], None]) -> Callable[[Patch], None]:
        BUGS[sentence] = make
        return make

    return add_bug


@contextmanager
def seed_bug(sentence: str) -> Iterator[None]:
    """Patch this bug into the package while the context is active."""
    patches: list[tuple[Any, str, Any]] = []

    def patch(owner: Any, name: str, value: Any) -> None:
        patches.append((owner, name, owner.__dict__[name]))
        setattr(owner, name, value)

    try:
        BUGS[sentence](patch)
        yield
    finally:
        for owner, name, value in reversed(patches):
            setattr(owner, name, value)


# -- requests ----------------------------------------------------------------------------------------------------------


@register_bug("over Responses the last output of a reply is dropped")
def _(patch: Patch) -> None:
    original = responses._GroupEncoder.encode_group

    def encode_group(self: Any, group: Any) -> Any:
        encoded = original(self, group)
        items = msgspec.json.decode(b"[" + encoded.body + b"]")
        if items and items[-1].get("type") == "function_call_output":
            items.pop()
        return replace(encoded, body=msgspec.json.encode(items)[1:-1])

    patch(responses._GroupEncoder, "encode_group", encode_group)


@register_bug("over Chat Completions the outputs of two calls are exchanged")
def _(patch: Patch) -> None:
    original = chat._GroupEncoder.encode_group

    def encode_group(self: Any, group: Any) -> Any:
        encoded = original(self, group)
        messages = msgspec.json.decode(b"[" + encoded.body + b"]")
        outputs = [message for message in messages if message["role"] == "tool"]
        if len(outputs) > 1:
            outputs[0]["content"], outputs[1]["content"] = outputs[1]["content"], outputs[0]["content"]
        return replace(encoded, body=msgspec.json.encode(messages)[1:-1])

    patch(chat._GroupEncoder, "encode_group", encode_group)


@register_bug("a message of the user is sent twice")
def _(patch: Patch) -> None:
    original = anthropic._MessagesEncoder.add_group

    def add_group(self: Any, group: Any, use_own_ids: bool, request: Any) -> None:
        original(self, group, use_own_ids, request)
        if group.kind == "said":
            original(self, group, use_own_ids, request)

    patch(anthropic._MessagesEncoder, "add_group", add_group)


@register_bug("text is sent with the id of its item")
def _(patch: Patch) -> None:
    original = responses._GroupEncoder._encode_reply

    def encode_reply(self: Any, entry: Any) -> Any:
        return [{"id": "msg_1", **item} if item.get("role") == "assistant" else item for item in original(self, entry)]

    patch(responses._GroupEncoder, "_encode_reply", encode_reply)


@register_bug("reasoning is replayed to any model")
def _(patch: Patch) -> None:
    original = responses._InputEncoder.add_group

    def add_group(self: Any, group: Any, use_own_ids: bool, request: Any) -> None:
        self.origin = group.fact.origin if group.fact else ""
        original(self, group, use_own_ids, request)

    patch(responses._InputEncoder, "add_group", add_group)


@register_bug("thinking is replayed whatever stands before it")
def _(patch: Patch) -> None:
    original = thinking_replay.ThinkingReplayPolicy.decide_replay

    def decide_replay(self: Any, group: Any, *more: Any) -> tuple[str, bool]:
        loss, _ = original(self, group, *more)
        return ("" if loss == thinking_replay.PREFIX_CHANGED else loss), True

    patch(thinking_replay.ThinkingReplayPolicy, "decide_replay", decide_replay)


# -- ids ---------------------------------------------------------------------------------------------------------------


@register_bug("repeated ids are kept")
def _(patch: Patch) -> None:
    patch(incremental_encoder.IncrementalEncoder, "_needs_own_ids", lambda self, group: call_ids.find_usable_call_ids(group) is None)


@register_bug("ids that look like Legato's own are kept")
def _(patch: Patch) -> None:
    original = call_ids.is_usable_call_id
    patch(call_ids, "is_usable_call_id", lambda id: original(id.replace("_", "-")))


@register_bug("calls sent by value keep ids that the provider already stores")
def _(patch: Patch) -> None:
    original = stored_history.find_continuation_point

    def find_continuation_point(request: Any, options: Any, history: Any) -> Any:
        continuation = original(request, options, history)
        if continuation.base_id:  # as if only the new groups counted
            for group in request.groups[continuation.group_count :]:
                if call_ids.find_usable_call_ids(group):
                    history.positions_with_own_ids.discard(group.position)
        return continuation

    patch(responses, "find_continuation_point", find_continuation_point)


# -- stored history ----------------------------------------------------------------------------------------------------


@register_bug("an unconfirmed reply is continued")
def _(patch: Patch) -> None:
    original = stored_history.StoredHistory._add_stored_reply

    def add_stored_reply(self: Any, group: Any, fact: Any, has_usable_ids: bool, is_confirmed: bool, in_conversation: bool) -> None:
        original(self, group, fact, has_usable_ids, True, in_conversation)

    patch(stored_history.StoredHistory, "_add_stored_reply", add_stored_reply)


@register_bug("a chain with a repeated id is continued")
def _(patch: Patch) -> None:
    original = stored_history.StoredHistory._add_stored_reply

    def add_stored_reply(self: Any, group: Any, fact: Any, has_usable_ids: bool, is_confirmed: bool, in_conversation: bool) -> None:
        original(self, group, fact, True, is_confirmed, in_conversation)

    patch(stored_history.StoredHistory, "_add_stored_reply", add_stored_reply)


@register_bug("a conversation with unknown contents is used again")
def _(patch: Patch) -> None:
    def find_usable_conversation(request: Any, origin: str) -> str:
        return next(reversed(stored_history.read_stored_history(request, origin).newest_by_conversation), "")

    patch(stored_history, "find_usable_conversation", find_usable_conversation)


# -- caches ------------------------------------------------------------------------------------------------------------


@register_bug("the cached encoder of another view is used")
def _(patch: Patch) -> None:
    cache: dict[str, Any] = {}
    patch(incremental_encoder, "get_group_cache", lambda group: cache)
    patch(incremental_encoder.IncrementalEncoder, "is_prefix_of", lambda self, groups: True)


@register_bug("the cached encoder for other reasoning is used")
def _(patch: Patch) -> None:
    original = incremental_encoder.get_cached_encoder

    def get_cached_encoder(request: Any, key: str, dependencies: Any, make_encoder: Any) -> Any:
        return original(request, key, (), make_encoder)

    patch(responses, "get_cached_encoder", get_cached_encoder)


# -- replies -----------------------------------------------------------------------------------------------------------


@register_bug("of two calls in a reply one is decoded")
def _(patch: Patch) -> None:
    original = decode.decode_reply

    def decode_reply(*arguments: Any, **more: Any) -> Any:
        reply = original(*arguments, **more)
        first = next((item for item in reply.items if isinstance(item, Call)), None)
        return replace(reply, items=tuple(item for item in reply.items if not isinstance(item, Call) or item is first))

    patch(decode, "decode_reply", decode_reply)
