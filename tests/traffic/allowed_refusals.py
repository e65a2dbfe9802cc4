"""False refusals that stay, each with its reason. They are counted and listed, and are not to be fixed.

An entry allows the refusals of one rule for requests to models whose names have one of these prefixes.
"""

from __future__ import annotations

from msgspec import Struct

from tests.traffic.corpus import Api


class AllowedRefusal(Struct, frozen=True):
    """A current rule that did not exist yet when a request was recorded."""

    api: Api
    rule: str
    reason: str
    models: tuple[str, ...] = ("",)

    def covers(self, api: Api, rule: str, model: str) -> bool:
        """Return True if this entry allows a refusal."""
        return (api, rule) == (self.api, self.rule) and model.startswith(self.models)


ALLOWED_REFUSALS: tuple[AllowedRefusal, ...] = ()


def find_allowed_refusal(api: Api, rule: str, model: str) -> AllowedRefusal | None:
    """Return the entry that allows a refusal, if there is one."""
    return next((entry for entry in ALLOWED_REFUSALS if entry.covers(api, rule, model)), None)
