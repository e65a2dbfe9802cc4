"""The betas of the Messages API, and the fields and members that each opens.

A beta's name is a word and a date (`mcp-client-2025-11-20`). The word decides what it opens: a later date changes the beta, it closes no
field. An unknown word opens nothing. The names are those of the SDK of 2026-11.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

FIELD_BETAS: dict[str, tuple[str, ...]] = {
    "billing_policy": ("user-profiles-billing",),
    "compaction": ("compact",),
    "context_management": ("context-management", "compact"),
    "fallback_credit_token": ("fallback-credit",),
    "fallbacks": ("server-side-fallback",),
    "mcp_servers": ("mcp-client",),
    "output_format": ("structured-outputs",),
    "thread": ("message-threads",),
}
"""The fields that need a beta, and the betas that open them."""

MEMBER_BETAS: dict[str, tuple[str, ...]] = {
    "messages.clear_at": ("mid-conversation-system-clear-at",),
    "messages.output_config": ("mid-conversation-output-config",),
    "output_config.task_budget": ("task-budgets",),
    "thinking.block_binding": ("thinking-binding-controls",),
}
"""The members of fields that need a beta, and the betas that open them."""

BINDING_CONTROLS_BETA = "thinking-binding-controls-2026-08-01"
ALL_BETAS = ",".join(
    (
        "compact-2026-09-04",
        "context-management-2025-06-27",
        "fallback-credit-2026-07-01",
        "mcp-client-2026-09-15",
        "message-threads-2026-08-12",
        "mid-conversation-output-config-2026-07-01",
        "mid-conversation-system-clear-at-2026-08-21",
        "server-side-fallback-2026-07-01",
        "structured-outputs-2025-11-13",
        "task-budgets-2026-03-13",
        BINDING_CONTROLS_BETA,
        "user-profiles-billing-2026-10-01",
    )
)
"""The header that opens every field, for a request whose own header is not known."""

_DATE = re.compile(r"-\d{4}-?\d{2}-?\d{2}$")


def parse_betas(headers: Mapping[str, str]) -> frozenset[str]:
    """Return the betas that the headers name.

    >>> sorted(parse_betas({"Anthropic-Beta": "a, b"}))
    ['a', 'b']
    """
    values = [value for name, value in headers.items() if name.lower() == "anthropic-beta" and isinstance(value, str)]
    return frozenset(beta.strip() for beta in ",".join(values).split(",") if beta.strip())


def list_opened_fields(betas: Iterable[str]) -> frozenset[str]:
    """Return the fields and members that some betas open.

    >>> sorted(list_opened_fields(["compact-2026-01-12", "anything"]))
    ['compaction', 'context_management']
    """
    words = {_DATE.sub("", beta) for beta in betas}
    return frozenset(name for name, openers in {**FIELD_BETAS, **MEMBER_BETAS}.items() if words & set(openers))
