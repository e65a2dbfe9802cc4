"""The cost of tokens: by the caller's own prices first, then by the published prices in the package `genai-prices`.

`genai-prices` comes with the extras `openai` and `anthropic`. Its prices are those of its release; none are fetched. An unknown price does
not count as 0: `Usage.cost` is None then.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from legato.core.facts import MAX_COUNT, Usage
from legato.core.model_reply import ModelReply
from legato.core.view import ModelRequest
from legato.errors import BadInput, ModelFailed
from legato.models.model import Emit
from legato.models.sdk_client import LoopClients, get_client_address, limit_request_time
from legato.providers.formats.request_options import RequestOptions

BILLION = 10**9

MAX_PRICE = 1_000_000
"""Dollars per million tokens. A higher price is a mistake in the unit, and its costs could not be recorded."""


class Price(Struct, frozen=True):
    """Prices of a model in dollars per million tokens.

    `cached`: input read from the provider's cache; `written`: input written to it; both default to the price of other input. If the input
    is longer than `long` tokens, all input costs twice as much and all output one and a half times as much (0: no such limit).
    """

    input: float
    output: float
    cached: float | None = None
    written: float | None = None
    long: int = 0

    def __post_init__(self) -> None:
        values = (self.input, self.output, self.cached, self.written, self.long)
        if not all(price is None or (isinstance(price, (int, float)) and 0 <= price <= MAX_PRICE) for price in values[:4]):
            raise BadInput(
                "a price is dollars per million tokens",
                expected=f"numbers from 0 to {MAX_PRICE:,}; cached and written may be None, for the price of other input",
                found=repr(values[:4]),
                do="leave a model whose price is not known out of prices",
            )
        if not isinstance(self.long, int) or self.long < 0:
            raise BadInput("Price(long=...) is a number of tokens", expected="0 or more", found=repr(self.long))


def find_own_price(models: Iterable[str], prices: Mapping[str, Price] | None) -> Price | None:
    """Return the caller's price of the first of these models that has one: by its name, or by the longest name that only lacks the date.

    >>> find_own_price(["gpt-4o-2024-08-06"], {"gpt-4o": Price(2.5, 10.0)})
    Price(input=2.5, output=10.0, cached=None, written=None, long=0)
    """
    if not prices:
        return None
    for model in models:
        if model in prices:
            return prices[model]
        undated = [name for name in prices if model.startswith((f"{name}-2", f"{name}@"))]
        if undated:
            return prices[max(undated, key=len)]
    return None


def compute_cost(usage: Usage, price: Price) -> int:
    """Return the cost of a request at this price, in billionths of a dollar.

    >>> compute_cost(Usage(input=1000, output=100, cached=400), Price(1.25, 10.0, cached=0.125))
    1800000
    """
    read, written = _count_cache_tokens(usage)
    cached_price = price.input if price.cached is None else price.cached
    written_price = price.input if price.written is None else price.written
    input_cost = (usage.input - read - written) * price.input + read * cached_price + written * written_price
    output_cost = usage.output * price.output
    is_long = price.long and usage.input > price.long
    return min(round((input_cost * 2 + output_cost * 1.5 if is_long else input_cost + output_cost) * 1000), MAX_COUNT)


def compute_published_cost(usage: Usage, model: str, provider: str, address: str = "") -> int | None:
    """Return the cost of a request at the published price, in billionths of a dollar; None if the price is unknown.

    The prices are those of the provider at this address. If no provider is known there, as with a gateway, they are those of `provider`;
    without one, the price is unknown.
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
    read, written = _count_cache_tokens(usage)
    tokens = genai_prices.Usage(input_tokens=usage.input, cache_read_tokens=read, cache_write_tokens=written, output_tokens=usage.output)
    try:
        price = genai_prices.calc_price(tokens, model, provider_id=provider)
    except LookupError:
        return None
    is_priced_by_token = price.model_price.input_mtok is not None  # some models are priced by the hour, and some have no price
    return min(round(price.total_price * BILLION), MAX_COUNT) if is_priced_by_token else None


def _count_cache_tokens(usage: Usage) -> tuple[int, int]:
    """Return the input tokens read from the cache and written to it, at most all input: some servers count them beside the input."""
    read = min(usage.cached, usage.input)
    return read, min(usage.written, usage.input - read)


class PricedModel(ABC):
    """A model that sets the cost of its replies and failures."""

    options: RequestOptions
    address: str
    prices: Mapping[str, Price] | None = None
    provider: str
    """The provider whose prices apply if the address is unknown, as `genai-prices` names it; empty: none."""
    is_name_a_model: bool = True
    """False if the name is that of a deployment, which does not tell the model."""
    _clients: LoopClients

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that is recorded with each reply."""

    @abstractmethod
    async def body(self, request: ModelRequest) -> bytes:
        """Return the body that the provider is sent for a request, such as `await session.seen()`. Nothing is sent."""

    async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        """Send a request to the model and return its reply with its cost."""
        try:
            async with limit_request_time(self._clients.timeout_s):
                reply = await self._request_reply(request, emit)
        except ModelFailed as failure:
            failure.summary = f"{self.name}: {failure.summary}"
            if failure.usage is not None:
                failure.usage = self._add_cost(failure.usage)
            raise
        except asyncio.CancelledError as stop:
            if isinstance(usage := getattr(stop, "usage", None), Usage):
                stop.usage = self._add_cost(usage)  # type: ignore[attr-defined]
            raise
        return replace(reply, usage=self._add_cost(reply.usage, reply.model))

    def is_price_unknown(self) -> bool:
        """Return True if it is certain before any request that the model has no known price."""
        if not self.is_name_a_model:
            return False
        return self._compute_cost(Usage(), self.options.model, self.address) is None

    def _add_cost(self, usage: Usage, model: str = "") -> Usage:
        """Return the usage with its cost, unless it has one. `model`: the name in the reply, which may be more exact than the requested."""
        if usage.cost is not None or not usage.total:
            return usage
        return replace(usage, cost=self._compute_cost(usage, model or self.options.model, get_client_address(self._clients())))

    def _compute_cost(self, usage: Usage, model: str, address: str) -> int | None:
        if price := find_own_price((model, self.options.model), self.prices):
            return compute_cost(usage, price)
        return compute_published_cost(usage, model, self.provider, address)

    @abstractmethod
    async def _request_reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        """Return the reply, with the usage that the provider counted."""


def find_models_without_price(model: object) -> list[PricedModel]:
    """Return this model, or the models behind it, if it is certain before any request that they have no known price."""
    if isinstance(model, PricedModel):
        return [model] if model.is_price_unknown() else []
    return [lacking for each in getattr(model, "models", ()) for lacking in find_models_without_price(each)]


def make_missing_price_hint() -> str:
    """Return what to do if a price is unknown."""
    from importlib.util import find_spec

    missing = find_spec("genai_prices") is None
    return "pass prices={...} to the model" + (", or install genai-prices, which knows published prices" if missing else "")
