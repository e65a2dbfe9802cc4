"""What a request's thinking blocks are worth. May know: signatures and prefixes. Decides: which are read, dropped or refused.

A block comes back from an earlier reply. Its signature says which text it vouches for, which model wrote it, for whom, and what stood
before it. A block that the model may not read is dropped without a word (M10); on a model with preserved thinking one whose prefix has
changed is refused (M9), or dropped where the request says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from msgspec import Struct

from legato.providers.rules.anthropic.betas import BINDING_CONTROLS, betas_of
from legato.providers.rules.anthropic.held import Held, ModelInfo, Signed
from legato.providers.rules.anthropic.prefix import Prefix, blocks_of, thinking_digest
from legato.providers.rules.anthropic.profile import Profile

KINDS = ("thinking", "redacted_thinking")


class Thought(Struct, frozen=True):
    """A thinking block of a request."""

    message: int
    block: int
    place: int  # among all blocks of the request
    value: dict[str, Any]
    signed: Signed | None  # None: the signature is none of the provider's
    latest: bool  # whether it stands in the assistant's latest turn
    changed: bool  # whether its text is another than the signature vouches for
    moved: bool  # whether something before it is not as it was, which only a model that binds asks
    barred: str  # why it is dropped whatever stands before it; empty: it is not

    @property
    def path(self) -> str:
        """As the API writes it."""
        return f"messages.{self.message}.content.{self.block}"


class Binding(Struct, frozen=True):
    """What happens to a block whose prefix has changed."""

    enforced: bool
    drops: bool


def binding(request: Mapping[str, Any], headers: Mapping[str, str], info: ModelInfo, profile: Profile) -> Binding:
    """What this request says about blocks whose prefix has changed, to this model."""
    thinking = request.get("thinking")
    rules = thinking.get("block_binding") if isinstance(thinking, dict) and BINDING_CONTROLS in betas_of(headers) else None
    behaviour = rules.get("prefix_mismatch_behavior") if isinstance(rules, dict) else None
    return Binding(info.binds and (profile.binding or behaviour is not None), behaviour == "drop_block")


def thoughts(request: Mapping[str, Any], held: Held, info: ModelInfo) -> Iterator[Thought]:
    """The thinking blocks of a request, in order, at the cost of one pass over it."""
    messages = request.get("messages")
    if not _has_thinking(messages):
        return
    latest, place = _latest_turn(messages), 0
    prefix = Prefix(dict(request)) if info.binds else None  # nobody else asks what stood before
    for index, message in enumerate(messages):
        for number, block in enumerate(blocks_of(message.get("content"))):
            if _thinks(block):
                signed = held.signature(block["signature"] if block["type"] == "thinking" else block["data"])
                yield Thought(
                    index,
                    number,
                    place,
                    block,
                    signed,
                    latest=index >= latest,
                    changed=signed is not None and _has_changed(block, signed),
                    moved=prefix is not None and signed is not None and signed.prefix not in ("", prefix.digest()),
                    barred=_barred(signed, held, info) if signed else "",
                )
            if prefix is not None:
                prefix.add(str(message.get("role")), block)
            place += 1


def _has_thinking(messages: Any) -> TypeGuard[list[dict[str, Any]]]:
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        return False
    return any(_thinks(block) for message in messages for block in blocks_of(message.get("content")))


def _has_changed(block: dict[str, Any], signed: Signed) -> bool:
    """Tell whether a block's text is another than the one that its signature vouches for. Of a redacted one nobody can tell."""
    return block["type"] == "thinking" and signed.thinking not in ("", thinking_digest(block["thinking"]))


def _thinks(block: Any) -> bool:
    if not isinstance(block, dict) or block.get("type") not in KINDS:
        return False
    members = ("thinking", "signature") if block["type"] == "thinking" else ("data",)
    return all(isinstance(block.get(member), str) for member in members)


def _latest_turn(messages: list[dict[str, Any]]) -> int:
    """Where the assistant's latest turn begins."""
    last = max((index for index, message in enumerate(messages) if message.get("role") == "assistant"), default=0)
    while last and messages[last - 1].get("role") == "assistant":
        last -= 1
    return last


def _barred(signed: Signed, held: Held, info: ModelInfo) -> str:
    if signed.account and held.account and signed.account != held.account:
        return "organization_binding_mismatch"
    if signed.model and not _reads(info, signed.model, held):
        return "model_binding_mismatch"
    return ""


def _reads(info: ModelInfo, maker: str, held: Held) -> bool:
    if _family(maker) in {_family(name) for name in (info.name, *info.reads)}:
        return True
    made_by = held.model(maker)
    return made_by is not None and made_by.unlocked


def _family(name: str) -> str:
    """A model's name as its documents or its dated versions have it is the same model's.

    >>> _family("claude-haiku-4.5-20251001")
    'claude-haiku-4-5'
    """
    return re.sub(r"-\d{8}$", "", name.replace(".", "-"))


def dropped_thinking(
    request: Mapping[str, Any], headers: Mapping[str, str], held: Held, profile: Profile | None = None
) -> list[dict[str, str]]:
    """The entries of `input_transformations` for an accepted request: which of its thinking blocks the model does not see, and why.

    Blocks that are shown although their prefix has changed, because nobody enforces it, have the type `thinking_mismatch_allowed`.
    They are reported only to who asks for it by the beta header, but dropped all the same.
    """
    name = request.get("model")
    info = held.model(name) if isinstance(name, str) else None
    if info is None:
        return []
    rule = binding(request, headers, info, profile or Profile())
    entries: list[dict[str, str]] = []
    dropped = -2  # the place of the last block that was dropped for its prefix
    for thought in thoughts(request, held, info):
        along = dropped == thought.place - 1  # the rest of a run of thinking goes with its first
        reason = thought.barred or ("prefix_binding_mismatch" if thought.moved or along else "")
        if not reason:
            continue
        allowed = reason == "prefix_binding_mismatch" and not (rule.enforced and rule.drops)
        if reason == "prefix_binding_mismatch" and not allowed:
            dropped = thought.place
        entries.append({"type": "thinking_mismatch_allowed" if allowed else "thinking_dropped", "path": thought.path, "reason": reason})
    return entries
