"""A fake provider in memory that signs thinking blocks, and reads its own signatures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from legato.emulator.fake_models.base import FakeReplyItem, ReplyCall, ReplyText, ReplyThought
from legato.providers.rules.anthropic.prefix_digest import digest_reply_prefix, digest_thinking
from legato.providers.rules.anthropic.provider_state import AnthropicModelInfo, ThinkingSignature, read_model_name
from tests.providers.rules.rule_cases import RuleCase, fill_placeholders


def make_model(name: str, **properties: Any) -> AnthropicModelInfo:
    """Return a recent model with these properties."""
    return replace(read_model_name(name), **{"accepts_prefill": False, "context_window": 1_000_000, **properties})


MODELS = {
    info.name: info
    for info in (
        make_model("claude-3-opus-20240229", accepts_prefill=True, context_window=0, accepts_system_role=False),
        make_model("claude-haiku-4-5", accepts_prefill=True, context_window=200_000, max_output_tokens=64_000, accepts_system_role=False),
        make_model("claude-opus-4-6"),
        make_model("claude-sonnet-5"),
        make_model("claude-opus-5-5", binds_thinking=True),
        make_model("claude-sonnet-5-5", binds_thinking=True),
        make_model("claude-fable-5-1", binds_thinking=True, readable_models=("claude-opus-5-5",)),
        make_model("claude-haiku-5-5", binds_thinking=True, has_public_thinking=True),
    )
}
ACCOUNT_BOUND_MODELS = ("claude-sonnet-5-5", "claude-haiku-5-5")


class FakeProvider:
    """The state of one account. Other accounts of the provider share its signatures."""

    def __init__(self, account: str = "account-1", signatures: dict[str, ThinkingSignature] | None = None) -> None:
        self.account = account
        self.signatures: dict[str, ThinkingSignature] = signatures if signatures is not None else {}

    def with_account(self, account: str) -> FakeProvider:
        return FakeProvider(account, self.signatures)

    def read_signature(self, text: str) -> ThinkingSignature | None:
        return self.signatures.get(text)

    def find_model(self, name: str) -> AnthropicModelInfo | None:
        return MODELS.get(name)

    def make_reply(self, request: dict[str, Any], model_output: Sequence[FakeReplyItem]) -> dict[str, Any]:
        """Return the assistant message with the model's output."""
        blocks: list[dict[str, Any]] = []
        for item in model_output:
            if isinstance(item, ReplyThought):
                signature = f"signature-{len(self.signatures)}"
                account = self.account if request["model"] in ACCOUNT_BOUND_MODELS else ""
                prefix = digest_reply_prefix(request, blocks)
                self.signatures[signature] = ThinkingSignature(digest_thinking(item.text), prefix, request["model"], account)
                blocks.append({"type": "thinking", "thinking": item.text, "signature": signature})
            elif isinstance(item, ReplyCall):
                blocks.append({"type": "tool_use", "id": item.id, "name": item.tool, "input": json.loads(item.arguments)})
            elif isinstance(item, ReplyText):
                blocks.append({"type": "text", "text": item.text, "citations": None})
        return {"role": "assistant", "content": blocks}


def run_setup(case: RuleCase) -> tuple[FakeProvider, dict[str, Any]]:
    """Run the setup of a case. Return the provider and the saved replies."""
    provider = FakeProvider()
    replies: dict[str, Any] = {}
    for step in case.setup:
        account = provider.with_account(step.account or provider.account)
        replies[step.name] = account.make_reply(fill_placeholders(step.body, replies), step.model_output)
    return provider, replies
