"""The models of the emulator, under the providers' names.

A name that is not in the catalogue still counts as a model of its family: a dated or fine-tuned variant (it contains a known name) or a
newer one (it begins as the family's names do). Any other name does not exist, unless the catalogue accepts any name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from legato.emulator.chat_capabilities import find_chat_capabilities
from legato.providers.rules.anthropic import model_generations
from legato.providers.rules.anthropic.provider_state import AnthropicModelInfo as AnthropicInfo
from legato.providers.rules.anthropic.provider_state import read_model_name
from legato.providers.rules.chat.model_info import ChatModelInfo as ChatInfo
from legato.providers.rules.responses.provider_state import ResponsesModelInfo as OpenAIInfo

Vendor: TypeAlias = Literal["openai", "anthropic"]


class CatalogueModel(Struct, frozen=True):
    """A model of the catalogue. `dated_name` is the name in its replies; empty: the same as `name`."""

    name: str
    vendor: Vendor = "openai"
    dated_name: str = ""
    has_reasoning: bool | None = False  # None: not known from its name
    context_window: int = 0  # tokens; 0: no limit
    has_phases: bool = False  # its messages are marked as commentary or as the final answer
    binds_thinking: bool = False  # its thinking is bound to the messages before it
    accepts_prefill: bool = True  # a conversation may end with an assistant message
    max_output_tokens: int = 0  # 0: no limit
    accepts_system_role: bool = True  # messages may have the role `system`
    readable_models: tuple[str, ...] = ()  # other models whose thinking it may read
    has_public_thinking: bool = False  # any model may read its thinking
    created: int = 0
    default_effort: str = ""  # empty: not known
    efforts: tuple[str, ...] = ()  # the efforts that it accepts; empty: not known

    @property
    def reply_name(self) -> str:
        """The model's name in its replies."""
        return self.dated_name or self.name


def _openai_model(
    name: str,
    release_day: str,
    context_window: int,
    *,
    dated_suffix: bool | str = True,
    efforts: str = "",
    default_effort: str = "medium",
    has_phases: bool = False,
) -> CatalogueModel:
    """Return a model of OpenAI's. `dated_suffix` True: the day. `efforts` are separated by spaces; without efforts it has no reasoning."""
    ending = release_day if dated_suffix is True else dated_suffix
    return CatalogueModel(
        name,
        dated_name=f"{name}-{ending}" if ending else "",
        has_reasoning=bool(efforts),
        context_window=context_window,
        has_phases=has_phases,
        created=_timestamp_of(release_day),
        default_effort=default_effort if efforts else "",
        efforts=tuple(efforts.split()),
    )


def _claude_model(
    name: str,
    release_day: str,
    context_window: int,
    *,
    has_dated_name: bool = False,
    binds_thinking: bool = False,
    readable_models: tuple[str, ...] = (),
) -> CatalogueModel:
    is_old_generation = model_generations.accepts_prefill(name)  # a generation that accepts a prefill does not accept the role `system`
    return CatalogueModel(
        name,
        "anthropic",
        f"{name}-{release_day.replace('-', '')}" if has_dated_name else "",
        has_reasoning=True,
        context_window=context_window,
        binds_thinking=binds_thinking,
        accepts_prefill=is_old_generation,
        max_output_tokens=64_000 if is_old_generation else 0,
        accepts_system_role=not is_old_generation,
        readable_models=readable_models,
        has_public_thinking=name == "claude-haiku-5-5",
        created=_timestamp_of(release_day),
    )


def _timestamp_of(day: str) -> int:
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp())


# Efforts, from error messages and recordings; those of the newest models are estimates.
_LOW_TO_HIGH = "low medium high"
_GPT_5_EFFORTS = f"minimal {_LOW_TO_HIGH}"
_CODEX_EFFORTS = f"{_LOW_TO_HIGH} xhigh"
_PRO_EFFORTS = "medium high xhigh"
_GPT_5_2_EFFORTS = f"none {_LOW_TO_HIGH} xhigh"
_GPT_5_6_EFFORTS = f"none {_LOW_TO_HIGH} xhigh max"
_GPT_6_EFFORTS = f"{_LOW_TO_HIGH} xhigh max"

# The days of undated models and the windows of the newest are estimates: nothing in the emulator's rules hangs on them.
KNOWN_MODELS: tuple[CatalogueModel, ...] = (
    _openai_model("gpt-3.5-turbo", "2024-01-25", 0, dated_suffix="0125"),  # the windows of its variants differ, as those of gpt-4
    _openai_model("gpt-4", "2023-06-13", 0, dated_suffix="0613"),
    _openai_model("gpt-4-turbo", "2024-04-09", 128_000),
    _openai_model("gpt-4.5-preview", "2025-02-27", 128_000),
    _openai_model("gpt-4o", "2024-08-06", 128_000),
    _openai_model("gpt-4o-mini", "2024-07-18", 128_000),
    _openai_model("gpt-4o-search-preview", "2025-03-11", 128_000),
    _openai_model("gpt-4o-mini-search-preview", "2025-03-11", 128_000),
    _openai_model("gpt-4o-audio-preview", "2025-06-03", 128_000),
    _openai_model("gpt-4o-mini-audio-preview", "2024-12-17", 128_000),
    _openai_model("chatgpt-4o-latest", "2024-08-14", 128_000, dated_suffix=False),
    _openai_model("gpt-4.1", "2025-04-14", 1_047_576),
    _openai_model("gpt-4.1-mini", "2025-04-14", 1_047_576),
    _openai_model("gpt-4.1-nano", "2025-04-14", 1_047_576),
    _openai_model("computer-use-preview", "2025-03-11", 8_192, efforts=_LOW_TO_HIGH),
    _openai_model("o1", "2024-12-17", 200_000, efforts=_LOW_TO_HIGH),
    _openai_model("o1-pro", "2025-03-19", 200_000, efforts=_LOW_TO_HIGH),
    _openai_model("o3", "2025-04-16", 200_000, efforts=_LOW_TO_HIGH),
    _openai_model("o3-mini", "2025-01-31", 200_000, efforts=_LOW_TO_HIGH),
    _openai_model("o3-pro", "2025-06-10", 200_000, efforts=_LOW_TO_HIGH),
    _openai_model("o3-deep-research", "2025-06-26", 200_000, efforts="medium"),
    _openai_model("o4-mini", "2025-04-16", 200_000, efforts=_LOW_TO_HIGH),
    _openai_model("o4-mini-deep-research", "2025-06-26", 200_000, efforts="medium"),
    _openai_model("codex-mini-latest", "2025-05-16", 200_000, dated_suffix=False, efforts=_LOW_TO_HIGH),
    _openai_model("gpt-5", "2025-08-07", 400_000, efforts=_GPT_5_EFFORTS),
    _openai_model("gpt-5-mini", "2025-08-07", 400_000, efforts=_GPT_5_EFFORTS),
    _openai_model("gpt-5-nano", "2025-08-07", 400_000, efforts=_GPT_5_EFFORTS),
    _openai_model("gpt-5-chat-latest", "2025-08-07", 128_000, dated_suffix=False),
    _openai_model("gpt-5-chat", "2025-08-07", 128_000, dated_suffix=False),
    _openai_model("gpt-5-pro", "2025-10-06", 400_000, efforts="high", default_effort="high"),
    _openai_model("gpt-5-codex", "2025-09-15", 400_000, dated_suffix=False, efforts=_LOW_TO_HIGH),
    _openai_model("gpt-5.1", "2025-11-13", 400_000, efforts=f"none {_LOW_TO_HIGH}", default_effort="none"),
    _openai_model("gpt-5.1-chat-latest", "2025-11-13", 128_000, dated_suffix=False, efforts="medium"),
    _openai_model("gpt-5.1-codex", "2025-11-13", 400_000, dated_suffix=False, efforts=_LOW_TO_HIGH),
    _openai_model("gpt-5.1-codex-mini", "2025-11-13", 400_000, dated_suffix=False, efforts=_LOW_TO_HIGH),
    _openai_model("gpt-5.1-codex-max", "2025-12-04", 400_000, dated_suffix=False, efforts=_CODEX_EFFORTS),
    _openai_model("gpt-5.2", "2025-12-11", 400_000, efforts=_GPT_5_2_EFFORTS, default_effort="none"),
    _openai_model("gpt-5.2-chat", "2025-12-11", 128_000, dated_suffix=False, efforts="medium"),
    _openai_model("gpt-5.2-chat-latest", "2025-12-11", 128_000, dated_suffix=False, efforts="medium"),
    _openai_model("gpt-5.2-pro", "2025-12-11", 400_000, efforts=_PRO_EFFORTS),
    _openai_model("gpt-5.2-codex", "2026-01-14", 400_000, dated_suffix=False, efforts=_CODEX_EFFORTS),
    _openai_model("gpt-5.3-chat-latest", "2026-03-03", 128_000, dated_suffix=False, efforts="medium"),
    _openai_model("gpt-5.3-codex", "2026-02-05", 400_000, dated_suffix=False, efforts=f"none {_CODEX_EFFORTS}", has_phases=True),
    _openai_model("gpt-5.4", "2026-03-05", 1_050_000, efforts=_GPT_5_2_EFFORTS, default_effort="none", has_phases=True),
    _openai_model("gpt-5.4-mini", "2026-03-17", 400_000, efforts=_GPT_5_2_EFFORTS, default_effort="none", has_phases=True),
    _openai_model("gpt-5.4-nano", "2026-03-17", 400_000, efforts=_GPT_5_2_EFFORTS, default_effort="none", has_phases=True),
    _openai_model("gpt-5.4-pro", "2026-03-05", 1_050_000, efforts=_PRO_EFFORTS, has_phases=True),
    _openai_model("gpt-5.5", "2026-04-23", 1_050_000, efforts=_GPT_5_2_EFFORTS, has_phases=True),
    _openai_model("gpt-5.5-pro", "2026-04-23", 1_050_000, efforts=_PRO_EFFORTS, has_phases=True),
    _openai_model("gpt-5.6", "2026-07-09", 1_050_000, dated_suffix="sol", efforts=_GPT_5_6_EFFORTS, has_phases=True),
    _openai_model("gpt-5.6-sol", "2026-07-09", 1_050_000, dated_suffix=False, efforts=_GPT_5_6_EFFORTS, has_phases=True),
    _openai_model("gpt-5.6-terra", "2026-07-09", 1_050_000, dated_suffix=False, efforts=_GPT_5_6_EFFORTS, has_phases=True),
    _openai_model("gpt-5.6-luna", "2026-07-09", 400_000, dated_suffix=False, efforts=_GPT_5_6_EFFORTS, has_phases=True),
    _openai_model("gpt-6-astra", "2026-09-17", 1_050_000, dated_suffix=False, efforts=_GPT_6_EFFORTS, has_phases=True),
    _openai_model("gpt-6-sol", "2026-09-17", 1_050_000, dated_suffix=False, efforts=_GPT_6_EFFORTS, has_phases=True),
    _openai_model("gpt-6-luna", "2026-09-17", 400_000, dated_suffix=False, efforts=_GPT_6_EFFORTS, has_phases=True),
    _openai_model("gpt-6.1-sol", "2026-10-22", 1_050_000, dated_suffix=False, efforts=_GPT_6_EFFORTS, has_phases=True),
    _openai_model("gpt-oss-20b", "2025-08-05", 131_072, dated_suffix=False, efforts=_LOW_TO_HIGH),
    _openai_model("gpt-oss-120b", "2025-08-05", 131_072, dated_suffix=False, efforts=_LOW_TO_HIGH),
    _claude_model("claude-haiku-4-5", "2025-10-01", 200_000, has_dated_name=True),
    _claude_model("claude-sonnet-4-5", "2025-09-29", 200_000, has_dated_name=True),
    _claude_model("claude-opus-4-5", "2025-11-01", 200_000, has_dated_name=True),
    _claude_model("claude-sonnet-4-6", "2026-02-17", 200_000),
    _claude_model("claude-opus-4-6", "2026-02-05", 200_000),
    _claude_model("claude-opus-4-7", "2026-04-16", 1_000_000),
    _claude_model("claude-opus-4-8", "2026-05-28", 1_000_000),
    _claude_model("claude-sonnet-5", "2026-06-30", 1_000_000),
    _claude_model("claude-opus-5", "2026-07-24", 1_000_000),
    _claude_model("claude-fable-5", "2026-06-09", 1_000_000),
    _claude_model("claude-mythos-5", "2026-06-09", 1_000_000),
    _claude_model("claude-fable-5-1", "2026-08-31", 1_000_000, binds_thinking=True, readable_models=("claude-opus-5-5",)),
    _claude_model("claude-mythos-5-1", "2026-08-31", 1_000_000, binds_thinking=True),
    _claude_model("claude-opus-5-5", "2026-09-14", 1_000_000, binds_thinking=True),
    _claude_model("claude-sonnet-5-5", "2026-10-05", 1_000_000, binds_thinking=True),
    _claude_model("claude-haiku-5-5", "2026-10-19", 1_000_000, binds_thinking=True),
    _claude_model("claude-fable-5-2", "2026-11-02", 1_000_000, binds_thinking=True),
    _claude_model("claude-mythos-5-2", "2026-11-02", 1_000_000, binds_thinking=True),
)

_FAMILY_NAMES = {
    "openai": re.compile(r"(?:openai[/.])?(?:gpt-(?:\d|oss|audio|image|realtime)|chatgpt-|codex-|o\d)"),
    # The names since Claude 4 (`claude-opus-4-1`), those of Claude 3 (`claude-3-5-haiku-latest`), and the oldest.
    "anthropic": re.compile(r"claude-((opus|sonnet|haiku|fable|mythos)-(\d|preview)|3(-[57])?-(opus|sonnet|haiku)|v?[12](?!\d)|instant)"),
}
_REASONING_FAMILY_NAMES = re.compile(r"o\d|gpt-(?!35)([5-9]|\d\d)|codex-")  # Azure writes gpt-35 for gpt-3.5
_LETTER_OR_DIGIT = "[a-z0-9]"
_NAME_PREFIX, _NAME_SUFFIX = r"(?:.*[:/]|openai\.)?", r"(?:[-_@]\d[\d-]*)?(?::.*)?"
"""The texts before and after a model's name that do not change the model: a vendor or `ft:`, and a date or a fine-tuned model's label."""
_NEWEST_GENERATION = 6.1
_VARIANT_WORDS = re.compile(
    "alpha|api|astra|audio|beta|chat|codex|deep|diarize|fast|image|instant|instruct|latest|lite|luna|max|mini|nano|oss|preview|pro|realtime"
    "|research|safeguard|search|sol|spark|terra|thinking|transcribe|translate|tts|turbo|ultra|vision"
)
"""The words in names of OpenAI's variants. A name with any other word does not exist, as `gpt-4o-minni`."""


def _is_plausible_variant(name: str) -> bool:
    """Return True if an OpenAI name could be a model that the catalogue does not have.

    >>> [_is_plausible_variant(name) for name in ("gpt-4o-mini-2026-01-01", "gpt-5.2-proo", "gpt-7-ultra")]
    [True, False, True]
    """
    words = [word for word in re.split("[-_/ ]", name.partition("gpt-")[2]) if word]
    if not words or name.startswith("ft:"):
        return True
    generation = re.match(r"\d+(\.\d+)?", words[0])
    if generation and _NEWEST_GENERATION < float(generation[0]) < 35:
        return True
    return all(_VARIANT_WORDS.fullmatch(word) or not word.isalpha() for word in words)


class ModelCatalogue:
    """The models that exist. `accepts_any_name`: every name is a model.

    >>> catalogue = ModelCatalogue()
    >>> catalogue.find_responses_info("gpt-4o").context_window, catalogue.find_responses_info("o4-mini").has_reasoning
    (128000, True)
    >>> catalogue.find_responses_info("no-such-model") is None
    True
    >>> catalogue.find("openai", "gpt-4o").reply_name
    'gpt-4o-2024-08-06'
    >>> catalogue.find_anthropic_info("claude-opus-5.5").binds_thinking
    True
    >>> catalogue.find_anthropic_info("claude-3-opus-20240229").accepts_prefill, catalogue.find("anthropic", "claude-sonet-4-5") is None
    (True, True)
    """

    def __init__(self, models: Iterable[CatalogueModel] = KNOWN_MODELS, *, accepts_any_name: bool = False) -> None:
        self.accepts_any_name = accepts_any_name
        self.models = tuple(models)
        self._by_name = {(model.vendor, name): model for model in self.models for name in (model.reply_name, model.name)}
        longest_first = sorted(self.models, key=lambda model: -len(model.name))
        self._name_patterns = [
            (re.compile(f"(?<!{_LETTER_OR_DIGIT}){re.escape(model.name)}(?!{_LETTER_OR_DIGIT})"), model) for model in longest_first
        ]

    def find(self, vendor: Vendor, name: str, *, is_deployment: bool = False) -> CatalogueModel | None:
        """Return the model with that name, or None. A deployment may have any name."""
        if not name:
            return None
        # Anthropic's documents write 5.5 where its API has 5-5.
        normalized_name = name.lower().replace(".", "-") if vendor == "anthropic" else name.lower()
        exact = self._by_name.get((vendor, normalized_name)) or self._by_name.get((vendor, name))
        if exact:
            return exact if name == exact.name else replace(exact, name=name)
        if vendor == "openai" and not (is_deployment or self.accepts_any_name or _is_plausible_variant(normalized_name)):
            return None
        return (
            self._find_variant(vendor, name, normalized_name)
            or self._find_by_family(vendor, name, normalized_name)
            or self._find_by_any_name(vendor, name, is_deployment)
        )

    def _find_variant(self, vendor: Vendor, name: str, normalized_name: str) -> CatalogueModel | None:
        """Return a model whose name is part of this name: with a vendor or a date, or as a variant."""
        for pattern, model in self._name_patterns:
            if (
                model.vendor == vendor
                and (":" not in normalized_name or normalized_name.startswith("ft:"))
                and pattern.search(normalized_name)
            ):
                same = re.fullmatch(f"{_NAME_PREFIX}{re.escape(model.name)}{_NAME_SUFFIX}", normalized_name)
                if not same:  # a variant may have other efforts
                    model = replace(model, default_effort="", efforts=())
                return replace(model, name=name, dated_name=name)
        return None

    def _find_by_family(self, vendor: Vendor, name: str, normalized_name: str) -> CatalogueModel | None:
        """Return an unknown model of a known family, with the properties that its name implies."""
        base = normalized_name.removeprefix("ft:")
        if not _FAMILY_NAMES[vendor].match(base):
            return None
        has_reasoning = vendor == "anthropic" or (bool(_REASONING_FAMILY_NAMES.match(base)) and "chat" not in normalized_name)
        is_old_generation = vendor == "anthropic" and model_generations.accepts_prefill(normalized_name)
        return CatalogueModel(
            name,
            vendor,
            has_reasoning=has_reasoning,
            accepts_prefill=vendor != "anthropic" or is_old_generation,
            accepts_system_role=not is_old_generation,
        )

    def _find_by_any_name(self, vendor: Vendor, name: str, is_deployment: bool) -> CatalogueModel | None:
        return (
            CatalogueModel(name, vendor, has_reasoning=None, accepts_prefill=vendor != "anthropic")
            if is_deployment or self.accepts_any_name
            else None
        )

    def find_responses_info(self, name: str, *, is_deployment: bool = False) -> OpenAIInfo | None:
        """Return a model for the rules of the Responses API. None: it does not exist."""
        model = self.find("openai", name, is_deployment=is_deployment)
        return OpenAIInfo(model.name, model.has_reasoning, model.context_window, model.default_effort, model.efforts) if model else None

    def find_chat_info(self, name: str, *, is_deployment: bool = False) -> ChatInfo | None:
        """Return a model for the rules of Chat Completions. None: it does not exist."""
        model = self.find("openai", name, is_deployment=is_deployment)
        if model is None:
            return None
        capabilities = find_chat_capabilities(model.name) if model.has_reasoning is not None else {}
        return ChatInfo(
            model.name,
            model.has_reasoning,
            model.context_window,
            default_effort=model.default_effort,
            efforts=model.efforts,
            **capabilities,
        )

    def find_anthropic_info(self, name: str) -> AnthropicInfo | None:
        """Return a model for Anthropic's rules. None: it does not exist."""
        model = self.find("anthropic", name)
        if model is None:
            return None
        return replace(
            read_model_name(model.name),
            binds_thinking=model.binds_thinking,
            accepts_prefill=model.accepts_prefill,
            context_window=model.context_window,
            max_output_tokens=model.max_output_tokens,
            accepts_system_role=model.accepts_system_role,
            readable_models=model.readable_models,
            has_public_thinking=model.has_public_thinking,
        )

    def list_openai(self) -> tuple[int, dict[str, Any]]:
        """Answer `GET /v1/models` as OpenAI does."""
        mine = [model for model in self.models if model.vendor == "openai"]
        named = {name: model for model in mine for name in (model.name, model.reply_name)}
        return 200, {"object": "list", "data": [_openai_body(name, model) for name, model in named.items()]}

    def get_openai(self, name: str) -> tuple[int, dict[str, Any]]:
        """Answer `GET /v1/models/{name}` as OpenAI does."""
        model = self.find("openai", name)
        if model:
            return 200, _openai_body(name, model)
        message = f"The model '{name}' does not exist"
        return 404, {"error": {"message": message, "type": "invalid_request_error", "param": "model", "code": "model_not_found"}}

    def list_anthropic(self, limit: int = 20, after: str = "", before: str = "") -> tuple[int, dict[str, Any]]:
        """Answer `GET /v1/models` as Anthropic does: a page, the newest first. `before`: the page that ends before this model."""
        newest = sorted((model for model in self.models if model.vendor == "anthropic"), key=lambda model: -model.created)
        names = [model.reply_name for model in newest]
        start = names.index(after) + 1 if after in names else 0
        stop = start + max(limit, 1)
        if before in names:
            stop = names.index(before)
            start = max(0, stop - max(limit, 1))
        page = newest[start:stop]
        return 200, {
            "data": [_anthropic_body(model.reply_name, model) for model in page],
            "first_id": page[0].reply_name if page else None,
            "has_more": start > 0 if before in names else start + len(page) < len(newest),
            "last_id": page[-1].reply_name if page else None,
        }

    def get_anthropic(self, name: str) -> tuple[int, dict[str, Any]]:
        """Answer `GET /v1/models/{name}` as Anthropic does, without the request's id."""
        model = self.find("anthropic", name)
        if model:
            return 200, _anthropic_body(model.reply_name, model)
        return 404, {"type": "error", "error": {"type": "not_found_error", "message": f"model: {name}"}}


def _openai_body(name: str, model: CatalogueModel) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": model.created, "owned_by": "system"}


def _anthropic_body(name: str, model: CatalogueModel) -> dict[str, Any]:
    line, *version = [part for part in model.name.split("-")[1:] if part.isalpha() or len(part) < 3] or [model.name]
    return {
        "type": "model",
        "id": name,
        "display_name": f"Claude {line.capitalize()} {'.'.join(version)}".rstrip(),
        "created_at": datetime.fromtimestamp(model.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
        "line": line,
        "deprecated_at": None,
        "retires_at": None,
        "max_input_tokens": model.context_window,
        "max_tokens": 64_000,
        "capabilities": None,
    }
