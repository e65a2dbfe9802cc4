"""The context of one Messages request: its headers and fields, the provider's state, and the switches in force."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct

from legato.providers.rules.anthropic.betas import parse_betas
from legato.providers.rules.anthropic.prefix_digest import list_blocks
from legato.providers.rules.anthropic.provider_state import AnthropicModelInfo, AnthropicState
from legato.providers.rules.anthropic.request_shape import NO_SAMPLING_VERSION, SAMPLING_FIELDS
from legato.providers.rules.anthropic.rule_switches import AnthropicRuleSwitches
from legato.providers.rules.anthropic.thinking_blocks import ThinkingBlock, find_thinking_blocks
from legato.providers.rules.anthropic.turns import RoleTurn, merge_turns

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


class AnthropicContext(Struct, frozen=True, dict=True):
    """A request with its headers, the provider's state and the switches in force.

    From `turns` on, properties take for granted that the request has its shape: earlier phases checked it.
    """

    request: Any
    headers: Mapping[str, str]
    state: AnthropicState
    token_count: int = 0  # of the prompt; 0: not counted
    switches: AnthropicRuleSwitches = AnthropicRuleSwitches()
    body_bytes: int = 0  # 0: not counted

    @cached_property
    def betas(self) -> frozenset[str]:
        """The betas in the headers."""
        return parse_betas(self.headers)

    @cached_property
    def version(self) -> str:
        """The version of the API in the headers; empty: none."""
        return next((value for name, value in self.headers.items() if name.lower() == "anthropic-version"), "")

    @cached_property
    def is_version_2026_10_21_or_later(self) -> bool:
        """True if this version of the API has no sampling options any more. Versions are dates."""
        return bool(_DATE.fullmatch(self.version)) and self.version >= NO_SAMPLING_VERSION

    @property
    def removed_fields(self) -> tuple[str, ...]:
        """The fields that this version does not have any more."""
        return SAMPLING_FIELDS if self.is_version_2026_10_21_or_later else ()

    @cached_property
    def model_info(self) -> AnthropicModelInfo | None:
        """The properties of the model. None: it does not exist."""
        return self.state.find_model(self.request["model"])

    @property
    def model(self) -> AnthropicModelInfo:
        """The properties of the model; those of one without known limits if it does not exist."""
        return self.model_info or AnthropicModelInfo("")

    @cached_property
    def turns(self) -> list[RoleTurn]:
        """The turns of the conversation."""
        return merge_turns(self.request["messages"])

    @property
    def last_turn(self) -> RoleTurn:
        """The last turn of the conversation."""
        return self.turns[-1]

    @cached_property
    def thinking_blocks(self) -> list[ThinkingBlock]:
        """The thinking blocks of the request."""
        return list(find_thinking_blocks(self.request, self.state, self.model))

    @cached_property
    def server_use_positions(self) -> dict[str, tuple[int, int]]:
        """The first message and block of each id of a server tool use."""
        positions: dict[str, tuple[int, int]] = {}
        for turn in self.turns:
            for block in turn.blocks_of_type("server_tool_use", "mcp_tool_use"):
                positions.setdefault(block.value["id"], (block.message_index, block.block_index))
        return positions

    @property
    def thinking_type(self) -> str:
        """The type of the request's thinking setting; empty if it has none."""
        return str((self.request.get("thinking") or {}).get("type", ""))

    @property
    def effort(self) -> str:
        """The request's effort; empty if it has none."""
        return str((self.request.get("output_config") or {}).get("effort") or "")

    @property
    def tool_names(self) -> list[str]:
        """The names of the tools that have one."""
        names = [tool.get("name") for tool in self.request.get("tools") or ()]
        return [name for name in names if isinstance(name, str)]

    def list_cached_blocks(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the path and the value of each `cache_control`, in the order in which the API processes them."""
        for index, tool in enumerate(self.request.get("tools") or ()):
            yield from _find_cache_control(f"tools.{index}", tool)
        for index, block in enumerate(list_blocks(self.request.get("system"))):
            yield from _find_cache_control(f"system.{index}", block)
        for placed in (block for turn in self.turns for block in turn.blocks):
            inner = list_blocks(placed.value.get("content")) if placed.type == "tool_result" else []
            for index, block in enumerate(inner):
                yield from _find_cache_control(f"{placed.path}.content.{index}", block)
            yield from _find_cache_control(placed.path, placed.value)
        yield from _find_cache_control("", self.request)


def _find_cache_control(path: str, members: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    if members.get("cache_control") is not None:
        yield f"{path}.cache_control".lstrip("."), members["cache_control"]
