"""What spans and metrics are called. May know: facts and the conventions. Decides: which attribute says what.

The names are those of the GenAI semantic conventions, which are in development; they are written out here because the package that has them
as constants calls each of them deprecated since the conventions moved to a repository of their own. What is ours begins with `legato.`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from legato.core.facts import Call, Content, ModelReplied, Refusal, Usage, Words
from legato.core.messages import text_of
from legato.core.secret_arguments import masked

PROVIDERS = {"openai": "openai", "openai-chat": "openai", "azure": "azure.ai.openai", "anthropic": "anthropic"}
"""The conventions' names for those who answer, by the first word of a model's name."""

FINISHES = {"stop": "stop", "length": "length", "filter": "content_filter"}

TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""The bounds of buckets that the conventions advise."""

Attributes = dict[str, Any]


def model_named(name: str) -> Attributes:
    """Who is asked, and for which model.

    >>> model_named("azure:gpt-5.1")
    {'gen_ai.provider.name': 'azure.ai.openai', 'gen_ai.request.model': 'gpt-5.1'}
    """
    provider, colon, model = name.partition(":")
    return {"gen_ai.provider.name": PROVIDERS.get(provider, provider), "gen_ai.request.model": model if colon else name}


def used(usage: Usage) -> Attributes:
    """What was used, as far as there is anything to say.

    The dollars are those of known prices: 0 for what is free, and missing where no price is known. The tokens without a price are told
    beside them.

    >>> used(Usage(input=5))
    {'gen_ai.usage.input_tokens': 5, 'legato.usage.unpriced_tokens': 5}
    """
    told: Mapping[str, float] = {
        "gen_ai.usage.input_tokens": usage.input,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cached,
        "gen_ai.usage.cache_creation.input_tokens": usage.written,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning,
        "legato.usage.unpriced_tokens": usage.unpriced_tokens,
    }
    cost = {"legato.usage.dollars": usage.dollars} if usage.total and usage.dollars is not None else {}
    return {**{name: value for name, value in told.items() if value}, **cost}


def answered(fact: ModelReplied) -> Attributes:
    """What a reply says of itself."""
    calls = any(isinstance(item, Call) for item in fact.items)
    told = {
        "gen_ai.response.model": fact.model.partition(":")[2] or fact.model,
        "gen_ai.response.finish_reasons": ("tool_call" if calls and fact.finish == "stop" else FINISHES[fact.finish],),
        **used(fact.usage),
    }
    return {**told, "gen_ai.response.id": fact.response_id} if fact.response_id else told


def said(role: str, content: Content) -> str:
    """One message, as the conventions write it."""
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text_of(content)}]}], ensure_ascii=False)


def replied(fact: ModelReplied, secrets_of: Mapping[str, Collection[str] | None]) -> str:
    """A reply as the conventions write it, without reasoning and with secret arguments hidden."""
    parts: list[dict[str, Any]] = []
    for index, item in enumerate(fact.items):
        match item:
            case Words() | Refusal():
                parts.append({"type": "text", "content": item.text})
            case Call():
                shown = masked(item.arguments, secrets_of.get(item.tool))
                parts.append({"type": "tool_call", "id": f"{index}", "name": item.tool, "arguments": shown})
            case _:
                pass
    return json.dumps([{"role": "assistant", "parts": parts, "finish_reason": FINISHES[fact.finish]}], ensure_ascii=False)
