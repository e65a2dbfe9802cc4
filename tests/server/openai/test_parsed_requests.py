"""Refused requests and ignored fields, as OpenAI's SDK gets them."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import quote

import httpx2
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from legato.server.request_limits import RequestLimits
from tests.server.openai.openai_client import make_client
from tests.server.workflows import PausedModel, list_messages, make_chat, run_server

HELLO: dict[str, Any] = {"model": "chat", "messages": [{"role": "user", "content": "Hello"}]}
RESPOND: dict[str, Any] = {"model": "chat", "input": "Hello"}

REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "a tool that a provider runs": ("responses", {"tools": [{"type": "web_search"}]}, "tools[0].type"),
    "a custom tool": ("responses", {"tools": [{"type": "custom", "name": "f"}]}, "tools[0].type"),
    "a custom tool in a chat": ("chat/completions", {"tools": [{"type": "custom", "custom": {"name": "f"}}]}, "tools[0].type"),
    "a tool that is a number": ("responses", {"tools": [7]}, "tools[0]"),
    "a function that is a number": ("chat/completions", {"tools": [{"type": "function", "function": 7}]}, "tools[0].function"),
    "a function without a name": ("responses", {"tools": [{"type": "function"}]}, "tools[0].name"),
    "a function with a name of many words": ("responses", {"tools": [{"type": "function", "name": "a b"}]}, "tools[0]"),
    "a function that is a handoff": ("responses", {"tools": [{"type": "function", "name": "handoff_to_ada"}]}, "tools[0]"),
    "a function that takes text": (
        "responses",
        {"tools": [{"type": "function", "name": "f", "parameters": {"type": "string"}}]},
        "tools[0]",
    ),
    "a function whose schema is none": (
        "chat/completions",
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"properties": 7}}}]},
        "tools[0]",
    ),
    "a function that says what nobody knows": ("responses", {"tools": [{"type": "function", "name": "f", "colour": 1}]}, "tools[0].colour"),
    "two functions of one name": ("responses", {"tools": [{"type": "function", "name": "f"}] * 2}, "tools[1].name"),
    "too many functions": (
        "responses",
        {"tools": [{"type": "function", "name": f"f{number}"} for number in range(129)]},
        "tools",
    ),
    "functions that are described at length": (
        "responses",
        {"tools": [{"type": "function", "name": "f", "description": "x" * 600_000}]},
        "tools",
    ),
    "a required call of no tool": ("responses", {"tool_choice": "required"}, "tool_choice"),
    "a choice that nobody knows": ("responses", {"tool_choice": "perhaps"}, "tool_choice"),
    "a choice of a tool that is not offered": ("responses", {"tool_choice": {"type": "function", "name": "f"}}, "tool_choice"),
    "a choice of a tool that a provider runs": ("responses", {"tool_choice": {"type": "file_search"}}, "tool_choice"),
    "allowed tools that are none": ("chat/completions", {"tool_choice": {"type": "allowed_tools", "allowed_tools": 7}}, "tool_choice"),
    "a format that nobody knows": ("responses", {"text": {"format": {"type": "yaml"}}}, "text.format.type"),
    "a format without a schema": ("responses", {"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema"),
    "a format that is a number": ("responses", {"text": {"format": 7}}, "text.format"),
    "a format in a chat whose schema is none": (
        "chat/completions",
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"properties": 7}}}},
        "response_format",
    ),
    "a format in a chat without a schema": ("chat/completions", {"response_format": {"type": "json_schema"}}, "response_format.schema"),
    "several answers": ("chat/completions", {"n": 2}, "n"),
    "sound": ("chat/completions", {"modalities": ["text", "audio"]}, "modalities"),
    "probabilities": ("chat/completions", {"logprobs": True}, "logprobs"),
    "not to be kept": ("responses", {"store": False}, "store"),
    "a prompt that OpenAI keeps": ("responses", {"prompt": {"id": "p"}}, "prompt"),
    "a field that nobody knows": ("responses", {"temprature": 1}, "temprature"),
    "no input": ("responses", {"input": ""}, "input"),
    "a model that is no text": ("responses", {"model": 7}, "model"),
    "input that is a number": ("responses", {"input": 7}, "input"),
    "an item that is a number": ("responses", {"input": [7]}, "input[0]"),
    "a role that nobody has": ("responses", {"input": [{"role": "oracle", "content": "x"}]}, "input[0].role"),
    "content that is a number": ("responses", {"input": [{"role": "user", "content": 7}]}, "input[0].content"),
    "a part that is a number": ("responses", {"input": [{"role": "user", "content": [7]}]}, "input[0].content[0]"),
    "a part that nobody knows": ("responses", {"input": [{"role": "user", "content": [{"type": "smell"}]}]}, "input[0].content[0].type"),
    "a file of OpenAI's": (
        "responses",
        {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "file-1"}]}]},
        "input[0].content[0].image_url",
    ),
    "a file of this machine": (
        "responses",
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "file:///etc/passwd"}]}]},
        "input[0].content[0].image_url",
    ),
    "a picture that is none": (
        "responses",
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:text/html;base64,PGI+"}]}]},
        "input[0].content[0].image_url",
    ),
    "a broken data URL": (
        "responses",
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,%%%"}]}]},
        "input[0].content[0].image_url",
    ),
    "an answer to nobody": (
        "responses",
        {"input": [{"type": "mcp_approval_response", "approval_request_id": "x", "approve": True}]},
        "input",
    ),
    "an approval that is neither": (
        "responses",
        {"conversation": "c", "input": [{"type": "mcp_approval_response", "approval_request_id": "x", "approve": "perhaps"}]},
        "input[0].approve",
    ),
    "history where the ledger has it": (
        "responses",
        {"conversation": "c", "input": [{"role": "assistant", "content": "x"}, {"role": "user", "content": "y"}]},
        "input",
    ),
    "two places at once": ("responses", {"conversation": "c", "previous_response_id": "resp_x"}, "previous_response_id"),
    "two names at once": ("responses", {"conversation": "c", "metadata": {"session": "d"}}, "metadata"),
    "a chat that ends with an answer": (
        "chat/completions",
        {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]},
        "messages",
    ),
    "an output of a tool in a chat": (
        "chat/completions",
        {"messages": [{"role": "tool", "tool_call_id": "c", "content": "x"}]},
        "messages[0].tool_call_id",
    ),
    "no messages": ("chat/completions", {"messages": []}, "messages"),
}

IGNORED: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "responses": (
        "responses",
        {
            "temperature": 0.2,
            "instructions": "Be brief.",
            "max_output_tokens": 10,
            "reasoning": {"effort": "low"},
            "text": {"verbosity": "low"},
            "metadata": {"colour": "red"},
            "top_p": None,
            "tools": [],
            "tool_choice": "auto",
        },
        ["instructions", "max_output_tokens", "reasoning", "temperature", "text", "metadata.colour"],
    ),
    "chat": (
        "chat/completions",
        {"temperature": 0.2, "max_tokens": 10, "user": "u-1", "seed": 7, "stop": ["."], "n": 1, "response_format": {"type": "text"}},
        ["max_tokens", "seed", "stop", "temperature", "user"],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_parameter_is_named_and_nothing_recorded(case: str) -> None:
    path, fields, param = REFUSED[case]
    workflow = make_chat(["one"])
    with run_server(workflow) as server:
        body = {**(RESPOND if path == "responses" else HELLO), **fields}
        with pytest.raises(openai.BadRequestError) as refused:
            make_client(server).post(f"/{path}", body=body, cast_to=object)
        assert refused.value.param == param
        assert refused.value.type == "invalid_request_error"
        assert server.registry.store._ledgers == {}


@pytest.mark.parametrize("case", IGNORED)
def test_model_tuning_fields_are_ignored_and_listed(case: str) -> None:
    path, fields, names = IGNORED[case]
    with run_server(make_chat(["one"])) as server:
        answer: Any = make_client(server).post(f"/{path}", body={**(RESPOND if path == "responses" else HELLO), **fields}, cast_to=object)
    assert answer["legato"]["ignored"] == names


def test_refusals_raise_matching_sdk_exceptions() -> None:
    with run_server(make_chat(["one"]), make_chat(["one"], "other")) as server:
        client = make_client(server)
        with pytest.raises(openai.NotFoundError) as unknown:
            client.responses.create(model="gpt-7", input="Hello")
        assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
        with pytest.raises(openai.AuthenticationError):
            client.with_options(api_key="a-wrong-key-of-some-length").responses.create(**RESPOND)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve("resp_nothing")
        with pytest.raises(openai.BadRequestError):
            client.responses.create(**RESPOND, previous_response_id="resp_nothing")
        mine = client.responses.create(**RESPOND)
        with pytest.raises(openai.BadRequestError, match="belongs to 'chat'"):
            client.responses.create(model="other", input="x", previous_response_id=mine.id)
        with pytest.raises(openai.BadRequestError, match="belongs to 'chat'"):
            client.responses.create(model="other", input="x", conversation=mine.conversation.id)
        answer = {"type": "mcp_approval_response", "approval_request_id": "mcpr_x_y", "approve": True}
        with pytest.raises(openai.ConflictError):
            client.responses.create(model="chat", input=[answer], previous_response_id=mine.id)
        with pytest.raises(openai.BadRequestError, match="JSON"):
            client.post("/responses", content=b"{", cast_to=object, options={"headers": {"content-type": "application/json"}})
        with pytest.raises(openai.APIStatusError) as too_large:
            client.responses.create(model="chat", input="x" * 21 * 1024 * 1024)
        assert too_large.value.status_code == 413


def test_refusals_before_routing_have_openai_format() -> None:
    with run_server(make_chat(["one"])) as server:
        client = make_client(server)
        with pytest.raises(openai.AuthenticationError) as wrong_key:
            client.with_options(api_key="a-wrong-key-of-some-length").responses.create(**RESPOND)
        assert (wrong_key.value.type, wrong_key.value.code, wrong_key.value.param) == ("authentication_error", "wrong_token", None)
        with pytest.raises(openai.APIStatusError) as too_large:
            client.responses.create(model="chat", input="x" * 21 * 1024 * 1024)
        assert (too_large.value.type, too_large.value.code) == ("invalid_request_error", "too_large")
        with pytest.raises(openai.PermissionDeniedError) as elsewhere:
            client.models.list(extra_headers={"origin": "https://evil.example"})
        assert elsewhere.value.type == "permission_error"


def test_sdk_does_not_retry_refusals() -> None:
    with run_server(make_chat(["one"])) as server:
        client = make_client(server, max_retries=3)
        mine = client.responses.create(**RESPOND)
        answer = {"type": "mcp_approval_response", "approval_request_id": "mcpr_x_y", "approve": True}
        with pytest.raises(openai.ConflictError) as refused:
            client.responses.create(model="chat", input=[answer], previous_response_id=mine.id)
        assert refused.value.response.request.headers["x-stainless-retry-count"] == "0"


def test_forged_response_id_is_not_found() -> None:
    with run_server(make_chat(["one"])) as server, httpx2.Client(headers={"authorization": f"Bearer {server.token}"}) as http:
        made = http.post(f"{server.url}/v1/responses", json=RESPOND).json()["id"]
        prefix, position, session = made.rsplit("_", 2)
        assert position == "1"

        @settings(max_examples=60, deadline=None, derandomize=True)
        @given(
            some.one_of(
                some.text(alphabet=some.characters(codec="utf-8", exclude_categories=["C"]), min_size=1),
                some.binary(min_size=1).map(lambda noise: f"{prefix}_1_{base64.urlsafe_b64encode(noise).decode().rstrip('=')}"),
                some.integers(0, 10**12).filter(lambda at: at != 1).map(lambda at: f"{prefix}_{at}_{session}"),
                some.sampled_from([f"{prefix}_0_{session}", f"{prefix}_2_{session}"]),  # where something else is recorded
                some.sampled_from([f"{prefix}_01_{session}", f"{prefix}_-1_{session}", f"{prefix}_1_{session}=", f"{prefix}_1_{session}A"]),
                some.sampled_from([f"resp_00000000_1_{session}", f"{made} ", made.upper(), made.replace("resp", "msg"), f"{made}_A"]),
            )
        )
        def refused(id: str) -> None:
            looked = http.get(f"{server.url}/v1/responses/{quote(id, safe='')}")
            assert looked.status_code == 404, (id, looked.text)
            gone_on = http.post(f"{server.url}/v1/responses", json={**RESPOND, "previous_response_id": id})
            assert (gone_on.status_code, gone_on.json()["error"]["code"]) == (400, "previous_response_not_found"), id

        refused()
        assert http.get(f"{server.url}/v1/responses/{made}").status_code == 200


def test_stream_limit_refuses_before_recording() -> None:
    model = PausedModel(["Good morning"])
    workflow = make_chat([], model=model)
    with run_server(workflow, limits=RequestLimits(max_streams=1)) as server:
        client = make_client(server)
        with client.responses.create(**RESPOND, conversation="c", stream=True):
            for ask in (client.responses.create, client.chat.completions.create):
                asked: dict[str, Any] = RESPOND if ask == client.responses.create else HELLO
                with pytest.raises(openai.RateLimitError):
                    ask(**asked, metadata={"session": "d"}, stream=True)
            assert client.responses.create(**RESPOND, conversation="e", background=True).status == "in_progress"
        model.free.set()
        assert list_messages(server, workflow, "d") == []


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions", "/agui", "/api/sessions"])
def test_body_without_length_is_cut_off(path: str) -> None:
    limits = RequestLimits(max_body_bytes=1000, max_upload_bytes=1000)
    with run_server(make_chat([]), limits=limits) as server, httpx2.Client(headers={"authorization": f"Bearer {server.token}"}) as http:
        headers = {"content-type": "application/json"}
        answer = http.post(f"{server.url}{path}", content=iter([b'{"input": "', b"x" * 2000, b'"}']), headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
