"""Digests of a block's prefix: of everything before it in the request.

A thinking block of a model with preserved thinking is bound to its prefix: `system`, `tools` and all earlier blocks. Two prefixes are the
same if the model saw the same. These make no difference: where `cache_control` is; one message or several of the same role (they are
merged); a string or one text block as the content; a member that is null, has its default, or is absent. A compaction block replaces
everything before it, so the messages begin anew there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

# Members of received blocks that a client may leave out: the model sees the same.
_DEFAULT_MEMBERS: dict[str, Any] = {"is_error": False, "caller": {"type": "direct"}}
_JSON = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_MAX_BLOCK_DEPTH = 3  # blocks within blocks: a result, its document, the document's text


def digest_thinking(text: str) -> str:
    """Return the digest of a thinking block's text, for its signature."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def list_blocks(content: Any) -> list[Any]:
    """Return a content as blocks.

    >>> list_blocks("Hello"), list_blocks("")
    ([{'type': 'text', 'text': 'Hello'}], [])
    """
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content if isinstance(content, list) else []


class PrefixHasher:
    """The digest of a growing prefix. Blocks are added one by one, so that all digests of a request take one pass."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._system_and_tools = blake2b(digest_size=16)
        for block in list_blocks(request.get("system")):
            self._update(self._system_and_tools, "system prompt", _canonicalize(block))
        tools = request.get("tools")
        for tool in tools if isinstance(tools, list) else ():
            self._update(self._system_and_tools, "tool", _canonicalize(tool, is_tool=True))
        self._hash = self._system_and_tools.copy()

    @staticmethod
    def _update(hash: blake2b, role: str, value: Any) -> None:
        text = encode_canonical(value)
        hash.update(f"{len(role)}:{role}{len(text)}:{text}".encode("utf-8", "surrogatepass"))

    def add(self, role: str, block: Any) -> None:
        """Add a block to the prefix."""
        if isinstance(block, dict) and block.get("type") == "compaction":
            if block.get("content") is None:
                return  # a compaction that failed
            self._hash = self._system_and_tools.copy()
        self._update(self._hash, role, _canonicalize(block))

    def digest(self) -> str:
        """Return the digest of the prefix so far."""
        return self._hash.hexdigest()


def digest_prefix(request: dict[str, Any], message_index: int, block_index: int) -> str:
    """Return the digest of everything before a block of a request."""
    prefix = PrefixHasher(request)
    for index, role, block in _walk_blocks(request):
        if index >= (message_index, block_index):
            break
        prefix.add(role, block)
    return prefix.digest()


def digest_reply_prefix(request: dict[str, Any], blocks_before: list[dict[str, Any]]) -> str:
    """Return the digest of everything before a block of the reply to a request, for the block's signature.

    When the reply comes back as an assistant message after the messages it answered, `digest_prefix` of that block is the same.
    """
    prefix = PrefixHasher(request)
    for _, role, block in _walk_blocks(request):
        prefix.add(role, block)
    for block in blocks_before:
        prefix.add("assistant", block)
    return prefix.digest()


def _walk_blocks(request: dict[str, Any]) -> Iterator[tuple[tuple[int, int], str, Any]]:
    messages = request.get("messages")
    for index, message in enumerate(messages if isinstance(messages, list) else ()):
        if isinstance(message, dict):
            role = message.get("role")
            for number, block in enumerate(list_blocks(message.get("content"))):
                yield (index, number), role if isinstance(role, str) else "", block


def _canonicalize(value: Any, *, is_tool: bool = False, depth: int = 0) -> Any:
    if not isinstance(value, dict):
        return value
    members = {
        name: member
        for name, member in value.items()
        if member is not None and name != "cache_control" and not (name in _DEFAULT_MEMBERS and member == _DEFAULT_MEMBERS[name])
    }
    if is_tool and members.get("type") == "custom":
        del members["type"]
    content = members.get("content")
    if isinstance(content, list) or members.get("type") == "tool_result":
        is_shallow = depth < _MAX_BLOCK_DEPTH
        members["content"] = [_canonicalize(block, depth=depth + 1) for block in list_blocks(content)] if is_shallow else content
    return members


def encode_canonical(value: Any) -> str:
    """Return a value as JSON with sorted keys, whatever its depth."""
    try:
        return _JSON.encode(value)
    except RecursionError:
        return "".join(encode_iteratively(value))


def encode_iteratively(value: Any) -> Iterator[str]:
    """Yield the pieces of the same JSON without recursion: the digest must not depend on how many of Python's frames are free."""
    pending: list[tuple[bool, Any]] = [(False, value)]  # (True and a text, or False and a value)
    while pending:
        is_text, item = pending.pop()
        if is_text:
            yield item
        elif isinstance(item, dict):
            pending.append((True, "}"))
            for number, name in reversed(list(enumerate(sorted(item)))):
                pending += [(False, item[name]), (True, f"{',' if number else ''}{json.dumps(name)}:")]
            yield "{"
        elif isinstance(item, list | tuple):
            pending.append((True, "]"))
            for number, member in reversed(list(enumerate(item))):
                pending += [(False, member), (True, "," if number else "")]
            yield "["
        else:
            yield json.dumps(item)
