"""Which names are models, what they can do, and how they are listed."""

from __future__ import annotations

import pytest
from anthropic.types import ModelInfo as AnthropicModel
from openai.types import Model as OpenAIModel

from legato.emulator.models import Catalogue, Model

CATALOGUE = Catalogue()


@pytest.mark.parametrize(
    ("name", "reasons", "answers_as"),
    [
        ("gpt-4o", False, "gpt-4o-2024-08-06"),
        ("gpt-4o-mini", False, "gpt-4o-mini-2024-07-18"),
        ("gpt-4o-2024-08-06", False, "gpt-4o-2024-08-06"),
        ("gpt-4o-2024-11-20", False, "gpt-4o-2024-11-20"),
        ("o4-mini", True, "o4-mini-2025-04-16"),
        ("gpt-5", True, "gpt-5-2025-08-07"),
        ("gpt-5-chat-latest", False, "gpt-5-chat-latest"),
        ("gpt-5.5", True, "gpt-5.5-2026-04-23"),
        ("gpt-6-luna", True, "gpt-6-luna"),
        ("gpt-7-nova", True, "gpt-7-nova"),
        ("o9", True, "o9"),
        ("chatgpt-4o-latest", False, "chatgpt-4o-latest"),
        ("ft:gpt-4o-mini-2024-07-18:acme::abc", False, "ft:gpt-4o-mini-2024-07-18:acme::abc"),
    ],
)
def test_a_name_of_the_family_is_a_model(name: str, reasons: bool, answers_as: str) -> None:
    model = CATALOGUE.find("openai", name)
    assert model is not None
    assert (model.name, model.reasons, model.answers_as) == (name, reasons, answers_as)
    info = CATALOGUE.openai(name)
    assert info is not None
    assert (info.name, info.reasons, info.window) == (name, reasons, model.window)


@pytest.mark.parametrize("name", ["", "no-such-model", "llama-3", "claude-sonnet-5", "foo1", "my-gpt4o"])
def test_any_other_name_does_not_exist(name: str) -> None:
    assert CATALOGUE.openai(name) is None


def test_a_deployment_may_have_any_name() -> None:
    assert CATALOGUE.openai("my-deployment", deployment=True) is not None
    assert CATALOGUE.openai("", deployment=True) is None


def test_a_catalogue_may_take_any_name() -> None:
    assert Catalogue(any_model=True).openai("llama-3") is not None


def test_a_model_of_ones_own_can_be_registered() -> None:
    own = Catalogue([Model("house-model", reasons=True, window=1000)])
    info = own.openai("house-model-large")
    assert info is not None
    assert (info.reasons, info.window) == (True, 1000)


@pytest.mark.parametrize(
    ("name", "binds", "prefill"),
    [
        ("claude-sonnet-4-5", False, True),
        ("claude-sonnet-4-5-20250929", False, True),
        ("claude-sonnet-5", False, False),
        ("claude-opus-5.5", True, False),
        ("claude-opus-5-5", True, False),
        ("claude-sonnet-5.5", True, False),
        ("claude-haiku-5.5", True, False),
        ("claude-fable-5.1", True, False),
        ("claude-mythos-5-2", True, False),
        ("claude-sonnet-6", False, False),
    ],
)
def test_preserved_thinking_and_prefill_are_known_of_every_claude(name: str, binds: bool, prefill: bool) -> None:
    info = CATALOGUE.anthropic(name)
    assert info is not None
    assert (info.name, info.binds, info.prefill) == (name, binds, prefill)


def test_anthropic_has_no_models_of_openai() -> None:
    assert CATALOGUE.anthropic("gpt-4o") is None


def test_openais_list_has_names_with_and_without_their_date() -> None:
    status, body = CATALOGUE.list_openai()
    listed = [OpenAIModel.model_validate(each) for each in body["data"]]
    assert (status, body["object"]) == (200, "list")
    assert {"gpt-4o", "gpt-4o-2024-08-06", "gpt-5.6-sol"} <= {model.id for model in listed}
    assert len({model.id for model in listed}) == len(listed)


def test_one_of_openais_models_can_be_asked_for() -> None:
    status, body = CATALOGUE.get_openai("gpt-4o")
    assert (status, OpenAIModel.model_validate(body).id) == (200, "gpt-4o")


def test_a_model_that_does_not_exist_is_a_404_in_either_envelope() -> None:
    status, body = CATALOGUE.get_openai("llama-3")
    assert (status, body["error"]["code"]) == (404, "model_not_found")
    assert CATALOGUE.get_anthropic("llama-3") == (
        404,
        {"type": "error", "error": {"type": "not_found_error", "message": "model: llama-3"}},
    )


def test_anthropics_list_comes_in_pages_with_the_newest_first() -> None:
    names: list[str] = []
    more, after = True, ""
    while more:
        _, body = CATALOGUE.list_anthropic(limit=5, after=after)
        page = [AnthropicModel.model_validate(each) for each in body["data"]]
        assert len(page) <= 5
        assert (body["first_id"], body["last_id"]) == (page[0].id, page[-1].id)
        names += [model.id for model in page]
        more, after = body["has_more"], body["last_id"]
    assert len(names) == len(set(names)) == sum(model.vendor == "anthropic" for model in CATALOGUE.models)
    assert "claude-sonnet-4-5-20250929" in names


def test_one_of_anthropics_models_can_be_asked_for() -> None:
    status, body = CATALOGUE.get_anthropic("claude-opus-5-5")
    model = AnthropicModel.model_validate(body)
    assert (status, model.id, model.display_name, model.line) == (200, "claude-opus-5-5", "Claude Opus 5.5", "opus")


def test_models_are_paged_backwards_until_the_newest() -> None:
    names = [model["id"] for model in CATALOGUE.list_anthropic(1000)[1]["data"]]
    seen: list[str] = []
    before, more = names[7], True
    while more:
        page = CATALOGUE.list_anthropic(3, before=before)[1]
        seen = [model["id"] for model in page["data"]] + seen
        before, more = page["first_id"], page["has_more"]
    assert seen == names[:7]
    assert CATALOGUE.list_anthropic(3, before=names[0])[1]["data"] == []


@pytest.mark.parametrize(
    ("name", "effort", "known"),
    [
        ("gpt-5", "medium", "minimal low medium high"),
        ("gpt-5.4-nano", "none", "none low medium high xhigh"),
        ("gpt-5.4-mini-2026-03-17", "none", "none low medium high xhigh"),
        ("openai/gpt-5.6-luna", "medium", "none low medium high xhigh max"),
        ("gpt-5-pro", "high", "high"),
        ("o4-mini", "medium", "low medium high"),
        ("gpt-5.4-preview", "", ""),
        ("gpt-4.1", "", ""),
    ],
)
def test_efforts_are_known_of_listed_models_only(name: str, effort: str, known: str) -> None:
    info = CATALOGUE.openai(name)
    assert info is not None
    assert (info.effort, " ".join(info.efforts)) == (effort, known)


def test_a_made_up_name_is_no_model() -> None:
    assert CATALOGUE.openai("gpt-nonexistent-model") is None
