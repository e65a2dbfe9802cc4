"""What could not be carried over, in words. May know: nothing. Decides: how a loss is told.

A loss is recorded with the reply whose request it was left out of. Later requests leave the same thing out, and do not tell it again.
"""

from __future__ import annotations

# Why reasoning does not go back.
FOREIGN = "only the model that made it can read it"
REFUSED = "the provider would not take it back"
UNWANTED = "replay_reasoning is off"
NOT_GIVEN_OUT = "the provider kept it to itself"
STANDS_LAST = "nothing followed it, and the provider takes none that stands last"

NOT_TAKEN_BACK = "only the provider that ran it can take it back"
"""Why something that a provider did by itself does not go on."""

BARE = "bare"
"""What `ModelReplied.held` of a reply ends with whose request the provider only took without reasoning."""
