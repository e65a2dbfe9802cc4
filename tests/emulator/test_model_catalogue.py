"""The model catalogue: which names are models, their properties, and their lists."""

from __future__ import annotations

import pytest
from anthropic.types import ModelInfo as AnthropicModel
from openai.types import Model as OpenAIModel

from legato.emulator.model_catalogue import CatalogueModel, ModelCatalogue

CATALOGUE = ModelCatalogue()


@pytest.mark.parametrize(
    ("name", "has_reasoning", "reply_name"),
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
def test_name_of_family_is_a_model(name: str, has_reasoning: bool, reply_name: str) -> None:
    model = CATALOGUE.find("openai", name)
    assert model is not None
    assert (model.name, model.has_reasoning, model.reply_name) == (name, has_reasoning, reply_name)
    info = CATALOGUE.find_responses_info(name)
    assert info is not None
    assert (info.name, info.has_reasoning, info.context_window) == (name, has_reasoning, model.context_window)


@pytest.mark.parametrize("name", ["", "no-such-model", "llama-3", "claude-sonnet-5", "foo1", "my-gpt4o"])
def test_other_names_do_not_exist(name: str) -> None:
    assert CATALOGUE.find_responses_info(name) is None


def test_deployment_may_have_any_name() -> None:
    assert CATALOGUE.find_responses_info("my-deployment", is_deployment=True) is not None
    assert CATALOGUE.find_responses_info("", is_deployment=True) is None


def test_catalogue_may_accept_any_name() -> None:
    assert ModelCatalogue(accepts_any_name=True).find_responses_info("llama-3") is not None


def test_own_model_can_be_added() -> None:
    catalogue = ModelCatalogue([CatalogueModel("house-model", has_reasoning=True, context_window=1000)])
    info = catalogue.find_responses_info("house-model-large")
    assert info is not None
    assert (info.has_reasoning, info.context_window) == (True, 1000)


@pytest.mark.parametrize(
    ("name", "binds_thinking", "accepts_prefill"),
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
def test_claude_models_have_thinking_and_prefill(name: str, binds_thinking: bool, accepts_prefill: bool) -> None:
    info = CATALOGUE.find_anthropic_info(name)
    assert info is not None
    assert (info.name, info.binds_thinking, info.accepts_prefill) == (name, binds_thinking, accepts_prefill)


def test_anthropic_has_no_openai_models() -> None:
    assert CATALOGUE.find_anthropic_info("gpt-4o") is None


def test_openai_list_has_dated_and_undated_names() -> None:
    status, body = CATALOGUE.list_openai()
    models = [OpenAIModel.model_validate(each) for each in body["data"]]
    assert (status, body["object"]) == (200, "list")
    assert {"gpt-4o", "gpt-4o-2024-08-06", "gpt-5.6-sol"} <= {model.id for model in models}
    assert len({model.id for model in models}) == len(models)


def test_one_openai_model_can_be_retrieved() -> None:
    status, body = CATALOGUE.get_openai("gpt-4o")
    assert (status, OpenAIModel.model_validate(body).id) == (200, "gpt-4o")


def test_unknown_model_is_a_404() -> None:
    status, body = CATALOGUE.get_openai("llama-3")
    assert (status, body["error"]["code"]) == (404, "model_not_found")
    assert CATALOGUE.get_anthropic("llama-3") == (
        404,
        {"type": "error", "error": {"type": "not_found_error", "message": "model: llama-3"}},
    )


def test_anthropic_list_pages_newest_first() -> None:
    names: list[str] = []
    has_more, after = True, ""
    while has_more:
        _, body = CATALOGUE.list_anthropic(limit=5, after=after)
        page = [AnthropicModel.model_validate(each) for each in body["data"]]
        assert len(page) <= 5
        assert (body["first_id"], body["last_id"]) == (page[0].id, page[-1].id)
        names += [model.id for model in page]
        has_more, after = body["has_more"], body["last_id"]
    assert len(names) == len(set(names)) == sum(model.vendor == "anthropic" for model in CATALOGUE.models)
    assert "claude-sonnet-4-5-20250929" in names


def test_one_anthropic_model_can_be_retrieved() -> None:
    status, body = CATALOGUE.get_anthropic("claude-opus-5-5")
    model = AnthropicModel.model_validate(body)
    assert (status, model.id, model.display_name, model.line) == (200, "claude-opus-5-5", "Claude Opus 5.5", "opus")


def test_models_are_paged_backwards() -> None:
    names = [model["id"] for model in CATALOGUE.list_anthropic(1000)[1]["data"]]
    earlier_names: list[str] = []
    before, has_more = names[7], True
    while has_more:
        page = CATALOGUE.list_anthropic(3, before=before)[1]
        earlier_names = [model["id"] for model in page["data"]] + earlier_names
        before, has_more = page["first_id"], page["has_more"]
    assert earlier_names == names[:7]
    assert CATALOGUE.list_anthropic(3, before=names[0])[1]["data"] == []


@pytest.mark.parametrize(
    ("name", "effort", "efforts"),
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
def test_efforts_are_known_for_listed_models(name: str, effort: str, efforts: str) -> None:
    info = CATALOGUE.find_responses_info(name)
    assert info is not None
    assert (info.default_effort, " ".join(info.efforts)) == (effort, efforts)


def test_made_up_name_is_no_model() -> None:
    assert CATALOGUE.find_responses_info("gpt-nonexistent-model") is None
