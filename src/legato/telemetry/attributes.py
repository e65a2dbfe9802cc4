"""The attributes of spans and metrics.

Their names are those of the GenAI semantic conventions, which are in development. They are written out here because the package that has
them as constants calls each of them deprecated since the conventions moved to a repository of their own. Legato's own names begin with
`legato.`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from legato.core.facts import Call, Content, ModelReplied, OutputText, Refusal, Usage
from legato.core.messages import render_content
from legato.core.secret_arguments import mask_arguments

PROVIDER_NAMES = {"openai": "openai", "openai-chat": "openai", "azure": "azure.ai.openai", "anthropic": "anthropic"}
"""The conventions' names of providers, by the prefix of a model's name."""

FINISH_REASONS = {"stop": "stop", "length": "length", "filter": "content_filter"}

TOKEN_BUCKETS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
DURATION_BUCKETS_S = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""The bucket bounds that the conventions recommend."""

Attributes = dict[str, Any]


def model_attributes(name: str) -> Attributes:
    """Return the provider and model of a model's name.

    >>> model_attributes("azure:gpt-5.1")
    {'gen_ai.provider.name': 'azure.ai.openai', 'gen_ai.request.model': 'gpt-5.1'}
    """
    provider, colon, model = name.partition(":")
    return {"gen_ai.provider.name": PROVIDER_NAMES.get(provider, provider), "gen_ai.request.model": model if colon else name}


def usage_attributes(usage: Usage) -> Attributes:
    """Return the attributes of a usage, without counts of 0.

    The dollars are those of known prices: 0 for a free model, and missing where no price is known. The tokens without a price have an
    attribute of their own.

    >>> usage_attributes(Usage(input=5))
    {'gen_ai.usage.input_tokens': 5, 'legato.usage.unpriced_tokens': 5}
    """
    counts: Mapping[str, float] = {
        "gen_ai.usage.input_tokens": usage.input,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cached,
        "gen_ai.usage.cache_creation.input_tokens": usage.written,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning,
        "legato.usage.unpriced_tokens": usage.unpriced_tokens,
    }
    cost = {"legato.usage.dollars": usage.dollars} if usage.total and usage.dollars is not None else {}
    return {**{name: value for name, value in counts.items() if value}, **cost}


def reply_attributes(fact: ModelReplied) -> Attributes:
    """Return the attributes of a model's reply."""
    calls = any(isinstance(item, Call) for item in fact.items)
    attributes = {
        "gen_ai.response.model": fact.model.partition(":")[2] or fact.model,
        "gen_ai.response.finish_reasons": ("tool_call" if calls and fact.finish == "stop" else FINISH_REASONS[fact.finish],),
        **usage_attributes(fact.usage),
    }
    return {**attributes, "gen_ai.response.id": fact.response_id} if fact.response_id else attributes


def render_message(role: str, content: Content) -> str:
    """Return a message as the conventions' JSON."""
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": render_content(content)}]}], ensure_ascii=False)


def render_reply(fact: ModelReplied, secrets_of: Mapping[str, Collection[str] | None]) -> str:
    """Return a reply as the conventions' JSON, without reasoning and with masked secret arguments."""
    parts: list[dict[str, Any]] = []
    for index, item in enumerate(fact.items):
        match item:
            case OutputText() | Refusal():
                parts.append({"type": "text", "content": item.text})
            case Call():
                shown = mask_arguments(item.arguments, secrets_of.get(item.tool))
                parts.append({"type": "tool_call", "id": f"{index}", "name": item.tool, "arguments": shown})
            case _:
                pass
    return json.dumps([{"role": "assistant", "parts": parts, "finish_reason": FINISH_REASONS[fact.finish]}], ensure_ascii=False)
