"""The switches of the Anthropic Messages rules, with defaults where the provider's behaviour is not certain."""

from __future__ import annotations

from msgspec import Struct


class AnthropicRuleSwitches(Struct, frozen=True, kw_only=True):
    """The switches of the Anthropic Messages rules. A limit of 0 is no limit."""

    version_header: bool = True  # M21
    size_limit: int = 32 * 1024 * 1024  # M22b: bytes
    binding: bool = True  # M9 as for accounts made since 2026-08-31; older ones are bound only where the request sets `block_binding`
    signatures: bool = True  # M7, M8: signatures are checked
    results_first: bool = True  # M5: from the provider's documents, no body seen
    first_message_is_user: bool = False  # M14a: historic
    alternation: bool = False  # M14b: historic
    tools_with_tool_history: bool = False  # M25: lifted by the provider in 2025-02; Bedrock still has it
    forced_tool_without_thinking: bool = True
    temperature_with_thinking: bool = True
    unique_tool_names: bool = True
    cache_limit: int = 4  # M18
