"""Who may ask, what may be sent, where the emulator listens, and what becomes of requests that fit nothing."""

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
from tests.emulator.conftest import connect, fetch, plain

MODEL = "gpt-4.1"
ASKED: dict[str, Any] = {"model": MODEL, "input": "Hi"}
VERSION = {"anthropic-version": "2023-06-01"}
GOOD, OTHER = "sk-good-0123456789", "sk-other-0123456789"


@pytest.fixture(scope="module")
def http(emulator: Emulator) -> Iterator[httpx2.Client]:
    """A client without manners of its own."""
    with plain(base_url=emulator.url, headers={"authorization": "Bearer sk-plain"}, timeout=60) as made:
        yield made


@pytest.fixture(scope="module")
def guarded() -> Iterator[Emulator]:
    """An emulator that accepts two keys."""
    with serve(keys=[GOOD, OTHER]) as running:
        yield running


# -- from where --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/models", "/_emulator", "/v1/responses"])
def test_a_request_that_names_another_host_is_refused(http: httpx2.Client, path: str) -> None:
    for host in ("example.com", "evil.127.0.0.1.nip.io", "127.0.0.1.example.com", "localhost.example.com:80", "[", "", "a b", "localhost."):
        refused = http.get(path, headers={"host": host})
        assert (refused.status_code, refused.text) == (421, "this emulator answers to loopback names only\n")


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "LOCALHOST", "127.0.0.1:9", "[::1]:80"])
def test_any_name_of_this_machine_is_its_own(http: httpx2.Client, host: str) -> None:
    assert http.get("/v1/models", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", ""])
def test_an_emulator_that_others_can_reach_needs_a_key(host: str) -> None:
    with pytest.raises(BadInput) as refused:
        serve(host=host)
    assert "an emulator that others can reach needs a key" in str(refused.value)
    assert "--key" in refused.value.do


def test_with_a_key_it_may_be_reached_by_any_name() -> None:
    with serve(host="0.0.0.0", keys=[GOOD]) as emulator:
        url = emulator.url.replace("0.0.0.0", "127.0.0.1")
        named = {"host": "desk.example.com"}
        assert fetch("GET", f"{url}/v1/models", headers=named).status_code == 401
        assert fetch("GET", f"{url}/v1/models", headers=named | {"authorization": f"Bearer {GOOD}"}).status_code == 200
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
def test_no_path_is_open_without_a_key_that_is_accepted(guarded: Emulator, method: str, path: str) -> None:
    wrong = [{}, {"x-api-key": ""}, {"api-key": "wrong"}]
    wrong += [{"authorization": words} for words in ("Bearer", "Bearer sk-wrong", f"Basic {GOOD}", GOOD)]
    with plain(base_url=guarded.url) as http:
        for headers in wrong:
            refused = http.request(method, path, json=ASKED if method == "POST" else None, headers=headers)
            assert (refused.status_code, "error" in refused.json()) == (401, True)
        for scheme in ("Bearer", "bearer", "BEARER"):
            assert http.request(method, path, headers={"authorization": f"{scheme} {GOOD}"}).status_code != 401


def test_a_refused_key_is_the_sdks_authentication_error(guarded: Emulator) -> None:
    with connect(guarded, "sk-wrong-0123456789") as client, pytest.raises(openai.AuthenticationError) as refused:
        client.responses.create(**ASKED)
    assert refused.value.code == "invalid_api_key"
    assert "sk-wrong*******6789" in refused.value.message
    with (
        anthropic.Anthropic(base_url=guarded.url, api_key="sk-wrong", max_retries=0) as claude,
        pytest.raises(anthropic.AuthenticationError, match="invalid x-api-key"),
    ):
        claude.models.list()


def test_a_single_key_need_not_be_a_list_and_is_not_taken_apart() -> None:
    with serve(keys=GOOD) as emulator:
        for key, status in ((GOOD, 200), ("s", 401)):
            assert fetch("GET", f"{emulator.openai_url}/models", headers={"authorization": f"Bearer {key}"}).status_code == status


# -- accounts ----------------------------------------------------------------------------------------------------------


def test_one_account_sees_nothing_of_another(guarded: Emulator) -> None:
    with connect(guarded, GOOD) as ours, connect(guarded, OTHER) as theirs:
        response = ours.responses.create(model="gpt-5", input="Hi")
        talk = ours.conversations.create(items=[{"role": "user", "content": "Private"}]).id
        with pytest.raises(openai.NotFoundError):
            theirs.responses.retrieve(response.id)
        with pytest.raises(openai.NotFoundError):
            theirs.responses.input_items.list(response.id)
        with pytest.raises(openai.NotFoundError):
            theirs.responses.delete(response.id)
        with pytest.raises(openai.NotFoundError):
            theirs.conversations.retrieve(talk)
        with pytest.raises(openai.NotFoundError):
            theirs.conversations.items.list(talk)
        with pytest.raises(openai.NotFoundError):
            theirs.conversations.delete(talk)
        with pytest.raises(openai.NotFoundError):
            theirs.responses.create(model="gpt-5", input="Hi", conversation=talk)
        with pytest.raises(openai.BadRequestError) as chain:
            theirs.responses.create(model="gpt-5", input="Hi", previous_response_id=response.id)
        assert chain.value.code == "previous_response_not_found"
        with pytest.raises(openai.NotFoundError, match="not found"):
            theirs.responses.create(model="gpt-5", input=[{"type": "item_reference", "id": response.output[0].id or ""}])
        assert ours.responses.retrieve(response.id).id == response.id
        assert ours.conversations.retrieve(talk).id == talk


def test_sealed_reasoning_of_one_account_is_refused_for_another(guarded: Emulator) -> None:
    with connect(guarded, GOOD) as ours, connect(guarded, OTHER) as theirs:
        made = ours.responses.create(model="gpt-5", input="Hi", store=False, include=["reasoning.encrypted_content"])
        replay: list[Any] = [{"role": "user", "content": "Hi"}, *made.output, {"role": "user", "content": "And?"}]
        assert ours.responses.create(model="gpt-5", input=replay, store=False).status == "completed"
        with pytest.raises(openai.BadRequestError) as refused:
            theirs.responses.create(model="gpt-5", input=replay, store=False)
    assert refused.value.code == "invalid_encrypted_content"
    assert "Encrypted content organization_id did not match the target organization." in refused.value.message


def test_two_keys_of_one_organisation_share_what_it_has(guarded: Emulator) -> None:
    with connect(guarded, GOOD, organization="org-us") as ours, connect(guarded, OTHER, organization="org-us") as colleague:
        response = ours.responses.create(**ASKED)
        assert colleague.responses.retrieve(response.id).id == response.id
    with connect(guarded, GOOD) as alone, pytest.raises(openai.NotFoundError):
        alone.responses.retrieve(response.id)


# -- what may be sent --------------------------------------------------------------------------------------------------

ASKING = ["/v1/responses", "/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens", "/v1/conversations", "/openai/v1/responses"]


NO_JSON = [b"no json", b"{", b'{"a": NaN}', b"\xff\xfe{}", b'{"a": "\\ud800"}', b"[" * 9999, b'{"a": ' + b"[" * 300 + b"]" * 300 + b"}"]
NO_OBJECTS = [b"[]", b'"text"', b"null", b"7", b"true", b'[{"model": "gpt-4.1"}]']


@pytest.mark.parametrize("path", ASKING)
def test_a_body_that_is_no_json_is_a_bad_request(http: httpx2.Client, path: str) -> None:
    for body in NO_JSON:
        refused = http.post(path, content=body, headers=VERSION if "messages" in path else {})
        assert refused.status_code == 400
        error = refused.json()["error"]
        assert error["message"].startswith("We could not parse the JSON body of your request.")
        assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize("path", ASKING)
def test_a_body_that_is_no_object_is_a_bad_request(http: httpx2.Client, path: str) -> None:
    for body in NO_OBJECTS:
        refused = http.post(path, content=body, headers=VERSION if "messages" in path else {})
        assert refused.status_code == 400
        error = refused.json()["error"]
        assert error["message"]
        assert error["type"] == "invalid_request_error"


def test_an_empty_body_is_a_bad_request_unless_nothing_need_be_said(http: httpx2.Client) -> None:
    for path in ("/v1/responses", "/v1/chat/completions", "/v1/messages"):
        assert http.post(path, headers=VERSION).status_code == 400
    assert http.post("/v1/conversations").status_code == 200


@pytest.mark.parametrize("path", ASKING)
def test_a_body_of_more_than_32_megabytes_is_too_large(http: httpx2.Client, path: str) -> None:
    refused = http.post(path, content=b" " * (32 * 1024 * 1024 + 1), headers=VERSION if "messages" in path else {})
    assert refused.status_code == 413
    assert refused.json()["error"]["message"].startswith("Request exceeds the maximum size")


def test_a_body_of_just_32_megabytes_is_read(http: httpx2.Client) -> None:
    body = b'{"model": "gpt-4.1"}'
    answer = http.post("/v1/responses", content=body + b" " * (32 * 1024 * 1024 - len(body)))
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "missing_required_parameter")


# -- what is not there -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/nothing"), ("POST", "/v2/responses"), ("GET", "/"), ("PATCH", "/v1/responses")])
def test_an_unknown_path_is_told_in_openais_words(http: httpx2.Client, method: str, path: str) -> None:
    missing = http.request(method, path)
    assert missing.status_code == 404
    words = f"Invalid URL ({method} {path})"
    assert missing.json() == {"error": {"message": words, "type": "invalid_request_error", "param": None, "code": None}}


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/nothing"), ("GET", "/v1/messages"), ("POST", "/v1/messages/batches")])
def test_an_unknown_path_is_told_in_anthropics_words(http: httpx2.Client, method: str, path: str) -> None:
    missing = http.request(method, path, headers=VERSION)
    assert missing.status_code == 404
    assert missing.json() == {"type": "error", "error": {"type": "not_found_error", "message": "Not found"}}


@pytest.mark.parametrize(("method", "path"), [("GET", "/openai/no"), ("GET", "/openai/v1/responses"), ("POST", "/openai/deployments/x/y")])
def test_an_unknown_path_is_told_in_azures_words(http: httpx2.Client, method: str, path: str) -> None:
    missing = http.request(method, path)
    assert (missing.status_code, missing.json()) == (404, {"error": {"code": "404", "message": "Resource not found"}})


# -- its life ----------------------------------------------------------------------------------------------------------


def test_a_port_that_is_taken_is_bad_input(emulator: Emulator) -> None:
    port = int(emulator.url.rpartition(":")[2])
    with pytest.raises(BadInput) as refused:
        serve(port=port).start()
    assert f"the emulator cannot listen on 127.0.0.1:{port}" in str(refused.value)
    assert refused.value.do == "choose another port, or 0 for any"


@pytest.mark.parametrize("port", [70_000, -1])
def test_a_port_that_cannot_be_is_bad_input(port: int) -> None:
    with pytest.raises(BadInput, match="cannot listen"):
        serve(port=port).start()


def test_stopping_twice_is_harmless_and_nothing_runs_after_it() -> None:
    emulator = serve()
    with pytest.raises(BadInput, match="this emulator is not running"):
        emulator.url
    with emulator:
        url = emulator.url
        assert url in repr(emulator)
        with pytest.raises(BadInput, match="this emulator is running already"):
            emulator.start()
        fetch("POST", f"{url}/v1/responses", json=ASKED, headers={"authorization": "Bearer k"})
        emulator.stop()
        emulator.stop()
    with pytest.raises(BadInput, match="this emulator is not running"):
        emulator.openai_url
    with pytest.raises(BadInput, match="this emulator was stopped"):
        emulator.start()
    with pytest.raises(httpx2.ConnectError):
        fetch("GET", f"{url}/v1/models")
    assert emulator.summary() == "1 requests: 200 x1"  # what happened can still be asked for
    assert emulator.exchanges[0].status == 200


def test_the_port_is_free_again_at_once() -> None:
    with serve() as first:
        port = int(first.url.rpartition(":")[2])
        fetch("GET", f"{first.url}/v1/models")
    with serve(port=port) as second:
        assert fetch("GET", f"{second.url}/v1/models", headers={"authorization": "Bearer k"}).status_code == 200


def test_stopping_breaks_what_is_not_answered_and_is_silent_about_it(caplog: pytest.LogCaptureFixture) -> None:
    broken: list[Exception] = []

    def wait() -> None:
        try:
            client.responses.create(**ASKED, extra_headers={"x-legato-fault": "timeout seconds=60"})
        except openai.APIError as error:
            broken.append(error)

    with caplog.at_level(logging.WARNING), serve() as emulator, connect(emulator) as client:
        waiting = threading.Thread(target=wait)
        waiting.start()
        stream = client.responses.create(**ASKED, stream=True, extra_headers={"x-legato-fault": "slow delay=60"})
        assert next(iter(stream)).type == "response.created"
        while emulator.log.requests < 2:
            time.sleep(0.01)
        emulator.stop()
        with pytest.raises(openai.APIConnectionError):
            list(stream)
        waiting.join(60)
    assert [type(error) for error in broken] == [openai.APIConnectionError]
    assert caplog.records == []
    assert [exchange.whole for exchange in emulator.exchanges] == [False, False]
    assert emulator.summary().startswith("2 requests: 200 x1, 499 x1")


async def test_it_can_be_used_in_an_event_loop_that_others_use_too() -> None:
    async with serve() as emulator, openai.AsyncOpenAI(base_url=emulator.openai_url, api_key="k") as client:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.001)

        ticking = asyncio.create_task(tick())
        await client.responses.create(**ASKED, extra_headers={"x-legato-fault": "slow delay=0.005"})
        ticking.cancel()
        assert ticks > 3


def test_two_emulators_share_nothing() -> None:
    with serve() as one, serve() as two, connect(one, "k") as ours, connect(two, "k") as theirs:
        response = ours.responses.create(**ASKED)
        with pytest.raises(openai.NotFoundError):
            theirs.responses.retrieve(response.id)


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/conversations", "/v1/messages/count_tokens"])
def test_a_client_that_sends_half_a_request_disturbs_nobody(path: str, caplog: pytest.LogCaptureFixture) -> None:
    with serve() as emulator:
        host, _, port = emulator.url.removeprefix("http://").partition(":")
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer k\r\nContent-Length: 900\r\n\r\n"
        with socket.create_connection((host, int(port))) as half:
            half.sendall(head.encode() + b"{")
        assert fetch("POST", f"{emulator.openai_url}/responses", json=ASKED, headers={"authorization": "Bearer k"}).status_code == 200
    statuses = sorted(exchange.status for exchange in emulator.exchanges)
    assert statuses == [200, 499]
    assert caplog.records == []


def test_a_mind_that_fails_is_named_and_leaves_no_conversation_locked() -> None:
    def mind(prompt: Any) -> str:
        raise ZeroDivisionError("no")

    with serve(mind=mind) as emulator, connect(emulator, "k") as client:
        with pytest.raises(openai.APIStatusError, match="mind failed: ZeroDivisionError: no"):
            client.responses.create(**ASKED)
        talk = client.conversations.create().id
        for _ in range(2):
            with pytest.raises(openai.APIStatusError, match="mind failed"):
                client.responses.create(**ASKED, conversation=talk)


def test_a_mind_that_says_nothing_that_can_be_sent_is_told_so() -> None:
    class Mute:
        def reply(self, prompt: Any) -> str:
            return "text"

    with (
        serve(mind=Mute()) as emulator,
        connect(emulator, "k") as client,
        pytest.raises(openai.BadRequestError, match="says what cannot be sent"),
    ):
        client.responses.create(**ASKED)
    with (
        serve(mind=lambda prompt: "half a pair: \ud800") as emulator,
        connect(emulator, "k") as client,
        pytest.raises(openai.BadRequestError, match="valid Unicode"),
    ):
        client.responses.create(**ASKED)
    with serve(mind=["Once."]) as emulator, connect(emulator, "k") as client:
        first = client.responses.create(**ASKED)
        with pytest.raises(openai.BadRequestError, match="there is no reply number 2"):
            client.responses.create(**ASKED, previous_response_id=first.id)
