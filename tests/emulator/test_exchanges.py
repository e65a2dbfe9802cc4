"""Recorded exchanges, the live page and the log; and the secrets that none of them has."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import msgspec
import openai
import pytest

from legato.emulator import Emulator, serve
from legato.emulator.exchanges import Exchange
from legato.emulator.fake_models import ReplyCall, ReplyText, ReplyThought
from legato.errors import BadInput
from tests.emulator.conftest import fetch, make_http_client, make_openai_client

MODEL = "gpt-4.1"
SECRET = "sk-proj-a-key-that-nobody-may-see-0123456789"
LOOK_UP: dict[str, Any] = {
    "type": "function",
    "name": "look_up_order",
    "description": "Where an order is.",
    "parameters": {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]},
    "strict": False,
}


def list_exchanges(emulator: Emulator, **query: Any) -> Any:
    """Return the exchanges as the live page gets them."""
    page = httpx2.URL(emulator.page)
    return fetch("GET", f"{emulator.url}/_emulator/exchanges", params={"token": page.params["token"], **query}).json()


@pytest.fixture(scope="module")
def used_emulator() -> Iterator[Emulator]:
    """An emulator with a reply, a rejection, a stream and a failure."""
    with serve(seed=3) as emulator, make_openai_client(emulator) as client:
        first = client.responses.create(model=MODEL, input="Where is order A-17?", tools=[LOOK_UP])  # type: ignore[list-item]
        with pytest.raises(openai.BadRequestError):
            client.responses.create(model=MODEL, input="Well?", previous_response_id=first.id)
        list(client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hello"}], stream=True))
        with pytest.raises(openai.RateLimitError):
            client.responses.create(model=MODEL, input="Hi", extra_headers={"x-legato-fault": "rate_limit retry_after=2"})
        yield emulator


# -- exchanges ---------------------------------------------------------------------------------------------------------


def test_exchange_has_request_prompt_and_reply(used_emulator: Emulator) -> None:
    exchange = used_emulator.exchanges[0]
    assert (exchange.number, exchange.api, exchange.path, exchange.status) == (1, "responses", "/v1/responses", 200)
    assert exchange.request_body["input"] == "Where is order A-17?"
    assert exchange.prompt is not None
    assert (exchange.prompt.last_user_text, [tool.name for tool in exchange.prompt.tools]) == ("Where is order A-17?", ["look_up_order"])
    assert exchange.fake_reply is not None
    assert ReplyCall("look_up_order", '{"order_id": "A-17"}') in exchange.fake_reply.items
    assert exchange.reply_body is not None
    assert exchange.reply_body["object"] == "response"
    assert exchange.is_complete
    assert not exchange.is_stream
    assert exchange.duration_s > 0
    assert exchange.violations == ()


def test_rejected_exchange_has_its_violations(used_emulator: Emulator) -> None:
    exchange = used_emulator.exchanges[1]
    assert (exchange.status, exchange.fake_reply) == (400, None)
    assert [verdict.rule_id for verdict in exchange.violations] == ["T1"]
    verdict = exchange.violations[0]
    assert verdict.message.startswith("No tool output found for function call call_")
    assert verdict.rule_text
    assert exchange.reply_body is not None
    assert exchange.reply_body["error"]["message"] == verdict.message
    assert repr(exchange) == "<exchange 2: responses 400 refused by T1>"


def test_streamed_exchange_counts_its_events(used_emulator: Emulator) -> None:
    exchange = used_emulator.exchanges[2]
    assert exchange.is_stream
    assert exchange.is_complete
    assert exchange.event_count > 3
    assert exchange.reply_body is not None
    assert exchange.reply_body["object"] == "chat.completion"


def test_exchange_names_its_fault(used_emulator: Emulator) -> None:
    assert (used_emulator.exchanges[3].status, used_emulator.exchanges[3].fault) == (429, "rate_limit retry_after=2")


def test_summary_counts_statuses_rules_faults(used_emulator: Emulator) -> None:
    assert used_emulator.summary().splitlines() == [
        "4 requests: 200 x2, 400 x1, 429 x1",
        "refused by rule: responses T1 x1",
        "faults: rate_limit x1",
    ]
    assert "4 requests" in repr(used_emulator)


def test_unused_emulator_has_empty_summary() -> None:
    emulator = serve()
    assert (emulator.summary(), emulator.exchanges) == ("no requests", [])
    assert repr(emulator) == "<Emulator not running: 0 requests>"
    emulator.stop()


def test_only_newest_exchanges_are_kept() -> None:
    with serve(max_exchanges=3) as emulator, make_openai_client(emulator) as client:
        for number in range(5):
            client.responses.create(model=MODEL, input=f"Number {number}")
        assert [exchange.request_body["input"] for exchange in emulator.exchanges] == ["Number 2", "Number 3", "Number 4"]
        assert emulator.summary() == "5 requests: 200 x5"
    with pytest.raises(BadInput):
        serve(max_exchanges=-1)


def test_listener_gets_exchanges_until_removed() -> None:
    received: list[Exchange] = []
    with serve() as emulator, make_openai_client(emulator) as client:
        stop = emulator.log.listen(received.append)
        client.responses.create(model=MODEL, input="Hi")
        stop()
        client.responses.create(model=MODEL, input="Hi again")
    assert [exchange.number for exchange in received] == [1]


def test_failing_listener_is_removed(caplog: pytest.LogCaptureFixture) -> None:
    received: list[int] = []

    def failing_listener(exchange: Exchange) -> None:
        received.append(exchange.number)
        raise BrokenPipeError

    with serve() as emulator, make_openai_client(emulator) as client:
        emulator.log.listen(failing_listener)
        for _ in range(2):
            assert client.responses.create(model=MODEL, input="Hi").status == "completed"
    assert received == [1]
    assert [record.message for record in caplog.records] == ["a listener to the exchanges failed and was removed: BrokenPipeError()"]


def test_late_exchange_is_listed_after_earlier_end() -> None:
    """Exchanges are listed by their ends: a slow one that ends last is not missed."""
    with serve() as emulator, make_openai_client(emulator) as client:
        slow = client.responses.create(model=MODEL, input="Slow", stream=True, extra_headers={"x-legato-fault": "slow delay=0.02"})
        next(iter(slow))
        client.responses.create(model=MODEL, input="Quick")
        newest = list_exchanges(emulator)["exchanges"][-1]
        assert newest["number"] == 2
        list(slow)
        assert [exchange["number"] for exchange in list_exchanges(emulator, after=newest["ended"])["exchanges"]] == [1]


def test_exchanges_are_readable_during_requests() -> None:
    failed: list[BaseException] = []
    with serve(max_exchanges=50) as emulator:

        def ask() -> None:
            try:
                with make_http_client(base_url=emulator.url, headers={"authorization": "Bearer k"}) as http:
                    for _ in range(60):
                        http.post("/v1/responses", json={"model": "x"})
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            assert len(emulator.exchanges) <= 50
            assert "requests" in emulator.summary()
            time.sleep(0.001)
        assert not failed
        assert emulator.summary().startswith("180 requests: 400 x180")


def test_only_model_requests_are_counted() -> None:
    with serve(keys=["sk-test"]) as emulator, make_openai_client(emulator) as client:
        conversation_id = client.conversations.create().id
        client.conversations.delete(conversation_id)
        client.models.list()
        with make_openai_client(emulator, "sk-wrong") as wrong_client, pytest.raises(openai.AuthenticationError):
            wrong_client.models.list()
        body = {"model": "claude-sonnet-5", "messages": [{"role": "user", "content": "Hi"}]}
        with make_http_client(base_url=emulator.url, headers={"x-api-key": "sk-test", "anthropic-version": "2023-06-01"}) as http:
            assert http.post("/v1/messages/count_tokens", json=body).status_code == 200
        assert emulator.log.requests == 0
        assert [(exchange.api, exchange.method, exchange.status) for exchange in emulator.exchanges] == [
            ("responses", "POST", 200),
            ("responses", "DELETE", 200),
            ("chat", "GET", 200),
            ("chat", "GET", 401),
            ("anthropic", "POST", 200),
        ]
        assert emulator.exchanges[-1].request_body == body
        assert repr(emulator.exchanges[1]) == f"<exchange 2: DELETE /v1/conversations/{conversation_id} 200>"
        assert emulator.exchanges[3].summary_line.startswith("GET /v1/models Incorrect API key provided: ")
        assert emulator.summary().splitlines() == ["no requests", "5 other requests: 200 x4, 401 x1"]


@pytest.mark.parametrize(
    ("path", "suggestion"), [("/responses", "/v1/responses"), ("/v1/v1/messages", "/v1/messages"), ("/v1/embeddings", ""), ("/", "")]
)
def test_unknown_path_note_suggests_a_path(path: str, suggestion: str) -> None:
    with serve() as emulator:
        response = fetch("POST", emulator.url + path, json={})
        assert response.json()["error"]["message"] == f"Invalid URL (POST {path})"
        (exchange,) = emulator.exchanges
        assert (exchange.api, exchange.path, exchange.status) == ("", path, 404)
        assert exchange.note == (f"did you mean {suggestion}?" if suggestion else "")


def test_summary_line_has_text_before_thoughts() -> None:
    replies = [ReplyThought("Hm."), ReplyText("One\nmoment."), ReplyCall("look_up")]
    with serve(fake_model=lambda prompt: replies) as emulator, make_openai_client(emulator) as client:
        client.responses.create(model=MODEL, input="Hi")
        with pytest.raises(openai.RateLimitError):
            client.responses.create(model=MODEL, input="Hi", extra_headers={"x-legato-fault": "rate_limit"})
        reply_line, limited_line = (exchange.summary_line for exchange in emulator.exchanges)
        assert reply_line == "One moment. | look_up({}) | (thought: Hm.)"
        assert limited_line.startswith("[rate_limit] Rate limit reached for gpt-4.1")
        assert [exchange["told"] for exchange in list_exchanges(emulator)["exchanges"]] == [reply_line, limited_line]


def test_log_file_is_private(tmp_path: Path) -> None:
    with serve(log=tmp_path / "log.jsonl"):
        assert (tmp_path / "log.jsonl").stat().st_mode & 0o777 == 0o600


def test_open_requests_are_logged_on_stop(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with serve(log=log) as emulator:
        partial_request = b'POST /v1/responses HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer k\r\ncontent-length: 9\r\n\r\n{"mod'
        with socket.create_connection(("127.0.0.1", int(emulator.url.rpartition(":")[2]))) as connection:
            connection.sendall(partial_request)
            while emulator.log.requests == 0:
                time.sleep(0.001)
            emulator.stop()
    assert [json.loads(line)["status"] for line in log.read_text().splitlines()] == [499]
    assert emulator.summary() == "1 requests: 499 x1"


# -- the page ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/_emulator", "/_emulator/exchanges"])
def test_page_needs_the_token(used_emulator: Emulator, path: str) -> None:
    for query, headers in (
        ({}, {}),
        ({"token": ""}, {}),
        ({"token": "guess"}, {}),
        ({"token": "é"}, {}),
        ({}, {"authorization": "Bearer guess"}),
        ({}, {"authorization": "Bearer sk-test"}),
        ({}, {"authorization": httpx2.URL(used_emulator.page).params["token"]}),
    ):
        rejection = fetch("GET", used_emulator.url + path, params=query, headers=headers)
        assert rejection.status_code == 401
        assert "order" not in rejection.text


def test_page_loads_nothing_from_elsewhere(used_emulator: Emulator) -> None:
    page = fetch("GET", used_emulator.page)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert page.headers["x-frame-options"] == "DENY"
    assert (page.headers["referrer-policy"], page.headers["cache-control"]) == ("no-referrer", "no-store")
    assert "http://" not in page.text
    assert "https://" not in page.text
    assert "innerHTML" not in page.text  # conversations are shown as text, never as markup


def test_exchanges_are_listed_as_json(used_emulator: Emulator) -> None:
    received = list_exchanges(used_emulator)
    assert received["summary"] == used_emulator.summary()
    assert [exchange["number"] for exchange in received["exchanges"]] == [1, 2, 3, 4]
    assert received["exchanges"][1]["verdict"][0]["clause"] == "T1"
    assert [exchange["ended"] for exchange in list_exchanges(used_emulator, after=2)["exchanges"]] == [3, 4]
    assert [exchange["ended"] for exchange in list_exchanges(used_emulator, after=1, limit=2)["exchanges"]] == [2, 3]
    assert list_exchanges(used_emulator, after=4)["exchanges"] == []
    assert len(list_exchanges(used_emulator, after="nonsense", limit="-")["exchanges"]) == 4


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_token_may_be_a_header(used_emulator: Emulator, scheme: str) -> None:
    token = httpx2.URL(used_emulator.page).params["token"]
    assert fetch("GET", f"{used_emulator.url}/_emulator/exchanges", headers={"authorization": f"{scheme} {token}"}).status_code == 200


def test_reading_exchanges_is_not_counted(used_emulator: Emulator) -> None:
    list_exchanges(used_emulator)
    assert used_emulator.summary().startswith("4 requests")


# -- the log -----------------------------------------------------------------------------------------------------------


def run_conversation(client: openai.OpenAI) -> list[str]:
    """Run a conversation with a tool, and return the model's replies."""
    first = client.responses.create(model="gpt-5", input="Where is order A-17?", tools=[LOOK_UP])  # type: ignore[list-item]
    calls = [item for item in first.output if item.type == "function_call"]
    outputs: list[Any] = [{"type": "function_call_output", "call_id": call.call_id, "output": "on its way"} for call in calls]
    second = client.responses.create(model="gpt-5", input=outputs, tools=[LOOK_UP], previous_response_id=first.id)  # type: ignore[list-item]
    third = client.responses.create(model="gpt-5", input="Thanks!", previous_response_id=second.id)
    return [*(f"{call.name}{call.arguments}" for call in calls), second.output_text, third.output_text]


def test_log_replays_its_conversation(tmp_path: Path) -> None:
    log = tmp_path / "talk.jsonl"
    with serve(log=log, seed=5) as emulator, make_openai_client(emulator) as client:
        replies = run_conversation(client)
        with pytest.raises(openai.BadRequestError):
            client.responses.create(model="gpt-5", input=[])
    assert len(replies) == 3
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["status"] for line in lines] == [200, 200, 200, 400]
    with serve(fake_model=log, seed=99) as emulator, make_openai_client(emulator) as client:
        assert run_conversation(client) == replies
        with pytest.raises(openai.BadRequestError, match=r"talk\.jsonl has no reply to this prompt"):
            client.responses.create(model="gpt-5", input="Something else", instructions="Somebody else")


def test_log_is_appended_immediately(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    for start in (1, 2):
        with serve(log=log) as emulator, make_openai_client(emulator) as client:
            client.responses.create(model=MODEL, input="Hi")
            assert len(log.read_text().splitlines()) == start


def test_unwritable_log_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="the log cannot be written"):
        serve(log=tmp_path / "no such folder" / "log.jsonl")


def test_broken_requests_are_logged(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with serve(log=log) as emulator, make_http_client(base_url=emulator.url, headers={"authorization": "Bearer k"}) as http:
        http.post("/v1/responses", content=b"no json")
        with pytest.raises(httpx2.TransportError):
            http.post("/v1/responses", json={"model": MODEL, "input": "Hi", "stream": True}, headers={"x-legato-fault": "cut event=2"})
        for depth in (150, 250, 900, 968, 5000):  # JSON that can just be decoded, but perhaps not be encoded
            assert http.post("/v1/responses", content=b'{"metadata": ' + b"[" * depth + b"]" * depth + b"}").status_code == 400
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["status"] for line in lines] == [400, 200, 400, 400, 400, 400, 400]
    assert (lines[1]["events"], lines[1]["whole"]) == (2, False)


# -- secrets and large texts -------------------------------------------------------------------------------------------


def test_keys_and_headers_are_never_recorded(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with serve(log=log, keys=[SECRET]) as emulator, make_openai_client(emulator, SECRET) as client:
        client.responses.create(model=MODEL, input="Hi", extra_headers={"x-private": "private-header"})
        list(client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hi"}], stream=True))
        with anthropic.Anthropic(base_url=emulator.url, api_key=SECRET, max_retries=0) as claude:
            claude.messages.create(model="claude-sonnet-5", max_tokens=100, messages=[{"role": "user", "content": "Hi"}])
        with openai.AzureOpenAI(azure_endpoint=emulator.url, api_version="2025-04-01-preview", api_key=SECRET) as azure:
            azure.responses.create(model="desk", input="Hi")
        with make_openai_client(emulator, SECRET + "-wrong") as wrong_client, pytest.raises(openai.AuthenticationError):
            wrong_client.responses.create(model=MODEL, input="Hi")
        with pytest.raises(openai.AuthenticationError):
            client.responses.create(model=MODEL, input="Hi", extra_headers={"x-legato-fault": "unauthorized"})
        recorded = msgspec.json.encode(emulator.exchanges).decode()
        received = json.dumps(list_exchanges(emulator))
        page = fetch("GET", emulator.page).text
    assert len(log.read_text().splitlines()) == 6
    for text in (recorded, received, page, log.read_text(), repr(emulator.exchanges), emulator.summary(), repr(emulator)):
        assert SECRET not in text
        assert "private-header" not in text
        assert "Bearer sk" not in text
    assert "authorization" not in (recorded + received + log.read_text()).lower().replace("in an authorization header", "")


def test_fake_model_gets_no_key() -> None:
    prompts: list[str] = []

    def fake_model(prompt: Any) -> ReplyText:
        prompts.append(repr(prompt))
        return ReplyText("Fine.")

    with serve(fake_model=fake_model) as emulator, make_openai_client(emulator, SECRET) as client:
        client.responses.create(model=MODEL, input="Hi")
    assert SECRET not in prompts[0]


def test_credentials_of_remote_tools_are_masked(tmp_path):
    log = tmp_path / "log.jsonl"
    secrets = {"authorization": "TOP-SECRET-1", "headers": {"x-key": "TOP-SECRET-2"}}
    remote_tool = {"type": "mcp", "server_label": "s", "server_url": "https://example.com", **secrets}
    with serve(log=log) as emulator, make_openai_client(emulator) as client:
        response = client.responses.create(model="gpt-4.1", input="hello", tools=[remote_tool])
        retrieved = client.responses.retrieve(response.id)
        recorded = repr(msgspec.to_builtins(emulator.exchanges)) + response.to_json() + retrieved.to_json() + log.read_text()
    assert "TOP-SECRET" not in recorded
    assert recorded.count("***") >= 4, "the masks show that there was a secret"


def test_long_texts_are_shortened():
    with serve() as emulator, make_openai_client(emulator) as client:
        client.responses.create(model="gpt-4.1", input="x" * 1_000_000)
        assert len(repr(emulator.exchanges[0].request_body)) < 1000


def test_exchange_exists_when_stream_ends():
    with serve() as emulator, make_openai_client(emulator) as client:
        for number in range(1, 101):
            list(client.responses.create(model="gpt-4.1", input="hello", stream=True))
            assert len(emulator.exchanges) == number


def test_conversation_is_free_after_last_event():
    with serve(faults=["slow delay=0.02"]) as emulator, make_openai_client(emulator) as client:
        conversation = client.conversations.create().id
        for event in client.responses.create(model="gpt-4.1", input="hello", conversation=conversation, stream=True):
            if event.type == "response.completed":
                assert client.responses.create(model="gpt-4.1", input="again", conversation=conversation).status == "completed"


def test_summary_line_has_no_control_characters():
    with (
        serve(fake_model=["all is well\n   99  responses  200  forged\x1b]0;owned\x07"]) as emulator,
        make_openai_client(emulator) as client,
    ):
        client.responses.create(model="gpt-4.1", input="hello")
        assert emulator.exchanges[0].summary_line.isprintable()
