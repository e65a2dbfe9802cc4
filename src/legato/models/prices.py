"""What tokens cost. May know: published prices. Decides: nothing; a price that is not known costs nothing, and says so.

Prices are in dollars per million tokens, as published at the date beside them. They change: give your own with
`prices={"gpt-5": Price(1.25, 10.0, cached=0.125)}` to a model, or change `PRICES` for all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from legato.core.facts import Usage
from legato.core.reply import Reply
from legato.core.view import Request
from legato.models.base import Emit


class Price(Struct, frozen=True):
    """Dollars per million tokens. `cached`: input that the provider had seen before; by default the same as other input."""

    input: float
    output: float
    cached: float | None = None
    as_of: str = ""


PRICES: dict[str, Price] = {
    "gpt-4o": Price(2.5, 10.0, 1.25, "2025-12"),
    "gpt-4o-mini": Price(0.15, 0.6, 0.075, "2025-12"),
    "gpt-4.1": Price(2.0, 8.0, 0.5, "2025-12"),
    "gpt-4.1-mini": Price(0.4, 1.6, 0.1, "2025-12"),
    "gpt-4.1-nano": Price(0.1, 0.4, 0.025, "2025-12"),
    "o3": Price(2.0, 8.0, 0.5, "2025-12"),
    "o4-mini": Price(1.1, 4.4, 0.275, "2025-12"),
    "gpt-5": Price(1.25, 10.0, 0.125, "2025-12"),
    "gpt-5-mini": Price(0.25, 2.0, 0.025, "2025-12"),
    "gpt-5-nano": Price(0.05, 0.4, 0.005, "2025-12"),
    "gpt-5.1": Price(1.25, 10.0, 0.125, "2025-12"),
    "claude-haiku-4-5": Price(1.0, 5.0, 0.1, "2025-12"),
    "claude-sonnet-4-5": Price(3.0, 15.0, 0.3, "2025-12"),
    "claude-opus-4-5": Price(5.0, 25.0, 0.5, "2025-12"),
}


def price_of(model: str, own: Mapping[str, Price] | None = None) -> Price | None:
    """The price of a model: one's own first, by its name or by the longest known name that it begins with and then dates.

    >>> price_of("gpt-4o-2024-08-06").input, price_of("gpt-4o-mini").input, price_of("no-such-model")
    (2.5, 0.15, None)
    """
    for table in (own or {}, PRICES):
        if model in table:
            return table[model]
        dated = [name for name in table if model.startswith((f"{name}-2", f"{name}@"))]
        if dated:
            return table[max(dated, key=len)]
    return None


def priced(usage: Usage, price: Price | None) -> Usage:
    """The usage with its cost, in billionths of a dollar.

    >>> priced(Usage(input=1000, output=100, cached=400), Price(1.25, 10.0, cached=0.125)).cost
    1800000
    """
    if price is None:
        return usage
    cached = price.input if price.cached is None else price.cached
    spent = (usage.input - usage.cached) * price.input + usage.cached * cached + usage.output * price.output
    return replace(usage, cost=round(spent * 1000))


class Priced(ABC):
    """A model whose replies carry what they cost."""

    prices: Mapping[str, Price] | None = None

    async def reply(self, request: Request, emit: Emit) -> Reply:
        """Ask the model."""
        reply = await self._ask(request, emit)
        return replace(reply, usage=priced(reply.usage, price_of(reply.model, self.prices)))

    @abstractmethod
    async def _ask(self, request: Request, emit: Emit) -> Reply:
        """Its reply, as the provider counts it."""
