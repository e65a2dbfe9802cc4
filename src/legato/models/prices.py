"""What tokens cost. May know: published prices. Decides: nothing; a price that is not known costs nothing, and says so.

Prices are in dollars per million tokens, as published at the date beside them. They change: give your own with
`prices={"gpt-5": Price(1.25, 10.0, cached=0.125)}` to a model, or change `PRICES` for all.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from legato.core.facts import Usage
from legato.core.reply import Reply
from legato.core.view import Request
from legato.errors import ModelFailed
from legato.models.base import Emit
from legato.models.sdk import Clients, bounded_request
from legato.wire.options import Options


class Price(Struct, frozen=True):
    """Dollars per million tokens. `cached`: input read from the provider's cache, `written`: input written to it; by default they cost
    what other input does. A request whose input is longer than `long` tokens costs twice as much for all input, and half as much again
    for all output (0: it does not).
    """

    input: float
    output: float
    cached: float | None = None
    written: float | None = None
    long: int = 0
    as_of: str = ""


def _gpt(input: float, output: float, cached: float, written: float | None = None, *, long: int = 272_000, as_of: str) -> Price:
    return Price(input, output, cached, written, long, as_of)


def _claude(input: float, output: float, cached: float, *, as_of: str) -> Price:
    return Price(input, output, cached, input * 1.25, as_of=as_of)


PRICES: dict[str, Price] = {
    "gpt-4o": _gpt(2.5, 10.0, 1.25, long=0, as_of="2025-12"),
    "gpt-4o-mini": _gpt(0.15, 0.6, 0.075, long=0, as_of="2025-12"),
    "gpt-4.1": _gpt(2.0, 8.0, 0.5, long=0, as_of="2025-12"),
    "gpt-4.1-mini": _gpt(0.4, 1.6, 0.1, long=0, as_of="2025-12"),
    "gpt-4.1-nano": _gpt(0.1, 0.4, 0.025, long=0, as_of="2025-12"),
    "o3": _gpt(2.0, 8.0, 0.5, long=0, as_of="2025-12"),
    "o4-mini": _gpt(1.1, 4.4, 0.275, long=0, as_of="2025-12"),
    "gpt-5": _gpt(1.25, 10.0, 0.125, long=0, as_of="2025-12"),
    "gpt-5-mini": _gpt(0.25, 2.0, 0.025, long=0, as_of="2025-12"),
    "gpt-5-nano": _gpt(0.05, 0.4, 0.005, long=0, as_of="2025-12"),
    "gpt-5.1": _gpt(1.25, 10.0, 0.125, long=0, as_of="2025-12"),
    "gpt-5.4": _gpt(2.5, 15.0, 0.25, as_of="2026-11"),
    "gpt-5.4-mini": _gpt(0.75, 4.5, 0.075, long=0, as_of="2026-11"),
    "gpt-5.5": _gpt(5.0, 30.0, 0.5, as_of="2026-11"),
    "gpt-5.6-sol": _gpt(4.0, 20.0, 0.4, as_of="2026-11"),
    "gpt-5.6-terra": _gpt(2.0, 12.0, 0.2, as_of="2026-11"),
    "gpt-5.6-luna": _gpt(0.2, 1.2, 0.02, as_of="2026-11"),
    "gpt-6-astra": _gpt(10.0, 50.0, 1.0, 12.5, as_of="2026-09"),
    "gpt-6-sol": _gpt(2.0, 10.0, 0.2, 2.5, as_of="2026-09"),
    "gpt-6-luna": _gpt(0.1, 0.5, 0.01, 0.125, as_of="2026-09"),
    "gpt-6.1-sol": _gpt(2.0, 10.0, 0.1, 2.5, as_of="2026-09"),
    "gpt-6.1-terra": _gpt(1.0, 5.0, 0.05, 1.25, as_of="2026-10"),
    "claude-haiku-4-5": _claude(1.0, 5.0, 0.1, as_of="2026-11"),
    "claude-sonnet-4-5": _claude(3.0, 15.0, 0.3, as_of="2025-12"),
    "claude-opus-4-5": _claude(5.0, 25.0, 0.5, as_of="2026-03"),
    "claude-opus-4-6": _claude(5.0, 25.0, 0.5, as_of="2026-03"),
    "claude-opus-4-7": _claude(5.0, 25.0, 0.5, as_of="2026-03"),
    "claude-sonnet-5": _claude(2.0, 10.0, 0.2, as_of="2026-10"),
    "claude-opus-5": _claude(5.0, 25.0, 0.5, as_of="2026-10"),
    "claude-fable-5-1": _claude(10.0, 50.0, 0.25, as_of="2026-09"),
    "claude-opus-5-5": _claude(4.0, 20.0, 0.2, as_of="2026-09"),
    "claude-sonnet-5-5": _claude(2.0, 10.0, 0.1, as_of="2026-10"),
    "claude-haiku-5-5": _claude(0.1, 0.5, 0.01, as_of="2026-10"),
}
"""As published, or as others read them off the providers' pages, in the month beside them: standard service, shortest caches."""


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
    written = price.input if price.written is None else price.written
    read = min(usage.cached, usage.input)  # some servers count them beside the rest
    kept = min(usage.written, usage.input - read)
    sent = (usage.input - read - kept) * price.input + read * cached + kept * written
    said = usage.output * price.output
    spent = sent * 2 + said * 1.5 if price.long and usage.input > price.long else sent + said
    return replace(usage, cost=round(spent * 1000))


class Priced(ABC):
    """A model whose replies carry what they cost, and whose failures do."""

    options: Options
    _clients: Clients

    @property
    @abstractmethod
    def name(self) -> str:
        """What is recorded with each reply."""
    prices: Mapping[str, Price] | None = None

    @abstractmethod
    async def body(self, request: Request) -> bytes:
        """What the provider is sent for a request, such as `await session.seen()`: nothing is sent."""

    async def reply(self, request: Request, emit: Emit) -> Reply:
        """Ask the model."""
        try:
            async with bounded_request(self._clients.timeout_s):
                reply = await self._ask(request, emit)
        except ModelFailed as failure:
            failure.summary = f"{self.name}: {failure.summary}"
            if failure.usage is not None:
                failure.usage = priced(failure.usage, price_of(self.options.model, self.prices))
            raise
        except asyncio.CancelledError as stop:
            if isinstance(usage := getattr(stop, "usage", None), Usage):
                stop.usage = priced(usage, price_of(self.options.model, self.prices))  # type: ignore[attr-defined]
            raise
        return replace(reply, usage=priced(reply.usage, price_of(reply.model, self.prices)))

    @abstractmethod
    async def _ask(self, request: Request, emit: Emit) -> Reply:
        """Its reply, as the provider counts it."""
