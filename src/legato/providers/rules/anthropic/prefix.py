"""What stood before a block. May know: hashes. Decides: what counts as the same prefix, and what does not.

A thinking block of a model with preserved thinking is bound to everything before it: `system`, `tools` and all earlier blocks. Two
prefixes are the same if the model saw the same: it makes no difference where `cache_control` stands, whether a message is one or
several of the same role (they are merged), whether a content is a string or one text block, whether a member is null or missing, and
whether it has its default or is missing. A compaction block stands for all before it, so there the messages begin anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

# A client may leave these out of what it was sent without changing what the model saw.
_DEFAULTS: dict[str, Any] = {"is_error": False, "caller": {"type": "direct"}}
_JSON = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_NESTED = 3  # how deep blocks lie within blocks: a result, its document, the document's text


def thinking_digest(text: str) -> str:
    """The digest of a thinking block's text, which its signature vouches for."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def blocks_of(content: Any) -> list[Any]:
    """A content as blocks.

    >>> blocks_of("Hello"), blocks_of("")
    ([{'type': 'text', 'text': 'Hello'}], [])
    """
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content if isinstance(content, list) else []


class Prefix:
    """Everything up to a place in a conversation. Blocks are added one by one, so that all digests of a request cost one pass."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._frame = blake2b(digest_size=16)
        for block in blocks_of(request.get("system")):
            self._put(self._frame, "system prompt", _canonical(block))
        tools = request.get("tools")
        for tool in tools if isinstance(tools, list) else ():
            self._put(self._frame, "tool", _canonical(tool, custom=True))
        self._now = self._frame.copy()

    @staticmethod
    def _put(onto: blake2b, role: str, thing: Any) -> None:
        text = spelled(thing)
        onto.update(f"{len(role)}:{role}{len(text)}:{text}".encode("utf-8", "surrogatepass"))

    def add(self, role: str, block: Any) -> None:
        """One more block."""
        if isinstance(block, dict) and block.get("type") == "compaction":
            if block.get("content") is None:
                return  # a compaction that failed
            self._now = self._frame.copy()
        self._put(self._now, role, _canonical(block))

    def digest(self) -> str:
        """The digest of all so far."""
        return self._now.hexdigest()


def prefix_digest(request: dict[str, Any], message_index: int, block_index: int) -> str:
    """The digest of everything before a block of a request."""
    prefix = Prefix(request)
    for index, role, block in _blocks(request):
        if index >= (message_index, block_index):
            break
        prefix.add(role, block)
    return prefix.digest()


def reply_prefix_digest(request: dict[str, Any], blocks_before: list[dict[str, Any]]) -> str:
    """The digest of everything before a block of the reply to a request: what its signature is to be bound to.

    When the reply comes back as an assistant's message after the messages it answered, `prefix_digest` at that block is the same.
    """
    prefix = Prefix(request)
    for _, role, block in _blocks(request):
        prefix.add(role, block)
    for block in blocks_before:
        prefix.add("assistant", block)
    return prefix.digest()


def _blocks(request: dict[str, Any]) -> Iterator[tuple[tuple[int, int], str, Any]]:
    messages = request.get("messages")
    for index, message in enumerate(messages if isinstance(messages, list) else ()):
        if isinstance(message, dict):
            role = message.get("role")
            for number, block in enumerate(blocks_of(message.get("content"))):
                yield (index, number), role if isinstance(role, str) else "", block


def _canonical(thing: Any, *, custom: bool = False, depth: int = 0) -> Any:
    if not isinstance(thing, dict):
        return thing
    kept = {
        name: value
        for name, value in thing.items()
        if value is not None and name != "cache_control" and not (name in _DEFAULTS and value == _DEFAULTS[name])
    }
    if custom and kept.get("type") == "custom":
        del kept["type"]
    content = kept.get("content")
    if isinstance(content, list) or kept.get("type") == "tool_result":
        kept["content"] = [_canonical(block, depth=depth + 1) for block in blocks_of(content)] if depth < _NESTED else content
    return kept


def spelled(value: Any) -> str:
    """JSON with sorted keys, whatever the depth."""
    try:
        return _JSON.encode(value)
    except RecursionError:
        return "".join(spelled_flat(value))


def spelled_flat(value: Any) -> Iterator[str]:
    """The same text without recursion: whether Python's frames suffice depends on who asks, the digest must not."""
    waiting: list[tuple[bool, Any]] = [(False, value)]  # (whether it is text already, what)
    while waiting:
        done, item = waiting.pop()
        if done:
            yield item
        elif isinstance(item, dict):
            waiting.append((True, "}"))
            for number, name in reversed(list(enumerate(sorted(item)))):
                waiting += [(False, item[name]), (True, f"{',' if number else ''}{json.dumps(name)}:")]
            yield "{"
        elif isinstance(item, list | tuple):
            waiting.append((True, "]"))
            for number, member in reversed(list(enumerate(item))):
                waiting += [(False, member), (True, "," if number else "")]
            yield "["
        else:
            yield json.dumps(item)
