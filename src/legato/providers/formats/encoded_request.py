"""Encoded requests, and the parts they are joined from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from legato.providers.rules.rule_set import RuleViolation

MISSING_USER_MESSAGE = "(No message of the user stands here. Go on.)"
"""The text that is sent where an API requires a user's message and the view has none."""


class EncodedRequest(Struct, frozen=True):
    """A request body, and what is needed to decode its reply."""

    body: bytes
    tool_names: Mapping[str, str]
    """The names of the agent's tools by the names that are sent."""
    history_digest: str = ""
    """The digest of the history that the provider is sent and may store; a later request is compared with it. Empty: nothing is stored."""
    base_id: str = ""
    """The id of the stored response or conversation that the request continues."""
    has_reasoning: bool = False
    """True if earlier reasoning is replayed."""
    losses: tuple[str, ...] = ()
    """Descriptions of the content that could not be encoded."""
    violations: tuple[RuleViolation, ...] = ()
    """Violations of the provider's rules. There are none, unless Legato has a bug."""
    reasoning_refused: bool = False
    """True if reasoning is left out because the provider refused it."""
    has_hosted_items: bool = False
    """True if uses of hosted tools, which the provider runs, are replayed."""
    container: str = ""
    """The container in which the provider's code runs, as JSON text."""


def join_body(head: bytes, first_pieces: Sequence[bytes], pieces: Sequence[bytes], tail: bytes) -> bytes:
    """Return a body of all pieces, with commas between them. Each piece is copied once, however many there are."""
    first = b",".join(first_pieces)
    if not pieces:
        return head + first + tail
    parts = [*pieces]
    parts[0] = head + first + (b"," if first else b"") + parts[0]
    parts[-1] += tail
    return b",".join(parts)


class EncodedGroup(Struct, frozen=True):
    """The items or messages of one group, joined by commas, without the brackets around them."""

    body: bytes
    losses: tuple[str, ...] = ()
    violations: tuple[RuleViolation, ...] = ()
    has_reasoning: bool = False
    has_hosted_items: bool = False


class RequestHead(Struct, frozen=True):
    """The members of a request other than the conversation, as a JSON object."""

    body: bytes
    tool_names: Mapping[str, str]
    violations: tuple[RuleViolation, ...] = ()
