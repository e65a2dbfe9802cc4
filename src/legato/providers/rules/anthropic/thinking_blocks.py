"""The thinking blocks of a request: which of them the model reads, and which are dropped or refused.

Thinking blocks come from earlier replies. A block's signature identifies its text, its model, its account and everything before it (its
prefix). A block that the model may not read is dropped silently (M10). On a model with preserved thinking a block with another prefix is
refused (M9), or dropped if the request says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from msgspec import Struct

from legato.providers.rules.anthropic.betas import BINDING_CONTROLS_BETA, parse_betas
from legato.providers.rules.anthropic.prefix_digest import PrefixHasher, digest_thinking, list_blocks
from legato.providers.rules.anthropic.provider_state import AnthropicModelInfo, AnthropicState, ThinkingSignature
from legato.providers.rules.anthropic.rule_switches import AnthropicRuleSwitches

THINKING_TYPES = ("thinking", "redacted_thinking")


class ThinkingBlock(Struct, frozen=True):
    """A thinking block of a request."""

    message_index: int
    block_index: int
    position: int  # among all blocks of the request
    value: dict[str, Any]
    signature: ThinkingSignature | None  # None: the provider did not make it
    is_in_latest_turn: bool  # the assistant's latest turn
    is_modified: bool  # its text is not the signed one
    has_other_prefix: bool  # something before it is not as it was; checked for models that bind thinking only
    drop_reason: str  # the reason to drop it whatever is before it; empty: none

    @property
    def path(self) -> str:
        """The block's path as the API writes it."""
        return f"messages.{self.message_index}.content.{self.block_index}"


class PrefixBinding(Struct, frozen=True):
    """The treatment of blocks whose prefix has changed: refused if enforced, unless they are dropped."""

    is_enforced: bool
    drops_block: bool


def read_prefix_binding(
    request: Mapping[str, Any], headers: Mapping[str, str], info: AnthropicModelInfo, switches: AnthropicRuleSwitches
) -> PrefixBinding:
    """Return the treatment of blocks whose prefix has changed, for this request and model."""
    thinking = request.get("thinking")
    controls = thinking.get("block_binding") if isinstance(thinking, dict) and BINDING_CONTROLS_BETA in parse_betas(headers) else None
    behaviour = controls.get("prefix_mismatch_behavior") if isinstance(controls, dict) else None
    return PrefixBinding(info.binds_thinking and (switches.binding or behaviour is not None), behaviour == "drop_block")


def find_thinking_blocks(request: Mapping[str, Any], state: AnthropicState, info: AnthropicModelInfo) -> Iterator[ThinkingBlock]:
    """Yield the thinking blocks of a request, in order, in one pass over it."""
    messages = request.get("messages")
    if not _has_thinking(messages):
        return
    latest, position = _find_latest_turn(messages), 0
    prefix = PrefixHasher(dict(request)) if info.binds_thinking else None  # other models ignore the prefix
    for index, message in enumerate(messages):
        for number, block in enumerate(list_blocks(message.get("content"))):
            if _is_thinking_block(block):
                signature = state.read_signature(block["signature"] if block["type"] == "thinking" else block["data"])
                yield ThinkingBlock(
                    index,
                    number,
                    position,
                    block,
                    signature,
                    is_in_latest_turn=index >= latest,
                    is_modified=signature is not None and _is_modified(block, signature),
                    has_other_prefix=prefix is not None and signature is not None and signature.prefix_digest not in ("", prefix.digest()),
                    drop_reason=_find_drop_reason(signature, state, info) if signature else "",
                )
            if prefix is not None:
                prefix.add(str(message.get("role")), block)
            position += 1


def _has_thinking(messages: Any) -> TypeGuard[list[dict[str, Any]]]:
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        return False
    return any(_is_thinking_block(block) for message in messages for block in list_blocks(message.get("content")))


def _is_modified(block: dict[str, Any], signature: ThinkingSignature) -> bool:
    """Return True if a block's text is not the signed one. The text of a redacted block is not known."""
    return block["type"] == "thinking" and signature.thinking_digest not in ("", digest_thinking(block["thinking"]))


def _is_thinking_block(block: Any) -> bool:
    if not isinstance(block, dict) or block.get("type") not in THINKING_TYPES:
        return False
    members = ("thinking", "signature") if block["type"] == "thinking" else ("data",)
    return all(isinstance(block.get(member), str) for member in members)


def _find_latest_turn(messages: list[dict[str, Any]]) -> int:
    """Return the index of the first message of the assistant's latest turn."""
    last = max((index for index, message in enumerate(messages) if message.get("role") == "assistant"), default=0)
    while last and messages[last - 1].get("role") == "assistant":
        last -= 1
    return last


def _find_drop_reason(signature: ThinkingSignature, state: AnthropicState, info: AnthropicModelInfo) -> str:
    if signature.account and state.account and signature.account != state.account:
        return "organization_binding_mismatch"
    if signature.model and not _can_read(info, signature.model, state):
        return "model_binding_mismatch"
    return ""


def _can_read(info: AnthropicModelInfo, author: str, state: AnthropicState) -> bool:
    if _normalize_model_name(author) in {_normalize_model_name(name) for name in (info.name, *info.readable_models)}:
        return True
    author_info = state.find_model(author)
    return author_info is not None and author_info.has_public_thinking


def _normalize_model_name(name: str) -> str:
    """Return one name for a model, for its name in the documents and its dated names.

    >>> _normalize_model_name("claude-haiku-4.5-20251001")
    'claude-haiku-4-5'
    """
    return re.sub(r"-\d{8}$", "", name.replace(".", "-"))


def list_dropped_thinking(
    request: Mapping[str, Any], headers: Mapping[str, str], state: AnthropicState, switches: AnthropicRuleSwitches | None = None
) -> list[dict[str, str]]:
    """Return the entries of `input_transformations` for an accepted request: thinking blocks that the model does not read, and why.

    A block with another prefix that the model reads because binding is not enforced has the type `thinking_mismatch_allowed`. The API
    reports entries only to clients that send the beta header, but drops blocks for all.
    """
    name = request.get("model")
    info = state.find_model(name) if isinstance(name, str) else None
    if info is None:
        return []
    binding = read_prefix_binding(request, headers, info, switches or AnthropicRuleSwitches())
    entries: list[dict[str, str]] = []
    last_dropped = -2  # the position of the last block that was dropped for its prefix
    for block in find_thinking_blocks(request, state, info):
        follows_dropped = last_dropped == block.position - 1  # a run of thinking is dropped with its first block
        reason = block.drop_reason or ("prefix_binding_mismatch" if block.has_other_prefix or follows_dropped else "")
        if not reason:
            continue
        is_allowed = reason == "prefix_binding_mismatch" and not (binding.is_enforced and binding.drops_block)
        if reason == "prefix_binding_mismatch" and not is_allowed:
            last_dropped = block.position
        entries.append({"type": "thinking_mismatch_allowed" if is_allowed else "thinking_dropped", "path": block.path, "reason": reason})
    return entries
