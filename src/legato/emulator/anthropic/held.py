"""What Anthropic recognises of its own making. May know: the seal, the models. Decides: what a signature is bound to.

Nothing is stored: a signature carries, sealed, all that it is bound to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from legato.emulator.models import Catalogue
from legato.emulator.seal import Seal
from legato.providers.rules.anthropic.held import ModelInfo, Signed
from legato.providers.rules.anthropic.prefix import reply_prefix_digest, thinking_digest

ACCOUNT_BOUND = ("sonnet-5-5", "haiku-5-5", "sonnet-5.5", "haiku-5.5")
"""Models whose thinking only the account that got it may send back."""


class SealedHeld:
    """Answers the law book's questions for one account."""

    def __init__(self, account: str, seal: Seal, models: Catalogue) -> None:
        self.account = account
        self._seal = seal
        self._models = models

    def signature(self, text: str) -> Signed | None:
        """What a signature says. None: it is none of ours, or not as we made it."""
        try:
            return msgspec.convert(self._seal.open_json(text), Signed)
        except msgspec.ValidationError:
            return None

    def model(self, name: str) -> ModelInfo | None:
        """What is known of a model. None: it does not exist."""
        return self._models.anthropic(name)

    def sign(self, request: dict[str, Any], model: str, thinking: str, before: Sequence[dict[str, Any]]) -> str:
        """The signature of a thinking block: of its text, and of everything that stands before it, the reply's own blocks included."""
        account = self.account if model.endswith(ACCOUNT_BOUND) else ""
        signed = Signed(thinking_digest(thinking), reply_prefix_digest(request, list(before)), model, account)
        return self._seal.seal_json(msgspec.to_builtins(signed))
