"""What tokens cost: the caller's own prices first, then the published prices that the package `genai-prices` brings.

`genai-prices` comes with the extras `openai` and `anthropic`. Its prices are those of its release: nothing is fetched. A price that is
not known is not taken for 0: the usage has no cost then (`Usage.cost` is None).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from legato.core.facts import MAX_COUNT, Usage
from legato.core.model_reply import Reply
from legato.core.view import Request
from legato.errors import BadInput, ModelFailed
from legato.models.base import Emit
from legato.models.sdk import Clients, address_of, bounded_request
from legato.providers.formats.options import Options

BILLION = 10**9

MAX_PRICE = 1_000_000
"""Dollars per million tokens. More is a mistake in the unit, and could not be recorded."""


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

    def __post_init__(self) -> None:
        given = (self.input, self.output, self.cached, self.written, self.long)
        if not all(price is None or (isinstance(price, (int, float)) and 0 <= price <= MAX_PRICE) for price in given[:4]):
            raise BadInput(
                "a price is dollars per million tokens",
                expected=f"numbers from 0 to {MAX_PRICE:,}; cached and written may be None, for the price of other input",
                found=repr(given[:4]),
                do="leave a model whose price is not known out of prices",
            )
        if not isinstance(self.long, int) or self.long < 0:
            raise BadInput("Price(long=...) is a number of tokens", expected="0 or more", found=repr(self.long))


def own_price(models: Iterable[str], prices: Mapping[str, Price] | None) -> Price | None:
    """The caller's price of the first of these models that has one: by its name, or by the longest name that is the same without a date.

    >>> own_price(["gpt-4o-2024-08-06"], {"gpt-4o": Price(2.5, 10.0)})
    Price(input=2.5, output=10.0, cached=None, written=None, long=0)
    """
    if not prices:
        return None
    for model in models:
        if model in prices:
            return prices[model]
        dated = [name for name in prices if model.startswith((f"{name}-2", f"{name}@"))]
        if dated:
            return prices[max(dated, key=len)]
    return None


def cost_of(usage: Usage, price: Price) -> int:
    """What a request costs at this price, in billionths of a dollar.

    >>> cost_of(Usage(input=1000, output=100, cached=400), Price(1.25, 10.0, cached=0.125))
    1800000
    """
    read, written = _cache_tokens(usage)
    cached_price = price.input if price.cached is None else price.cached
    written_price = price.input if price.written is None else price.written
    sent = (usage.input - read - written) * price.input + read * cached_price + written * written_price
    said = usage.output * price.output
    return min(round((sent * 2 + said * 1.5 if price.long and usage.input > price.long else sent + said) * 1000), MAX_COUNT)


def published_cost(usage: Usage, model: str, provider: str, address: str = "") -> int | None:
    """What a request costs at the published price, in billionths of a dollar; None if that is not known.

    Prices are those of the provider at this address. Where none is known at it, such as a gateway, they are those of `provider`; if
    that is empty, the price is not known.
    """
    try:
        import genai_prices
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return None
    if address:
        with suppress(LookupError):
            provider = get_snapshot().find_provider(None, None, address).id
    if not provider:
        return None
    read, written = _cache_tokens(usage)
    tokens = genai_prices.Usage(input_tokens=usage.input, cache_read_tokens=read, cache_write_tokens=written, output_tokens=usage.output)
    try:
        found = genai_prices.calc_price(tokens, model, provider_id=provider)
    except LookupError:
        return None
    priced_by_token = found.model_price.input_mtok is not None  # some models are priced by the hour, and some not at all
    return min(round(found.total_price * BILLION), MAX_COUNT) if priced_by_token else None


def _cache_tokens(usage: Usage) -> tuple[int, int]:
    """The input tokens that were read from the cache, and written to it. Some servers count them beside the rest of the input."""
    read = min(usage.cached, usage.input)
    return read, min(usage.written, usage.input - read)


class Priced(ABC):
    """A model whose replies and failures carry what they cost."""

    options: Options
    address: str
    prices: Mapping[str, Price] | None = None
    provider: str
    """Whose prices hold where the address does not say it, as `genai-prices` names it; empty: nobody's."""
    names_models: bool = True
    """Whether the model's name says which model it is. The name of a deployment does not."""
    _clients: Clients

    @property
    @abstractmethod
    def name(self) -> str:
        """What is recorded with each reply."""

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
                failure.usage = self._with_cost(failure.usage)
            raise
        except asyncio.CancelledError as stop:
            if isinstance(usage := getattr(stop, "usage", None), Usage):
                stop.usage = self._with_cost(usage)  # type: ignore[attr-defined]
            raise
        return replace(reply, usage=self._with_cost(reply.usage, reply.model))

    def lacks_price(self) -> bool:
        """Whether it is known before any request that no price is known."""
        if not self.names_models:
            return False
        return self._cost(Usage(), self.options.model, self.address) is None

    def _with_cost(self, usage: Usage, model: str = "") -> Usage:
        """The usage of a request with its cost, unless that is known. `model`: the name in the reply, which may be more exact than the one
        that was asked for."""
        if usage.cost is not None or not usage.total:
            return usage
        return replace(usage, cost=self._cost(usage, model or self.options.model, address_of(self._clients())))

    def _cost(self, usage: Usage, model: str, address: str) -> int | None:
        if price := own_price((model, self.options.model), self.prices):
            return cost_of(usage, price)
        return published_cost(usage, model, self.provider, address)

    @abstractmethod
    async def _ask(self, request: Request, emit: Emit) -> Reply:
        """Its reply, as the provider counts it."""


def models_without_price(model: object) -> list[Priced]:
    """The models of this one, or behind it, of which it is known before any request that no price is known."""
    if isinstance(model, Priced):
        return [model] if model.lacks_price() else []
    return [lacking for each in getattr(model, "models", ()) for lacking in models_without_price(each)]


def price_hint() -> str:
    """What to do where a price is not known."""
    from importlib.util import find_spec

    missing = find_spec("genai_prices") is None
    return "pass prices={...} to the model" + (", or install genai-prices, which knows published prices" if missing else "")
