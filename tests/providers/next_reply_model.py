"""A fake model of the emulator that gives the reply that a test sets."""

from __future__ import annotations

from legato.emulator.fake_models.base import FakeReply, ModelPrompt


class NextReplyModel:
    """A fake model whose next reply is `next_reply`."""

    def __init__(self) -> None:
        self.next_reply = FakeReply(())

    def reply(self, prompt: ModelPrompt) -> FakeReply:
        return self.next_reply
