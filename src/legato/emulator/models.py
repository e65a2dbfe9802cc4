"""The models the emulator has, under the names the providers give them. May know: data. Decides: which names it answers to.

A name that is not in the catalogue is still taken for a model of its family: a dated or fine-tuned variant (it contains a known name)
or a newer one (it begins as the family's names do). Any other name does not exist, unless the catalogue was told to take any.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from legato.emulator.chat_abilities import abilities_of
from legato.providers.rules.anthropic import generations
from legato.providers.rules.anthropic.held import ModelInfo as AnthropicInfo
from legato.providers.rules.anthropic.held import info_of
from legato.providers.rules.chat.held import ModelInfo as ChatInfo
from legato.providers.rules.responses.held import ModelInfo as OpenAIInfo

Vendor: TypeAlias = Literal["openai", "anthropic"]


class Model(Struct, frozen=True):
    """One model. `dated` is the name that answers carry; empty: the same as `name`."""

    name: str
    vendor: Vendor = "openai"
    dated: str = ""
    reasons: bool | None = False  # None: its name does not tell
    window: int = 0  # tokens; 0: no limit
    phases: bool = False  # its messages say whether they are commentary or the final answer
    binds: bool = False  # its thinking is bound to what stood before it
    prefill: bool = True  # a conversation may end with the assistant's words
    output: int = 0  # the most tokens it writes; 0: no limit
    system_role: bool = True  # messages may have the role `system`
    reads: tuple[str, ...] = ()  # models other than itself whose thinking it may read
    unlocked: bool = False  # any model may read its thinking
    created: int = 0
    effort: str = ""  # how hard it thinks unless it is told otherwise; empty: not known
    efforts: tuple[str, ...] = ()  # the efforts that it takes; empty: not known

    @property
    def answers_as(self) -> str:
        """The name in its answers."""
        return self.dated or self.name


def _openai(
    name: str, day: str, window: int, *, dated: bool | str = True, efforts: str = "", effort: str = "medium", phases: bool = False
) -> Model:
    """A model of OpenAI's. `dated`: how its dated name ends, if not with the day. `efforts`: those that it takes, if it reasons."""
    ending = day if dated is True else dated
    return Model(
        name,
        dated=f"{name}-{ending}" if ending else "",
        reasons=bool(efforts),
        window=window,
        phases=phases,
        created=_second(day),
        effort=effort if efforts else "",
        efforts=tuple(efforts.split()),
    )


def _claude(name: str, day: str, window: int, *, dated: bool = False, binds: bool = False, reads: tuple[str, ...] = ()) -> Model:
    old = generations.prefills(name)  # a generation that still takes a prefill does not yet take the role `system`
    return Model(
        name,
        "anthropic",
        f"{name}-{day.replace('-', '')}" if dated else "",
        reasons=True,
        window=window,
        binds=binds,
        prefill=old,
        output=64_000 if old else 0,
        system_role=not old,
        reads=reads,
        unlocked=name == "claude-haiku-5-5",
        created=_second(day),
    )


def _second(day: str) -> int:
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp())


# Efforts, as refusals and recordings name them; those of the newest models are estimates.
_O = "low medium high"
_GPT_5 = f"minimal {_O}"
_CODEX = f"{_O} xhigh"
_PRO = "medium high xhigh"
_GPT_5_2 = f"none {_O} xhigh"
_GPT_5_6 = f"none {_O} xhigh max"
_GPT_6 = f"{_O} xhigh max"

# The days of undated models and the windows of the newest are estimates: nothing in the emulator's rules hangs on them.
KNOWN: tuple[Model, ...] = (
    _openai("gpt-3.5-turbo", "2024-01-25", 0, dated="0125"),  # the windows of its variants differ, as those of gpt-4
    _openai("gpt-4", "2023-06-13", 0, dated="0613"),
    _openai("gpt-4-turbo", "2024-04-09", 128_000),
    _openai("gpt-4.5-preview", "2025-02-27", 128_000),
    _openai("gpt-4o", "2024-08-06", 128_000),
    _openai("gpt-4o-mini", "2024-07-18", 128_000),
    _openai("gpt-4o-search-preview", "2025-03-11", 128_000),
    _openai("gpt-4o-mini-search-preview", "2025-03-11", 128_000),
    _openai("gpt-4o-audio-preview", "2025-06-03", 128_000),
    _openai("gpt-4o-mini-audio-preview", "2024-12-17", 128_000),
    _openai("chatgpt-4o-latest", "2024-08-14", 128_000, dated=False),
    _openai("gpt-4.1", "2025-04-14", 1_047_576),
    _openai("gpt-4.1-mini", "2025-04-14", 1_047_576),
    _openai("gpt-4.1-nano", "2025-04-14", 1_047_576),
    _openai("computer-use-preview", "2025-03-11", 8_192, efforts=_O),
    _openai("o1", "2024-12-17", 200_000, efforts=_O),
    _openai("o1-pro", "2025-03-19", 200_000, efforts=_O),
    _openai("o3", "2025-04-16", 200_000, efforts=_O),
    _openai("o3-mini", "2025-01-31", 200_000, efforts=_O),
    _openai("o3-pro", "2025-06-10", 200_000, efforts=_O),
    _openai("o3-deep-research", "2025-06-26", 200_000, efforts="medium"),
    _openai("o4-mini", "2025-04-16", 200_000, efforts=_O),
    _openai("o4-mini-deep-research", "2025-06-26", 200_000, efforts="medium"),
    _openai("codex-mini-latest", "2025-05-16", 200_000, dated=False, efforts=_O),
    _openai("gpt-5", "2025-08-07", 400_000, efforts=_GPT_5),
    _openai("gpt-5-mini", "2025-08-07", 400_000, efforts=_GPT_5),
    _openai("gpt-5-nano", "2025-08-07", 400_000, efforts=_GPT_5),
    _openai("gpt-5-chat-latest", "2025-08-07", 128_000, dated=False),
    _openai("gpt-5-chat", "2025-08-07", 128_000, dated=False),
    _openai("gpt-5-pro", "2025-10-06", 400_000, efforts="high", effort="high"),
    _openai("gpt-5-codex", "2025-09-15", 400_000, dated=False, efforts=_O),
    _openai("gpt-5.1", "2025-11-13", 400_000, efforts=f"none {_O}", effort="none"),
    _openai("gpt-5.1-chat-latest", "2025-11-13", 128_000, dated=False, efforts="medium"),
    _openai("gpt-5.1-codex", "2025-11-13", 400_000, dated=False, efforts=_O),
    _openai("gpt-5.1-codex-mini", "2025-11-13", 400_000, dated=False, efforts=_O),
    _openai("gpt-5.1-codex-max", "2025-12-04", 400_000, dated=False, efforts=_CODEX),
    _openai("gpt-5.2", "2025-12-11", 400_000, efforts=_GPT_5_2, effort="none"),
    _openai("gpt-5.2-chat", "2025-12-11", 128_000, dated=False, efforts="medium"),
    _openai("gpt-5.2-chat-latest", "2025-12-11", 128_000, dated=False, efforts="medium"),
    _openai("gpt-5.2-pro", "2025-12-11", 400_000, efforts=_PRO),
    _openai("gpt-5.2-codex", "2026-01-14", 400_000, dated=False, efforts=_CODEX),
    _openai("gpt-5.3-chat-latest", "2026-03-03", 128_000, dated=False, efforts="medium"),
    _openai("gpt-5.3-codex", "2026-02-05", 400_000, dated=False, efforts=f"none {_CODEX}", phases=True),
    _openai("gpt-5.4", "2026-03-05", 1_050_000, efforts=_GPT_5_2, effort="none", phases=True),
    _openai("gpt-5.4-mini", "2026-03-17", 400_000, efforts=_GPT_5_2, effort="none", phases=True),
    _openai("gpt-5.4-nano", "2026-03-17", 400_000, efforts=_GPT_5_2, effort="none", phases=True),
    _openai("gpt-5.4-pro", "2026-03-05", 1_050_000, efforts=_PRO, phases=True),
    _openai("gpt-5.5", "2026-04-23", 1_050_000, efforts=_GPT_5_2, phases=True),
    _openai("gpt-5.5-pro", "2026-04-23", 1_050_000, efforts=_PRO, phases=True),
    _openai("gpt-5.6", "2026-07-09", 1_050_000, dated="sol", efforts=_GPT_5_6, phases=True),
    _openai("gpt-5.6-sol", "2026-07-09", 1_050_000, dated=False, efforts=_GPT_5_6, phases=True),
    _openai("gpt-5.6-terra", "2026-07-09", 1_050_000, dated=False, efforts=_GPT_5_6, phases=True),
    _openai("gpt-5.6-luna", "2026-07-09", 400_000, dated=False, efforts=_GPT_5_6, phases=True),
    _openai("gpt-6-astra", "2026-09-17", 1_050_000, dated=False, efforts=_GPT_6, phases=True),
    _openai("gpt-6-sol", "2026-09-17", 1_050_000, dated=False, efforts=_GPT_6, phases=True),
    _openai("gpt-6-luna", "2026-09-17", 400_000, dated=False, efforts=_GPT_6, phases=True),
    _openai("gpt-6.1-sol", "2026-10-22", 1_050_000, dated=False, efforts=_GPT_6, phases=True),
    _openai("gpt-oss-20b", "2025-08-05", 131_072, dated=False, efforts=_O),
    _openai("gpt-oss-120b", "2025-08-05", 131_072, dated=False, efforts=_O),
    _claude("claude-haiku-4-5", "2025-10-01", 200_000, dated=True),
    _claude("claude-sonnet-4-5", "2025-09-29", 200_000, dated=True),
    _claude("claude-opus-4-5", "2025-11-01", 200_000, dated=True),
    _claude("claude-sonnet-4-6", "2026-02-17", 200_000),
    _claude("claude-opus-4-6", "2026-02-05", 200_000),
    _claude("claude-opus-4-7", "2026-04-16", 1_000_000),
    _claude("claude-opus-4-8", "2026-05-28", 1_000_000),
    _claude("claude-sonnet-5", "2026-06-30", 1_000_000),
    _claude("claude-opus-5", "2026-07-24", 1_000_000),
    _claude("claude-fable-5", "2026-06-09", 1_000_000),
    _claude("claude-mythos-5", "2026-06-09", 1_000_000),
    _claude("claude-fable-5-1", "2026-08-31", 1_000_000, binds=True, reads=("claude-opus-5-5",)),
    _claude("claude-mythos-5-1", "2026-08-31", 1_000_000, binds=True),
    _claude("claude-opus-5-5", "2026-09-14", 1_000_000, binds=True),
    _claude("claude-sonnet-5-5", "2026-10-05", 1_000_000, binds=True),
    _claude("claude-haiku-5-5", "2026-10-19", 1_000_000, binds=True),
    _claude("claude-fable-5-2", "2026-11-02", 1_000_000, binds=True),
    _claude("claude-mythos-5-2", "2026-11-02", 1_000_000, binds=True),
)

_FAMILY = {
    "openai": re.compile(r"(?:openai[/.])?(?:gpt-(?:\d|oss|audio|image|realtime)|chatgpt-|codex-|o\d)"),
    # The names since Claude 4 (`claude-opus-4-1`), those of Claude 3 (`claude-3-5-haiku-latest`), and the oldest.
    "anthropic": re.compile(r"claude-((opus|sonnet|haiku|fable|mythos)-(\d|preview)|3(-[57])?-(opus|sonnet|haiku)|v?[12](?!\d)|instant)"),
}
_REASONING_FAMILY = re.compile(r"o\d|gpt-(?!35)([5-9]|\d\d)|codex-")  # Azure writes gpt-35 for gpt-3.5
_LETTER_OR_DIGIT = "[a-z0-9]"
_BEFORE, _AFTER = r"(?:.*[:/]|openai\.)?", r"(?:[-_@]\d[\d-]*)?(?::.*)?"
"""What may stand before and after the name of a model that is meant as it is: a vendor or `ft:`, and a date or what a tuned one is for."""
_NEWEST_GENERATION = 6.1
_VARIANTS = re.compile(
    "alpha|api|astra|audio|beta|chat|codex|deep|diarize|fast|image|instant|instruct|latest|lite|luna|max|mini|nano|oss|preview|pro|realtime"
    "|research|safeguard|search|sol|spark|terra|thinking|transcribe|translate|tts|turbo|ultra|vision"
)
"""The words in names of OpenAI's variants. Any other word makes a name that it does not know, as in `gpt-4o-minni`."""


def _names_variant(name: str) -> bool:
    """Tell whether an OpenAI name is made as names of models are, so that it may be one that the catalogue has not heard of.

    >>> _names_variant("gpt-4o-mini-2026-01-01"), _names_variant("gpt-5.2-proo"), _names_variant("gpt-7-ultra")
    (True, False, True)
    """
    words = [word for word in re.split("[-_/ ]", name.partition("gpt-")[2]) if word]
    if not words or name.startswith("ft:"):
        return True
    generation = re.match(r"\d+(\.\d+)?", words[0])
    if generation and _NEWEST_GENERATION < float(generation[0]) < 35:
        return True
    return all(_VARIANTS.fullmatch(word) or not word.isalpha() for word in words)


class Catalogue:
    """Which models there are. `any_model`: every name is one.

    >>> catalogue = Catalogue()
    >>> catalogue.openai("gpt-4o").window, catalogue.openai("o4-mini").reasons
    (128000, True)
    >>> catalogue.openai("no-such-model") is None
    True
    >>> catalogue.find("openai", "gpt-4o").answers_as
    'gpt-4o-2024-08-06'
    >>> catalogue.anthropic("claude-opus-5.5").binds
    True
    >>> catalogue.anthropic("claude-3-opus-20240229").prefill, catalogue.anthropic("claude-sonet-4-5") is None
    (True, True)
    """

    def __init__(self, models: Iterable[Model] = KNOWN, *, any_model: bool = False) -> None:
        self.any_model = any_model
        self.models = tuple(models)
        self._by_name = {(model.vendor, name): model for model in self.models for name in (model.answers_as, model.name)}
        longest_first = sorted(self.models, key=lambda model: -len(model.name))
        self._within = [
            (re.compile(f"(?<!{_LETTER_OR_DIGIT}){re.escape(model.name)}(?!{_LETTER_OR_DIGIT})"), model) for model in longest_first
        ]

    def find(self, vendor: Vendor, name: str, *, deployment: bool = False) -> Model | None:
        """The model of that name. A deployment may have any name."""
        if not name:
            return None
        # Anthropic's documents write 5.5 where its API has 5-5.
        sought = name.lower().replace(".", "-") if vendor == "anthropic" else name.lower()
        exact = self._by_name.get((vendor, sought)) or self._by_name.get((vendor, name))
        if exact:
            return exact if name == exact.name else replace(exact, name=name)
        if vendor == "openai" and not (deployment or self.any_model or _names_variant(sought)):
            return None
        return self._variant(vendor, name, sought) or self._of_family(vendor, name, sought) or self._of_any_name(vendor, name, deployment)

    def _variant(self, vendor: Vendor, name: str, sought: str) -> Model | None:
        """A model whose name stands within another: with a vendor or a date, or as a variant."""
        for pattern, model in self._within:
            if model.vendor == vendor and (":" not in sought or sought.startswith("ft:")) and pattern.search(sought):
                same = re.fullmatch(f"{_BEFORE}{re.escape(model.name)}{_AFTER}", sought)
                if not same:  # a variant may think in other ways
                    model = replace(model, effort="", efforts=())
                return replace(model, name=name, dated=name)
        return None

    def _of_family(self, vendor: Vendor, name: str, sought: str) -> Model | None:
        """A model that the catalogue has not heard of, by what its name says."""
        base = sought.removeprefix("ft:")
        if not _FAMILY[vendor].match(base):
            return None
        reasons = vendor == "anthropic" or (bool(_REASONING_FAMILY.match(base)) and "chat" not in sought)
        old = vendor == "anthropic" and generations.prefills(sought)
        return Model(name, vendor, reasons=reasons, prefill=vendor != "anthropic" or old, system_role=not old)

    def _of_any_name(self, vendor: Vendor, name: str, deployment: bool) -> Model | None:
        return Model(name, vendor, reasons=None, prefill=vendor != "anthropic") if deployment or self.any_model else None

    def openai(self, name: str, *, deployment: bool = False) -> OpenAIInfo | None:
        """Find a model for the law book of the Responses API. None: it does not exist."""
        model = self.find("openai", name, deployment=deployment)
        return OpenAIInfo(model.name, model.reasons, model.window, model.effort, model.efforts) if model else None

    def chat(self, name: str, *, deployment: bool = False) -> ChatInfo | None:
        """Find a model for the law book of Chat Completions. None: it does not exist."""
        model = self.find("openai", name, deployment=deployment)
        if model is None:
            return None
        abilities = abilities_of(model.name) if model.reasons is not None else {}
        return ChatInfo(model.name, model.reasons, model.window, effort=model.effort, efforts=model.efforts, **abilities)

    def anthropic(self, name: str) -> AnthropicInfo | None:
        """What Anthropic's law book needs to know of a model. None: it does not exist."""
        model = self.find("anthropic", name)
        if model is None:
            return None
        return replace(
            info_of(model.name),
            binds=model.binds,
            prefill=model.prefill,
            window=model.window,
            output=model.output,
            system_role=model.system_role,
            reads=model.reads,
            unlocked=model.unlocked,
        )

    def list_openai(self) -> tuple[int, dict[str, Any]]:
        """GET /v1/models as OpenAI answers it."""
        mine = [model for model in self.models if model.vendor == "openai"]
        named = {name: model for model in mine for name in (model.name, model.answers_as)}
        return 200, {"object": "list", "data": [_openai_body(name, model) for name, model in named.items()]}

    def get_openai(self, name: str) -> tuple[int, dict[str, Any]]:
        """GET /v1/models/{name} as OpenAI answers it."""
        model = self.find("openai", name)
        if model:
            return 200, _openai_body(name, model)
        message = f"The model '{name}' does not exist"
        return 404, {"error": {"message": message, "type": "invalid_request_error", "param": "model", "code": "model_not_found"}}

    def list_anthropic(self, limit: int = 20, after: str = "", before: str = "") -> tuple[int, dict[str, Any]]:
        """GET /v1/models as Anthropic answers it: the newest first, a page at a time. `before`: the page that ends before this one."""
        newest = sorted((model for model in self.models if model.vendor == "anthropic"), key=lambda model: -model.created)
        names = [model.answers_as for model in newest]
        start = names.index(after) + 1 if after in names else 0
        stop = start + max(limit, 1)
        if before in names:
            stop = names.index(before)
            start = max(0, stop - max(limit, 1))
        page = newest[start:stop]
        return 200, {
            "data": [_anthropic_body(model.answers_as, model) for model in page],
            "first_id": page[0].answers_as if page else None,
            "has_more": start > 0 if before in names else start + len(page) < len(newest),
            "last_id": page[-1].answers_as if page else None,
        }

    def get_anthropic(self, name: str) -> tuple[int, dict[str, Any]]:
        """GET /v1/models/{name} as Anthropic answers it; without the request's id, which only the server knows."""
        model = self.find("anthropic", name)
        if model:
            return 200, _anthropic_body(model.answers_as, model)
        return 404, {"type": "error", "error": {"type": "not_found_error", "message": f"model: {name}"}}


def _openai_body(name: str, model: Model) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": model.created, "owned_by": "system"}


def _anthropic_body(name: str, model: Model) -> dict[str, Any]:
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
        "max_input_tokens": model.window,
        "max_tokens": 64_000,
        "capabilities": None,
    }
