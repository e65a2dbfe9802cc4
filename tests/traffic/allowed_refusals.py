"""False refusals that stay, each with its reason. They are counted and named, and are no fault to be mended.

An entry allows the refusals of one rule to requests for the models whose names begin so.
"""

from __future__ import annotations

from msgspec import Struct

from tests.traffic.corpus import Api


class AllowedRefusal(Struct, frozen=True):
    """A rule of today that a request of another day was free of."""

    api: Api
    rule: str
    reason: str
    models: tuple[str, ...] = ("",)

    def covers(self, api: Api, rule: str, model: str) -> bool:
        """Whether a refusal is one that stays."""
        return (api, rule) == (self.api, self.rule) and model.startswith(self.models)


ALLOWED_REFUSALS: tuple[AllowedRefusal, ...] = ()


def allowed_refusal(api: Api, rule: str, model: str) -> AllowedRefusal | None:
    """The entry that a refusal is allowed by, if there is one."""
    return next((entry for entry in ALLOWED_REFUSALS if entry.covers(api, rule, model)), None)
