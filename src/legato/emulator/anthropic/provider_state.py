"""The provider state that Anthropic's rules ask for: models, and signatures of thinking blocks.

Nothing is stored: an encrypted signature contains everything that it is bound to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from legato.emulator.encrypted_content import ContentCipher
from legato.emulator.model_catalogue import ModelCatalogue
from legato.providers.rules.anthropic.prefix_digest import digest_reply_prefix, digest_thinking
from legato.providers.rules.anthropic.provider_state import AnthropicModelInfo, ThinkingSignature

ACCOUNT_BOUND_MODELS = ("sonnet-5-5", "haiku-5-5", "sonnet-5.5", "haiku-5.5")
"""The ends of the names of models whose thinking only the account that received it may send back."""


class EmulatorAnthropicState:
    """Anthropic's provider state, as one account sees it."""

    def __init__(self, account: str, cipher: ContentCipher, models: ModelCatalogue) -> None:
        self.account = account
        self._cipher = cipher
        self._models = models

    def read_signature(self, text: str) -> ThinkingSignature | None:
        """Return the content of a signature. None: the emulator did not make it, or it was changed."""
        try:
            return msgspec.convert(self._cipher.decrypt_json(text), ThinkingSignature)
        except msgspec.ValidationError:
            return None

    def find_model(self, name: str) -> AnthropicModelInfo | None:
        """Return the properties of a model. None: it does not exist."""
        return self._models.find_anthropic_info(name)

    def sign(self, body: dict[str, Any], model: str, thinking: str, preceding_blocks: Sequence[dict[str, Any]]) -> str:
        """Return the signature of a thinking block, bound to its text and to everything before it, the reply's own blocks included."""
        account = self.account if model.endswith(ACCOUNT_BOUND_MODELS) else ""
        signature = ThinkingSignature(digest_thinking(thinking), digest_reply_prefix(body, list(preceding_blocks)), model, account)
        return self._cipher.encrypt_json(msgspec.to_builtins(signature))
