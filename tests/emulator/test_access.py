"""Access to the emulator: hosts, keys, accounts, bodies, unknown paths, start and stop."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from legato.emulator import Emulator, serve
from legato.errors import BadInput
from tests.emulator.conftest import fetch, make_http_client, make_openai_client

MODEL = "gpt-4.1"
REQUEST: dict[str, Any] = {"model": MODEL, "input": "Hi"}
VERSION = {"anthropic-version": "2023-06-01"}
FIRST_KEY, SECOND_KEY = "sk-good-0123456789", "sk-other-0123456789"


@pytest.fixture(scope="module")
def http(emulator: Emulator) -> Iterator[httpx2.Client]:
    """A plain HTTP client."""
    with make_http_client(base_url=emulator.url, headers={"authorization": "Bearer sk-plain"}, timeout=60) as value:
        yield value


@pytest.fixture(scope="module")
def keyed_emulator() -> Iterator[Emulator]:
    """An emulator that accepts two keys."""
    with serve(keys=[FIRST_KEY, SECOND_KEY]) as emulator:
        yield emulator


# -- hosts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/models", "/_emulator", "/v1/responses"])
def test_request_for_another_host_is_rejected(http: httpx2.Client, path: str) -> None:
    for host in ("example.com", "evil.127.0.0.1.nip.io", "127.0.0.1.example.com", "localhost.example.com:80", "[", "", "a b", "localhost."):
        rejection = http.get(path, headers={"host": host})
        assert (rejection.status_code, rejection.text) == (421, "this emulator answers to loopback names only\n")


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "LOCALHOST", "127.0.0.1:9", "[::1]:80"])
def test_every_loopback_name_is_accepted(http: httpx2.Client, host: str) -> None:
    assert http.get("/v1/models", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", ""])
def test_reachable_emulator_needs_a_key(host: str) -> None:
    with pytest.raises(BadInput) as rejection:
        serve(host=host)
    assert "an emulator that other machines can reach needs a key" in str(rejection.value)
    assert "--key" in rejection.value.do


def test_emulator_with_key_accepts_any_host() -> None:
    with serve(host="0.0.0.0", keys=[FIRST_KEY]) as emulator:
        url = emulator.url.replace("0.0.0.0", "127.0.0.1")
        named = {"host": "desk.example.com"}
        assert fetch("GET", f"{url}/v1/models", headers=named).status_code == 401
        assert fetch("GET", f"{url}/v1/models", headers=named | {"authorization": f"Bearer {FIRST_KEY}"}).status_code == 200
        assert fetch("GET", f"{url}/_emulator", headers=named).status_code == 401


# -- keys --------------------------------------------------------------------------------------------------------------

PATHS = [
    ("POST", "/v1/responses"),
    ("GET", "/v1/responses/resp_1"),
    ("DELETE", "/v1/responses/resp_1"),
    ("GET", "/v1/responses/resp_1/input_items"),
    ("POST", "/v1/conversations"),
    ("GET", "/v1/conversations/conv_1"),
    ("GET", "/v1/conversations/conv_1/items"),
    ("POST", "/v1/chat/completions"),
    ("GET", "/v1/models"),
    ("GET", f"/v1/models/{MODEL}"),
    ("POST", "/v1/messages"),
    ("POST", "/v1/messages/count_tokens"),
    ("POST", "/openai/v1/responses"),
    ("POST", "/openai/deployments/desk/chat/completions"),
    ("GET", "/openai/v1/models"),
]


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_every_path_needs_an_accepted_key(keyed_emulator: Emulator, method: str, path: str) -> None:
    invalid_headers = [{}, {"x-api-key": ""}, {"api-key": "wrong"}]
    invalid_headers += [{"authorization": words} for words in ("Bearer", "Bearer sk-wrong", f"Basic {FIRST_KEY}", FIRST_KEY)]
    with make_http_client(base_url=keyed_emulator.url) as http:
        for headers in invalid_headers:
            rejection = http.request(method, path, json=REQUEST if method == "POST" else None, headers=headers)
            assert (rejection.status_code, "error" in rejection.json()) == (401, True)
        for scheme in ("Bearer", "bearer", "BEARER"):
            assert http.request(method, path, headers={"authorization": f"{scheme} {FIRST_KEY}"}).status_code != 401


def test_invalid_key_raises_sdk_authentication_error(keyed_emulator: Emulator) -> None:
    with make_openai_client(keyed_emulator, "sk-wrong-0123456789") as client, pytest.raises(openai.AuthenticationError) as rejection:
        client.responses.create(**REQUEST)
    assert rejection.value.code == "invalid_api_key"
    assert "sk-wrong*******6789" in rejection.value.message
    with (
        anthropic.Anthropic(base_url=keyed_emulator.url, api_key="sk-wrong", max_retries=0) as claude,
        pytest.raises(anthropic.AuthenticationError, match="invalid x-api-key"),
    ):
        claude.models.list()


def test_single_key_may_be_a_string() -> None:
    with serve(keys=FIRST_KEY) as emulator:
        for key, status in ((FIRST_KEY, 200), ("s", 401)):
            assert fetch("GET", f"{emulator.openai_url}/models", headers={"authorization": f"Bearer {key}"}).status_code == status


# -- accounts ----------------------------------------------------------------------------------------------------------


def test_accounts_cannot_see_each_other(keyed_emulator: Emulator) -> None:
    with make_openai_client(keyed_emulator, FIRST_KEY) as first, make_openai_client(keyed_emulator, SECOND_KEY) as second:
        response = first.responses.create(model="gpt-5", input="Hi")
        conversation = first.conversations.create(items=[{"role": "user", "content": "Private"}]).id
        with pytest.raises(openai.NotFoundError):
            second.responses.retrieve(response.id)
        with pytest.raises(openai.NotFoundError):
            second.responses.input_items.list(response.id)
        with pytest.raises(openai.NotFoundError):
            second.responses.delete(response.id)
        with pytest.raises(openai.NotFoundError):
            second.conversations.retrieve(conversation)
        with pytest.raises(openai.NotFoundError):
            second.conversations.items.list(conversation)
        with pytest.raises(openai.NotFoundError):
            second.conversations.delete(conversation)
        with pytest.raises(openai.NotFoundError):
            second.responses.create(model="gpt-5", input="Hi", conversation=conversation)
        with pytest.raises(openai.BadRequestError) as chain:
            second.responses.create(model="gpt-5", input="Hi", previous_response_id=response.id)
        assert chain.value.code == "previous_response_not_found"
        with pytest.raises(openai.NotFoundError, match="not found"):
            second.responses.create(model="gpt-5", input=[{"type": "item_reference", "id": response.output[0].id or ""}])
        assert first.responses.retrieve(response.id).id == response.id
        assert first.conversations.retrieve(conversation).id == conversation


def test_encrypted_reasoning_belongs_to_its_account(keyed_emulator: Emulator) -> None:
    with make_openai_client(keyed_emulator, FIRST_KEY) as first, make_openai_client(keyed_emulator, SECOND_KEY) as second:
        value = first.responses.create(model="gpt-5", input="Hi", store=False, include=["reasoning.encrypted_content"])
        replay: list[Any] = [{"role": "user", "content": "Hi"}, *value.output, {"role": "user", "content": "And?"}]
        assert first.responses.create(model="gpt-5", input=replay, store=False).status == "completed"
        with pytest.raises(openai.BadRequestError) as rejection:
            second.responses.create(model="gpt-5", input=replay, store=False)
    assert rejection.value.code == "invalid_encrypted_content"
    assert "Encrypted content organization_id did not match the target organization." in rejection.value.message


def test_keys_of_one_organisation_share_objects(keyed_emulator: Emulator) -> None:
    with (
        make_openai_client(keyed_emulator, FIRST_KEY, organization="org-us") as first,
        make_openai_client(keyed_emulator, SECOND_KEY, organization="org-us") as colleague,
    ):
        response = first.responses.create(**REQUEST)
        assert colleague.responses.retrieve(response.id).id == response.id
    with make_openai_client(keyed_emulator, FIRST_KEY) as alone, pytest.raises(openai.NotFoundError):
        alone.responses.retrieve(response.id)


# -- bodies ------------------------------------------------------------------------------------------------------------

POST_PATHS = [
    "/v1/responses",
    "/v1/chat/completions",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/conversations",
    "/openai/v1/responses",
]


NO_JSON = [b"no json", b"{", b'{"a": NaN}', b"\xff\xfe{}", b'{"a": "\\ud800"}', b"[" * 9999, b'{"a": ' + b"[" * 300 + b"]" * 300 + b"}"]
NO_OBJECTS = [b"[]", b'"text"', b"null", b"7", b"true", b'[{"model": "gpt-4.1"}]']


@pytest.mark.parametrize("path", POST_PATHS)
def test_invalid_json_is_a_bad_request(http: httpx2.Client, path: str) -> None:
    for body in NO_JSON:
        rejection = http.post(path, content=body, headers=VERSION if "messages" in path else {})
        assert rejection.status_code == 400
        error = rejection.json()["error"]
        assert error["message"].startswith("We could not parse the JSON body of your request.")
        assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize("path", POST_PATHS)
def test_body_without_object_is_bad_request(http: httpx2.Client, path: str) -> None:
    for body in NO_OBJECTS:
        rejection = http.post(path, content=body, headers=VERSION if "messages" in path else {})
        assert rejection.status_code == 400
        error = rejection.json()["error"]
        assert error["message"]
        assert error["type"] == "invalid_request_error"


def test_empty_body_is_usually_bad_request(http: httpx2.Client) -> None:
    for path in ("/v1/responses", "/v1/chat/completions", "/v1/messages"):
        assert http.post(path, headers=VERSION).status_code == 400
    assert http.post("/v1/conversations").status_code == 200


@pytest.mark.parametrize("path", POST_PATHS)
def test_body_over_32_mib_is_rejected(http: httpx2.Client, path: str) -> None:
    rejection = http.post(path, content=b" " * (32 * 1024 * 1024 + 1), headers=VERSION if "messages" in path else {})
    assert rejection.status_code == 413
    assert rejection.json()["error"]["message"].startswith("Request exceeds the maximum size")


def test_body_of_32_mib_is_read(http: httpx2.Client) -> None:
    body = b'{"model": "gpt-4.1"}'
    response = http.post("/v1/responses", content=body + b" " * (32 * 1024 * 1024 - len(body)))
    assert (response.status_code, response.json()["error"]["code"]) == (400, "missing_required_parameter")


# -- unknown paths -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/nothing"), ("POST", "/v2/responses"), ("GET", "/"), ("PATCH", "/v1/responses")])
def test_unknown_path_gets_openai_error(http: httpx2.Client, method: str, path: str) -> None:
    reply = http.request(method, path)
    assert reply.status_code == 404
    words = f"Invalid URL ({method} {path})"
    assert reply.json() == {"error": {"message": words, "type": "invalid_request_error", "param": None, "code": None}}


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/nothing"), ("GET", "/v1/messages"), ("POST", "/v1/messages/batches")])
def test_unknown_path_gets_anthropic_error(http: httpx2.Client, method: str, path: str) -> None:
    reply = http.request(method, path, headers=VERSION)
    assert reply.status_code == 404
    assert reply.json() == {"type": "error", "error": {"type": "not_found_error", "message": "Not found"}}


@pytest.mark.parametrize(("method", "path"), [("GET", "/openai/no"), ("GET", "/openai/v1/responses"), ("POST", "/openai/deployments/x/y")])
def test_unknown_path_gets_azure_error(http: httpx2.Client, method: str, path: str) -> None:
    reply = http.request(method, path)
    assert (reply.status_code, reply.json()) == (404, {"error": {"code": "404", "message": "Resource not found"}})


# -- start and stop ----------------------------------------------------------------------------------------------------


def test_occupied_port_is_bad_input(emulator: Emulator) -> None:
    port = int(emulator.url.rpartition(":")[2])
    with pytest.raises(BadInput) as rejection:
        serve(port=port).start()
    assert f"the emulator cannot listen on 127.0.0.1:{port}" in str(rejection.value)
    assert rejection.value.do == "choose another port, or 0 for any"


@pytest.mark.parametrize("port", [70_000, -1])
def test_invalid_port_is_bad_input(port: int) -> None:
    with pytest.raises(BadInput, match="cannot listen"):
        serve(port=port).start()


def test_stopping_twice_is_harmless() -> None:
    emulator = serve()
    with pytest.raises(BadInput, match="this emulator is not running"):
        emulator.url
    with emulator:
        url = emulator.url
        assert url in repr(emulator)
        with pytest.raises(BadInput, match="this emulator is running already"):
            emulator.start()
        fetch("POST", f"{url}/v1/responses", json=REQUEST, headers={"authorization": "Bearer k"})
        emulator.stop()
        emulator.stop()
    with pytest.raises(BadInput, match="this emulator is not running"):
        emulator.openai_url
    with pytest.raises(BadInput, match="this emulator was stopped"):
        emulator.start()
    with pytest.raises(httpx2.ConnectError):
        fetch("GET", f"{url}/v1/models")
    assert emulator.summary() == "1 requests: 200 x1"  # the totals stay readable
    assert emulator.exchanges[0].status == 200


def test_port_is_free_after_stop() -> None:
    with serve() as first:
        port = int(first.url.rpartition(":")[2])
        fetch("GET", f"{first.url}/v1/models")
    with serve(port=port) as second:
        assert fetch("GET", f"{second.url}/v1/models", headers={"authorization": "Bearer k"}).status_code == 200


def test_stopping_breaks_open_requests_silently(caplog: pytest.LogCaptureFixture) -> None:
    errors: list[Exception] = []

    def wait() -> None:
        try:
            client.responses.create(**REQUEST, extra_headers={"x-legato-fault": "timeout seconds=60"})
        except openai.APIError as error:
            errors.append(error)

    with caplog.at_level(logging.WARNING), serve() as emulator, make_openai_client(emulator) as client:
        thread = threading.Thread(target=wait)
        thread.start()
        stream = client.responses.create(**REQUEST, stream=True, extra_headers={"x-legato-fault": "slow delay=60"})
        assert next(iter(stream)).type == "response.created"
        while emulator.log.requests < 2:
            time.sleep(0.01)
        emulator.stop()
        with pytest.raises(openai.APIConnectionError):
            list(stream)
        thread.join(60)
    assert [type(error) for error in errors] == [openai.APIConnectionError]
    assert caplog.records == []
    assert [exchange.is_complete for exchange in emulator.exchanges] == [False, False]
    assert emulator.summary().startswith("2 requests: 200 x1, 499 x1")


async def test_async_emulator_leaves_event_loop_free() -> None:
    async with serve() as emulator, openai.AsyncOpenAI(base_url=emulator.openai_url, api_key="k") as client:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.001)

        ticker = asyncio.create_task(tick())
        await client.responses.create(**REQUEST, extra_headers={"x-legato-fault": "slow delay=0.005"})
        ticker.cancel()
        assert ticks > 3


def test_two_emulators_share_nothing() -> None:
    with serve() as one, serve() as two, make_openai_client(one, "k") as first, make_openai_client(two, "k") as second:
        response = first.responses.create(**REQUEST)
        with pytest.raises(openai.NotFoundError):
            second.responses.retrieve(response.id)


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/conversations", "/v1/messages/count_tokens"])
def test_half_a_request_disturbs_no_others(path: str, caplog: pytest.LogCaptureFixture) -> None:
    with serve() as emulator:
        host, _, port = emulator.url.removeprefix("http://").partition(":")
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer k\r\nContent-Length: 900\r\n\r\n"
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(head.encode() + b"{")
        assert fetch("POST", f"{emulator.openai_url}/responses", json=REQUEST, headers={"authorization": "Bearer k"}).status_code == 200
    statuses = sorted(exchange.status for exchange in emulator.exchanges)
    assert statuses == [200, 499]
    assert caplog.records == []


def test_failing_fake_model_releases_the_conversation() -> None:
    def failing_model(prompt: Any) -> str:
        raise ZeroDivisionError("no")

    with serve(fake_model=failing_model) as emulator, make_openai_client(emulator, "k") as client:
        with pytest.raises(openai.APIStatusError, match="fake model failed: ZeroDivisionError: no"):
            client.responses.create(**REQUEST)
        conversation = client.conversations.create().id
        for _ in range(2):
            with pytest.raises(openai.APIStatusError, match="fake model failed"):
                client.responses.create(**REQUEST, conversation=conversation)


def test_unencodable_reply_is_an_emulator_error() -> None:
    class Mute:
        def reply(self, prompt: Any) -> str:
            return "text"

    with (
        serve(fake_model=Mute()) as emulator,
        make_openai_client(emulator, "k") as client,
        pytest.raises(openai.BadRequestError, match="reply that cannot be encoded"),
    ):
        client.responses.create(**REQUEST)
    with (
        serve(fake_model=lambda prompt: "half a pair: \ud800") as emulator,
        make_openai_client(emulator, "k") as client,
        pytest.raises(openai.BadRequestError, match="valid Unicode"),
    ):
        client.responses.create(**REQUEST)
    with serve(fake_model=["Once."]) as emulator, make_openai_client(emulator, "k") as client:
        first = client.responses.create(**REQUEST)
        with pytest.raises(openai.BadRequestError, match="there is no reply number 2"):
            client.responses.create(**REQUEST, previous_response_id=first.id)
