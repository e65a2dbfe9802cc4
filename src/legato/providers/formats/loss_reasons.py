"""The reasons why content is left out of a request, in words.

A loss is recorded with the reply to the request that left the content out. Later requests leave it out too, and do not report it again.
"""

from __future__ import annotations

# Reasons why reasoning is not replayed.
OTHER_MODEL_ONLY = "only the model that made it can read it"
REFUSED_BY_PROVIDER = "the provider refused it"
REPLAY_DISABLED = "replay_reasoning is off"
KEPT_BY_PROVIDER = "the provider does not disclose it"
NOTHING_FOLLOWS = "nothing follows it, and the provider refuses trailing reasoning"

PROVIDER_SPECIFIC = "only the provider that ran it accepts it back"
"""The reason why the use of a hosted tool is not sent to another provider."""

REASONING_REFUSED_MARK = "bare"
"""The end of `ModelReplied.stored_digest` if the provider accepted the request only without reasoning."""
