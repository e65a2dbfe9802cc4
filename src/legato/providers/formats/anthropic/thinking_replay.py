"""Replay of thinking to the model that made it.

A model with preserved thinking binds a thinking block to everything before it: `system`, `tools`, and all earlier blocks, other thinking
included. So the digest of everything sent for a reply is recorded with it (`ModelReplied.stored_digest`). A later request may replay the
reply's thinking exactly if everything before it has the same digest there. The turn context of another agent has another digest, and so
has a changed history. When control returns to an agent with an unchanged turn context, its own blocks fit again.

If the provider refuses thinking, the reply to the same request without thinking is marked: no earlier thinking is replayed again.
"""

from __future__ import annotations

from hashlib import blake2b

from msgspec import Struct

from legato.core.facts import Call, Reasoning
from legato.core.groups import AssistantEntry, Group
from legato.providers.formats.loss_reasons import OTHER_MODEL_ONLY, REASONING_REFUSED_MARK, REFUSED_BY_PROVIDER, REPLAY_DISABLED
from legato.providers.rules.anthropic.model_generations import parse_generation

PREFIX_CHANGED = "it is bound to the content before it, which differs here"


def binds_thinking(model: str) -> bool:
    """Return True unless a model is known not to bind its thinking to everything before it, as the models up to Claude 5 are.

    >>> models = "claude-opus-5-5", "claude-sonnet-4-5-20250929", "claude-sonnet-5", "unknown-model"
    >>> tuple(map(binds_thinking, models))
    (True, False, False, True)
    """
    model_generation = parse_generation(model)
    return model_generation is None or model_generation >= (5, 1)


class MessageSection(Struct, frozen=True):
    """Blocks of one role, joined by commas, without the brackets around them. `digest` covers the role and all blocks."""

    role: str
    body: bytes
    first_block_type: str
    digest: bytes


class MessageJoiner:
    """Joins sections into messages. Consecutive sections of one role are one message; a reply always follows a user message."""

    def __init__(self, context_digest: bytes, placeholder: MessageSection) -> None:
        self._hash = blake2b(context_digest, digest_size=16)
        self._placeholder = placeholder
        self._role = ""
        self._pieces: list[bytes] = []
        self._section_types: list[list[str]] = []  # for each message, the first block types of its sections

    def add_section(self, section: MessageSection) -> None:
        """Append a section."""
        if section.role == self._role == "user":
            self._pieces.append(b",")
            self._section_types[-1].append(section.first_block_type)
        else:
            if section.role == "assistant" and self._role != "user":
                self.add_section(self._placeholder)
            self._pieces.append(_MESSAGE_STARTS[self._role, section.role])
            self._section_types.append([section.first_block_type])
            self._role = section.role
        self._pieces.append(section.body)
        self._hash.update(section.digest)

    def digest_before_reply(self) -> str:
        """Return the digest of everything before a reply that comes next."""
        digest = self._hash.copy()
        if self._role != "user":
            digest.update(self._placeholder.digest)
        return digest.hexdigest()

    @property
    def tool_loop_start(self) -> str:
        """The type of the block that began the tool loop which is open at the end; empty if none is open."""
        block_type = ""
        index = len(self._section_types) - 1 if self._role == "user" else 0
        while index > 0 and "tool_result" in self._section_types[index]:
            block_type = self._section_types[index - 1][0]
            index -= 2
        return block_type

    def join_body(self, head: bytes) -> bytes:
        """Return the request body: the head and all messages. The last message is the user's, a placeholder if need be."""
        last = () if self._role == "user" else (_MESSAGE_STARTS[self._role, "user"], self._placeholder.body)
        return b"".join((head, *self._pieces, *last, b"]}]}"))


_MESSAGE_STARTS = {
    (before, role): (b"]}," if before else b"") + b'{"role":"%b","content":[' % role.encode()
    for before, role in (("", "user"), ("user", "assistant"), ("assistant", "user"))
}


class ThinkingReplayPolicy(Struct, frozen=True):
    """The rule whether a reply of a view is replayed with its thinking.

    `replay_reasoning`: the option of this name. `with_reasoning`: the provider has not just refused thinking. `reuse_container`: the
    provider has not just refused the container of its code.
    """

    origin: str
    model: str
    replay_reasoning: bool
    with_reasoning: bool
    reuse_container: bool = True

    def decide_replay(self, group: Group, digest_before: str, use_own_ids: bool, refused_before: float) -> tuple[str, bool]:
        """Return the reason why the thinking of a reply is not replayed (empty if it is), and True if the rest is replayed verbatim.

        The rest is replayed verbatim if the same model made it and everything before it is unchanged. `refused_before`: the provider
        refused thinking from before this position.
        """
        fact = group.fact
        if fact is None or fact.origin != self.origin:
            return OTHER_MODEL_ONLY, False
        is_same_prefix = fact.stored_digest.startswith(digest_before)
        if not self.replay_reasoning:
            return REPLAY_DISABLED, is_same_prefix
        if not self.with_reasoning or group.position < refused_before:
            return REFUSED_BY_PROVIDER, is_same_prefix
        if binds_thinking(self.model) and (not is_same_prefix or (use_own_ids and _has_thinking_after_call(group))):
            return PREFIX_CHANGED, is_same_prefix
        return "", is_same_prefix


def _has_thinking_after_call(group: Group) -> bool:
    """Return True if thinking follows a call: it is bound to the id of the call."""
    items = next((entry.items for entry in group.entries if isinstance(entry, AssistantEntry)), ())
    has_call = False
    for item in items:
        has_call = has_call or isinstance(item, Call)
        if has_call and isinstance(item, Reasoning):
            return True
    return False


def mark_history_digest(digest: str, reasoning_refused: bool) -> str:
    """Return the digest to be recorded with a reply, with a mark if the provider refused thinking."""
    return f"{digest} {REASONING_REFUSED_MARK}" if reasoning_refused else digest
