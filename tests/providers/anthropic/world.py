"""A small provider in memory: it signs the thinking it emits, and knows its signatures again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from legato.emulator.minds.base import Item, Thought, Use, Words
from legato.providers.rules.anthropic.held import ModelInfo, Signed, info_of
from legato.providers.rules.anthropic.prefix import reply_prefix_digest, thinking_digest
from tests.providers.lawcase import LawCase, filled

VERSION = {"anthropic-version": "2023-06-01"}
BINDING = {"anthropic-beta": "thinking-binding-controls-2026-08-01"}
NEWEST = {"anthropic-version": "2026-10-21"}


def known(name: str, **facts: Any) -> ModelInfo:
    return replace(info_of(name), **{"prefill": False, "window": 1_000_000, **facts})


MODELS = {
    info.name: info
    for info in (
        known("claude-3-opus-20240229", prefill=True, window=0, system_role=False),
        known("claude-haiku-4-5", prefill=True, window=200_000, output=64_000, system_role=False),
        known("claude-opus-4-6"),
        known("claude-sonnet-5"),
        known("claude-opus-5-5", binds=True),
        known("claude-sonnet-5-5", binds=True),
        known("claude-fable-5-1", binds=True, reads=("claude-opus-5-5",)),
        known("claude-haiku-5-5", binds=True, unlocked=True),
    )
}
ACCOUNT_BOUND = ("claude-sonnet-5-5", "claude-haiku-5-5")


class World:
    """What an account can be told; a world of another account knows the same signatures."""

    def __init__(self, account: str = "account-1", signed: dict[str, Signed] | None = None) -> None:
        self.account = account
        self.signed: dict[str, Signed] = signed if signed is not None else {}

    def as_account(self, account: str) -> World:
        return World(account, self.signed)

    def signature(self, text: str) -> Signed | None:
        return self.signed.get(text)

    def model(self, name: str) -> ModelInfo | None:
        return MODELS.get(name)

    def reply(self, request: dict[str, Any], say: Sequence[Item]) -> dict[str, Any]:
        """What the API answers when the model says this."""
        blocks: list[dict[str, Any]] = []
        for item in say:
            if isinstance(item, Thought):
                signature = f"signature-{len(self.signed)}"
                account = self.account if request["model"] in ACCOUNT_BOUND else ""
                prefix = reply_prefix_digest(request, blocks)
                self.signed[signature] = Signed(thinking_digest(item.text), prefix, request["model"], account)
                blocks.append({"type": "thinking", "thinking": item.text, "signature": signature})
            elif isinstance(item, Use):
                blocks.append({"type": "tool_use", "id": item.id, "name": item.tool, "input": json.loads(item.arguments)})
            elif isinstance(item, Words):
                blocks.append({"type": "text", "text": item.text, "citations": None})
        return {"role": "assistant", "content": blocks}


def set_up(case: LawCase) -> tuple[World, dict[str, Any]]:
    """The world after a case's setup, and the replies that it kept."""
    world = World()
    saved: dict[str, Any] = {}
    for step in case.setup:
        saved[step.name] = world.as_account(step.account or world.account).reply(filled(step.body, saved), step.say)
    return world, saved


# -- requests to start from --------------------------------------------------------------------------------------------

HELLO = {"role": "user", "content": "Where is my order?"}


def ask(*messages: Any, model: str = "claude-sonnet-5", **parameters: Any) -> dict[str, Any]:
    return {"model": model, "max_tokens": 4096, "messages": list(messages) or [HELLO], **parameters}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def text(words: str, **members: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **members}


def use(id: str = "toolu_1", **members: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "find_order", "input": {}, **members}


def result(id: str = "toolu_1", **members: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": "shipped", **members}


def tool(name: str = "find_order", **members: Any) -> dict[str, Any]:
    return {"name": name, "input_schema": {"type": "object", "properties": {}}, **members}
