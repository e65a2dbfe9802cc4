"""The official clients on Azure's paths."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from legato.emulator import Emulator

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
VERSION = "2025-04-01-preview"
MESSAGES: list[Any] = [{"role": "user", "content": "Hi"}]


@pytest.fixture(scope="module")
def azure(emulator: Emulator) -> Iterator[openai.AzureOpenAI]:
    with openai.AzureOpenAI(azure_endpoint=emulator.url, api_version=VERSION, api_key="az-key", max_retries=0) as made:
        yield made


def test_deployment_may_have_any_name(azure: openai.AzureOpenAI) -> None:
    completion = azure.chat.completions.create(model="our-own-deployment", messages=MESSAGES, reasoning_effort="low")
    assert completion.choices[0].message.content == "You said: Hi"
    response = azure.responses.create(model="our-own-deployment", input="Hi")
    assert response.output_text == "You said: Hi"
    assert azure.responses.create(model="our-own-deployment", input="Hi", reasoning={"effort": "low"}).status == "completed"


def test_client_may_have_one_deployment(emulator: Emulator) -> None:
    with openai.AzureOpenAI(azure_endpoint=emulator.url, azure_deployment="desk", api_version=VERSION, api_key="az-key") as made:
        completion = made.chat.completions.create(model="ignored", messages=MESSAGES)
    assert completion.choices[0].message.content == "You said: Hi"
    assert emulator.exchanges[-1].path == "/openai/deployments/desk/chat/completions"
    assert emulator.exchanges[-1].prompt is not None
    assert emulator.exchanges[-1].prompt.model == "desk"


def test_replies_can_be_streamed(azure: openai.AzureOpenAI) -> None:
    chunks = list(azure.chat.completions.create(model="desk", messages=MESSAGES, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "You said: Hi"
    events = list(azure.responses.create(model="desk", input="Hi", stream=True))
    assert events[-1].type == "response.completed"


async def test_async_client_works_equally(emulator: Emulator) -> None:
    async with openai.AsyncAzureOpenAI(azure_endpoint=emulator.url, api_version=VERSION, api_key="az-key") as made:
        assert (await made.responses.create(model="desk", input="Hi")).output_text == "You said: Hi"
        stream = await made.chat.completions.create(model="desk", messages=MESSAGES, stream=True)
        assert [chunk async for chunk in stream]


def test_stored_responses_form_a_chain(azure: openai.AzureOpenAI) -> None:
    first = azure.responses.create(model="desk", input="Hi")
    second = azure.responses.create(model="desk", input="And?", previous_response_id=first.id)
    assert azure.responses.retrieve(second.id).previous_response_id == first.id
    assert len(list(azure.responses.input_items.list(second.id))) == 3
    azure.responses.delete(first.id)
    with pytest.raises(openai.BadRequestError) as caught:
        azure.responses.create(model="desk", input="And?", previous_response_id=first.id)
    assert caught.value.code == "previous_response_not_found"


def test_openai_client_works_on_newer_path(emulator: Emulator) -> None:
    with openai.OpenAI(base_url=emulator.url + "/openai/v1/", api_key="az-key", max_retries=0) as made:
        assert made.responses.create(model="desk", input="Hi").output_text == "You said: Hi"
        assert made.chat.completions.create(model="desk", messages=MESSAGES).choices[0].message.content == "You said: Hi"
        conversation = made.conversations.create()
        assert made.responses.create(model="desk", input="Hi", conversation=conversation.id).conversation is not None
        assert "gpt-4.1" in [model.id for model in made.models.list()]
        assert made.models.retrieve("gpt-4.1").id == "gpt-4.1"


def test_models_are_listed_on_older_path(azure: openai.AzureOpenAI) -> None:
    assert "gpt-4.1" in [model.id for model in azure.models.list()]


def test_headers_and_ids_are_azures(azure: openai.AzureOpenAI) -> None:
    raw = azure.chat.completions.with_raw_response.create(model="desk", messages=MESSAGES)
    assert UUID.fullmatch(raw.headers["x-request-id"])
    assert UUID.fullmatch(raw.headers["apim-request-id"])
    assert raw.headers["x-ms-region"]
    assert "openai-version" not in raw.headers


def test_filtered_prompt_gets_azure_error(azure: openai.AzureOpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        azure.responses.create(model="desk", input="Hi", extra_headers={"x-legato-fault": "filtered_input"})
    body: Any = caught.value.body
    assert (caught.value.code, caught.value.param) == ("content_filter", "prompt")
    assert body["innererror"]["code"] == "ResponsibleAIPolicyViolation"


def test_unknown_path_gets_azure_error(azure: openai.AzureOpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        azure.embeddings.create(model="desk", input="Hi")
    assert caught.value.body == {"code": "404", "message": "Resource not found"}


def test_azure_path_does_not_change_account(emulator: Emulator, azure: openai.AzureOpenAI) -> None:
    stored = azure.responses.create(model="desk", input="Hi")
    with openai.AzureOpenAI(azure_endpoint=emulator.url, api_version=VERSION, api_key="another", max_retries=0) as other:
        with pytest.raises(openai.NotFoundError):
            other.responses.retrieve(stored.id)
        with pytest.raises(openai.BadRequestError):
            other.responses.create(model="desk", input="And?", previous_response_id=stored.id)
