"""A request before the law of the Messages API. May know: what the provider can tell. Decides: nothing; it looks things up once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct

from legato.providers.rules.anthropic.betas import betas_of
from legato.providers.rules.anthropic.held import Held, ModelInfo
from legato.providers.rules.anthropic.prefix import blocks_of
from legato.providers.rules.anthropic.profile import Profile
from legato.providers.rules.anthropic.request import SAMPLING, WITHOUT_SAMPLING
from legato.providers.rules.anthropic.thinking import Thought, thoughts
from legato.providers.rules.anthropic.turns import Turn, turns_of

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


class Case(Struct, frozen=True, dict=True):
    """A request and what is known about it. `tokens` and `size` (bytes) are 0 where nobody counted.

    What is looked up from the conversation on takes for granted that the request has its shape: earlier phases saw to that.
    """

    request: Any
    headers: Mapping[str, str]
    held: Held
    tokens: int = 0
    profile: Profile = Profile()
    size: int = 0

    @cached_property
    def betas(self) -> frozenset[str]:
        """The betas that are asked for."""
        return betas_of(self.headers)

    @cached_property
    def version(self) -> str:
        """The version of the API that is asked for; empty: none."""
        return next((value for name, value in self.headers.items() if name.lower() == "anthropic-version"), "")

    @cached_property
    def without_sampling(self) -> bool:
        """Tell whether the version of the API that is asked for is one without options of sampling. Versions are dates."""
        return bool(_DATE.fullmatch(self.version)) and self.version >= WITHOUT_SAMPLING

    @property
    def removed_fields(self) -> tuple[str, ...]:
        """The fields that this version does not have any more."""
        return SAMPLING if self.without_sampling else ()

    @cached_property
    def info(self) -> ModelInfo | None:
        """What is known of the model."""
        return self.held.model(self.request["model"])

    @property
    def model(self) -> ModelInfo:
        """The same, where it is known that the model exists."""
        return self.info or ModelInfo("")

    @cached_property
    def turns(self) -> list[Turn]:
        """The conversation."""
        return turns_of(self.request["messages"])

    @property
    def last(self) -> Turn:
        """The turn that ends the conversation."""
        return self.turns[-1]

    @cached_property
    def thoughts(self) -> list[Thought]:
        """The thinking blocks."""
        return list(thoughts(self.request, self.held, self.model))

    @cached_property
    def server_uses(self) -> dict[str, tuple[int, int]]:
        """Where each id of a use of the provider's own tools stands first."""
        found: dict[str, tuple[int, int]] = {}
        for turn in self.turns:
            for spot in turn.of("server_tool_use", "mcp_tool_use"):
                found.setdefault(spot.value["id"], (spot.message, spot.block))
        return found

    @property
    def thinks(self) -> str:
        """How the model is to think; empty where the request does not say."""
        return str((self.request.get("thinking") or {}).get("type", ""))

    @property
    def effort(self) -> str:
        """The effort that the request asks for; empty where it does not say."""
        return str((self.request.get("output_config") or {}).get("effort") or "")

    @property
    def tool_names(self) -> list[str]:
        """The names of the tools, where they have one."""
        names = [tool.get("name") for tool in self.request.get("tools") or ()]
        return [name for name in names if isinstance(name, str)]

    def cached(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The blocks that are to be cached and where they stand, in the order in which the API processes them."""
        for index, tool in enumerate(self.request.get("tools") or ()):
            yield from _cached(f"tools.{index}", tool)
        for index, block in enumerate(blocks_of(self.request.get("system"))):
            yield from _cached(f"system.{index}", block)
        for spot in (spot for turn in self.turns for spot in turn.spots):
            inner = blocks_of(spot.value.get("content")) if spot.type == "tool_result" else []
            for index, block in enumerate(inner):
                yield from _cached(f"{spot.path}.content.{index}", block)
            yield from _cached(spot.path, spot.value)
        yield from _cached("", self.request)


def _cached(path: str, thing: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    if thing.get("cache_control") is not None:
        yield f"{path}.cache_control".lstrip("."), thing["cache_control"]
