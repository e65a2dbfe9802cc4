"""What a person can see of what went through the emulator, and what nobody can."""

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
from legato.emulator.minds import Thought, Use, Words
from legato.errors import BadInput
from tests.emulator.conftest import connect, fetch, plain

MODEL = "gpt-4.1"
SECRET = "sk-proj-a-key-that-nobody-may-see-0123456789"
LOOK_UP: dict[str, Any] = {
    "type": "function",
    "name": "look_up_order",
    "description": "Where an order is.",
    "parameters": {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]},
    "strict": False,
}


def look(emulator: Emulator, **query: Any) -> Any:
    """What the live page is told."""
    page = httpx2.URL(emulator.page)
    return fetch("GET", f"{emulator.url}/_emulator/exchanges", params={"token": page.params["token"], **query}).json()


@pytest.fixture(scope="module")
def seen() -> Iterator[Emulator]:
    """An emulator that has answered, refused, streamed and failed."""
    with serve(seed=3) as emulator, connect(emulator) as client:
        first = client.responses.create(model=MODEL, input="Where is order A-17?", tools=[LOOK_UP])  # type: ignore[list-item]
        with pytest.raises(openai.BadRequestError):
            client.responses.create(model=MODEL, input="Well?", previous_response_id=first.id)
        list(client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hello"}], stream=True))
        with pytest.raises(openai.RateLimitError):
            client.responses.create(model=MODEL, input="Hi", extra_headers={"x-legato-fault": "rate_limit retry_after=2"})
        yield emulator


# -- exchanges ---------------------------------------------------------------------------------------------------------


def test_an_exchange_has_the_request_what_was_said_and_the_reply(seen: Emulator) -> None:
    exchange = seen.exchanges[0]
    assert (exchange.number, exchange.api, exchange.path, exchange.status) == (1, "responses", "/v1/responses", 200)
    assert exchange.request["input"] == "Where is order A-17?"
    assert exchange.prompt is not None
    assert (exchange.prompt.said, [tool.name for tool in exchange.prompt.tools]) == ("Where is order A-17?", ["look_up_order"])
    assert exchange.say is not None
    assert Use("look_up_order", '{"order_id": "A-17"}') in exchange.say.items
    assert exchange.reply is not None
    assert exchange.reply["object"] == "response"
    assert exchange.whole
    assert not exchange.streams
    assert exchange.took > 0
    assert exchange.verdict == ()


def test_a_refused_exchange_has_its_verdict_with_the_clause(seen: Emulator) -> None:
    exchange = seen.exchanges[1]
    assert (exchange.status, exchange.say) == (400, None)
    assert [verdict.clause for verdict in exchange.verdict] == ["T1"]
    verdict = exchange.verdict[0]
    assert verdict.message.startswith("No tool output found for function call call_")
    assert verdict.rule
    assert exchange.reply is not None
    assert exchange.reply["error"]["message"] == verdict.message
    assert repr(exchange) == "<exchange 2: responses 400 refused by T1>"


def test_a_streamed_exchange_says_how_many_events_were_sent(seen: Emulator) -> None:
    exchange = seen.exchanges[2]
    assert exchange.streams
    assert exchange.whole
    assert exchange.events > 3
    assert exchange.reply is not None
    assert exchange.reply["object"] == "chat.completion"


def test_an_exchange_that_was_struck_names_its_fault(seen: Emulator) -> None:
    assert (seen.exchanges[3].status, seen.exchanges[3].fault) == (429, "rate_limit retry_after=2")


def test_the_summary_counts_statuses_clauses_and_faults(seen: Emulator) -> None:
    assert seen.summary().splitlines() == [
        "4 requests: 200 x2, 400 x1, 429 x1",
        "refused by clause: responses T1 x1",
        "faults: rate_limit x1",
    ]
    assert "4 requests" in repr(seen)


def test_an_emulator_that_was_not_asked_says_so() -> None:
    emulator = serve()
    assert (emulator.summary(), emulator.exchanges) == ("no requests", [])
    assert repr(emulator) == "<Emulator not running: 0 requests>"
    emulator.stop()


def test_only_the_newest_exchanges_are_kept_but_all_are_counted() -> None:
    with serve(keep=3) as emulator, connect(emulator) as client:
        for number in range(5):
            client.responses.create(model=MODEL, input=f"Number {number}")
        assert [exchange.request["input"] for exchange in emulator.exchanges] == ["Number 2", "Number 3", "Number 4"]
        assert emulator.summary() == "5 requests: 200 x5"
    with pytest.raises(BadInput):
        serve(keep=-1)


def test_whoever_listens_is_told_of_every_exchange_until_they_stop() -> None:
    told: list[Exchange] = []
    with serve() as emulator, connect(emulator) as client:
        stop = emulator.log.listen(told.append)
        client.responses.create(model=MODEL, input="Hi")
        stop()
        client.responses.create(model=MODEL, input="Hi again")
    assert [exchange.number for exchange in told] == [1]


def test_a_listener_that_fails_disturbs_nobody_and_is_told_no_more(caplog: pytest.LogCaptureFixture) -> None:
    told: list[int] = []

    def fails(exchange: Exchange) -> None:
        told.append(exchange.number)
        raise BrokenPipeError

    with serve() as emulator, connect(emulator) as client:
        emulator.log.listen(fails)
        for _ in range(2):
            assert client.responses.create(model=MODEL, input="Hi").status == "completed"
    assert told == [1]
    assert [record.message for record in caplog.records] == ["a listener to the exchanges failed and is told no more: BrokenPipeError()"]


def test_an_exchange_that_ends_late_is_not_missed_by_whoever_asks_for_what_came_after() -> None:
    with serve() as emulator, connect(emulator) as client:
        slow = client.responses.create(model=MODEL, input="Slow", stream=True, extra_headers={"x-legato-fault": "slow delay=0.02"})
        next(iter(slow))
        client.responses.create(model=MODEL, input="Quick")
        newest = look(emulator)["exchanges"][-1]
        assert newest["number"] == 2
        list(slow)
        assert [exchange["number"] for exchange in look(emulator, after=newest["ended"])["exchanges"]] == [1]


def test_one_may_look_while_others_ask() -> None:
    failed: list[BaseException] = []
    with serve(keep=50) as emulator:

        def ask() -> None:
            try:
                with plain(base_url=emulator.url, headers={"authorization": "Bearer k"}) as http:
                    for _ in range(60):
                        http.post("/v1/responses", json={"model": "x"})
            except BaseException as error:
                failed.append(error)

        asking = [threading.Thread(target=ask) for _ in range(3)]
        for thread in asking:
            thread.start()
        while any(thread.is_alive() for thread in asking):
            assert len(emulator.exchanges) <= 50
            assert "requests" in emulator.summary()
            time.sleep(0.001)
        assert not failed
        assert emulator.summary().startswith("180 requests: 400 x180")


def test_whatever_is_asked_is_an_exchange_and_only_replies_are_counted_as_requests() -> None:
    with serve(keys=["sk-test"]) as emulator, connect(emulator) as client:
        talk = client.conversations.create().id
        client.conversations.delete(talk)
        client.models.list()
        with connect(emulator, "sk-wrong") as wrong, pytest.raises(openai.AuthenticationError):
            wrong.models.list()
        body = {"model": "claude-sonnet-5", "messages": [{"role": "user", "content": "Hi"}]}
        with plain(base_url=emulator.url, headers={"x-api-key": "sk-test", "anthropic-version": "2023-06-01"}) as http:
            assert http.post("/v1/messages/count_tokens", json=body).status_code == 200
        assert emulator.log.requests == 0
        assert [(exchange.api, exchange.method, exchange.status) for exchange in emulator.exchanges] == [
            ("responses", "POST", 200),
            ("responses", "DELETE", 200),
            ("chat", "GET", 200),
            ("chat", "GET", 401),
            ("anthropic", "POST", 200),
        ]
        assert emulator.exchanges[-1].request == body
        assert repr(emulator.exchanges[1]) == f"<exchange 2: DELETE /v1/conversations/{talk} 200>"
        assert emulator.exchanges[3].told.startswith("GET /v1/models Incorrect API key provided: ")
        assert emulator.summary().splitlines() == ["no requests", "5 other requests: 200 x4, 401 x1"]


@pytest.mark.parametrize(
    ("path", "meant"), [("/responses", "/v1/responses"), ("/v1/v1/messages", "/v1/messages"), ("/v1/embeddings", ""), ("/", "")]
)
def test_an_unknown_path_is_refused_as_the_provider_does_and_the_exchange_says_what_was_meant(path: str, meant: str) -> None:
    with serve() as emulator:
        answer = fetch("POST", emulator.url + path, json={})
        assert answer.json()["error"]["message"] == f"Invalid URL (POST {path})"
        (exchange,) = emulator.exchanges
        assert (exchange.api, exchange.path, exchange.status) == ("", path, 404)
        assert exchange.note == (f"did you mean {meant}?" if meant else "")


def test_words_and_calls_are_told_before_thoughts_and_a_fault_with_its_message() -> None:
    said = [Thought("Hm."), Words("One\nmoment."), Use("look_up")]
    with serve(mind=lambda prompt: said) as emulator, connect(emulator) as client:
        client.responses.create(model=MODEL, input="Hi")
        with pytest.raises(openai.RateLimitError):
            client.responses.create(model=MODEL, input="Hi", extra_headers={"x-legato-fault": "rate_limit"})
        answered, limited = (exchange.told for exchange in emulator.exchanges)
        assert answered == "One moment. | look_up({}) | (thought: Hm.)"
        assert limited.startswith("[rate_limit] Rate limit reached for gpt-4.1")
        assert [exchange["told"] for exchange in look(emulator)["exchanges"]] == [answered, limited]


def test_log_of_the_emulator_is_private(tmp_path: Path) -> None:
    with serve(log=tmp_path / "log.jsonl"):
        assert (tmp_path / "log.jsonl").stat().st_mode & 0o777 == 0o600


def test_what_is_not_answered_when_the_emulator_stops_is_logged_and_counted(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with serve(log=log) as emulator:
        sent = b'POST /v1/responses HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer k\r\ncontent-length: 9\r\n\r\n{"mod'
        with socket.create_connection(("127.0.0.1", int(emulator.url.rpartition(":")[2]))) as half:
            half.sendall(sent)
            while emulator.log.requests == 0:
                time.sleep(0.001)
            emulator.stop()
    assert [json.loads(line)["status"] for line in log.read_text().splitlines()] == [499]
    assert emulator.summary() == "1 requests: 499 x1"


# -- the page ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/_emulator", "/_emulator/exchanges"])
def test_without_the_token_nothing_is_shown(seen: Emulator, path: str) -> None:
    for query, headers in (
        ({}, {}),
        ({"token": ""}, {}),
        ({"token": "guess"}, {}),
        ({"token": "é"}, {}),
        ({}, {"authorization": "Bearer guess"}),
        ({}, {"authorization": "Bearer sk-test"}),
        ({}, {"authorization": httpx2.URL(seen.page).params["token"]}),
    ):
        refused = fetch("GET", seen.url + path, params=query, headers=headers)
        assert refused.status_code == 401
        assert "order" not in refused.text


def test_the_page_is_served_with_the_token_and_loads_nothing_from_elsewhere(seen: Emulator) -> None:
    page = fetch("GET", seen.page)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert page.headers["x-frame-options"] == "DENY"
    assert (page.headers["referrer-policy"], page.headers["cache-control"]) == ("no-referrer", "no-store")
    assert "http://" not in page.text
    assert "https://" not in page.text
    assert "innerHTML" not in page.text  # what people say in conversations is text, never markup


def test_exchanges_are_told_as_json_from_a_place_on(seen: Emulator) -> None:
    told = look(seen)
    assert told["summary"] == seen.summary()
    assert [exchange["number"] for exchange in told["exchanges"]] == [1, 2, 3, 4]
    assert told["exchanges"][1]["verdict"][0]["clause"] == "T1"
    assert [exchange["ended"] for exchange in look(seen, after=2)["exchanges"]] == [3, 4]
    assert [exchange["ended"] for exchange in look(seen, after=1, limit=2)["exchanges"]] == [2, 3]
    assert look(seen, after=4)["exchanges"] == []
    assert len(look(seen, after="nonsense", limit="-")["exchanges"]) == 4


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_token_may_come_in_a_header(seen: Emulator, scheme: str) -> None:
    token = httpx2.URL(seen.page).params["token"]
    assert fetch("GET", f"{seen.url}/_emulator/exchanges", headers={"authorization": f"{scheme} {token}"}).status_code == 200


def test_looking_is_not_counted_as_asking(seen: Emulator) -> None:
    look(seen)
    assert seen.summary().startswith("4 requests")


# -- the log -----------------------------------------------------------------------------------------------------------


def converse(client: openai.OpenAI) -> list[str]:
    """A conversation with a tool; what the model said in it."""
    first = client.responses.create(model="gpt-5", input="Where is order A-17?", tools=[LOOK_UP])  # type: ignore[list-item]
    calls = [item for item in first.output if item.type == "function_call"]
    outputs: list[Any] = [{"type": "function_call_output", "call_id": call.call_id, "output": "on its way"} for call in calls]
    second = client.responses.create(model="gpt-5", input=outputs, tools=[LOOK_UP], previous_response_id=first.id)  # type: ignore[list-item]
    third = client.responses.create(model="gpt-5", input="Thanks!", previous_response_id=second.id)
    return [*(f"{call.name}{call.arguments}" for call in calls), second.output_text, third.output_text]


def test_a_log_replays_the_conversation_that_it_recorded(tmp_path: Path) -> None:
    log = tmp_path / "talk.jsonl"
    with serve(log=log, seed=5) as emulator, connect(emulator) as client:
        said = converse(client)
        with pytest.raises(openai.BadRequestError):
            client.responses.create(model="gpt-5", input=[])
    assert len(said) == 3
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["status"] for line in lines] == [200, 200, 200, 400]
    with serve(mind=log, seed=99) as emulator, connect(emulator) as client:
        assert converse(client) == said
        with pytest.raises(openai.BadRequestError, match=r"talk\.jsonl has no answer to this"):
            client.responses.create(model="gpt-5", input="Something else", instructions="Somebody else")


def test_a_log_is_appended_to_and_every_line_is_there_at_once(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    for life in (1, 2):
        with serve(log=log) as emulator, connect(emulator) as client:
            client.responses.create(model=MODEL, input="Hi")
            assert len(log.read_text().splitlines()) == life


def test_a_log_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="the log cannot be written"):
        serve(log=tmp_path / "no such folder" / "log.jsonl")


def test_what_breaks_is_logged_too(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with serve(log=log) as emulator, plain(base_url=emulator.url, headers={"authorization": "Bearer k"}) as http:
        http.post("/v1/responses", content=b"no json")
        with pytest.raises(httpx2.TransportError):
            http.post("/v1/responses", json={"model": MODEL, "input": "Hi", "stream": True}, headers={"x-legato-fault": "cut event=2"})
        for deep in (150, 250, 900, 968, 5000):  # JSON that can just be read, but perhaps not be written again
            assert http.post("/v1/responses", content=b'{"metadata": ' + b"[" * deep + b"]" * deep + b"}").status_code == 400
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["status"] for line in lines] == [400, 200, 400, 400, 400, 400, 400]
    assert (lines[1]["events"], lines[1]["whole"]) == (2, False)


# -- what nobody sees --------------------------------------------------------------------------------------------------


def test_no_key_and_no_header_is_ever_kept(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with serve(log=log, keys=[SECRET]) as emulator, connect(emulator, SECRET) as client:
        client.responses.create(model=MODEL, input="Hi", extra_headers={"x-private": "private-header"})
        list(client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hi"}], stream=True))
        with anthropic.Anthropic(base_url=emulator.url, api_key=SECRET, max_retries=0) as claude:
            claude.messages.create(model="claude-sonnet-5", max_tokens=100, messages=[{"role": "user", "content": "Hi"}])
        with openai.AzureOpenAI(azure_endpoint=emulator.url, api_version="2025-04-01-preview", api_key=SECRET) as azure:
            azure.responses.create(model="desk", input="Hi")
        with connect(emulator, SECRET + "-wrong") as wrong, pytest.raises(openai.AuthenticationError):
            wrong.responses.create(model=MODEL, input="Hi")
        with pytest.raises(openai.AuthenticationError):
            client.responses.create(model=MODEL, input="Hi", extra_headers={"x-legato-fault": "unauthorized"})
        kept = msgspec.json.encode(emulator.exchanges).decode()
        told = json.dumps(look(emulator))
        page = fetch("GET", emulator.page).text
    assert len(log.read_text().splitlines()) == 6
    for text in (kept, told, page, log.read_text(), repr(emulator.exchanges), emulator.summary(), repr(emulator)):
        assert SECRET not in text
        assert "private-header" not in text
        assert "Bearer sk" not in text
    assert "authorization" not in (kept + told + log.read_text()).lower().replace("in an authorization header", "")


def test_the_mind_is_given_no_key() -> None:
    heard: list[str] = []

    def mind(prompt: Any) -> Words:
        heard.append(repr(prompt))
        return Words("Fine.")

    with serve(mind=mind) as emulator, connect(emulator, SECRET) as client:
        client.responses.create(model=MODEL, input="Hi")
    assert SECRET not in heard[0]


def test_what_a_remote_tool_is_called_with_is_kept_nowhere(tmp_path):
    log = tmp_path / "log.jsonl"
    secrets = {"authorization": "TOP-SECRET-1", "headers": {"x-key": "TOP-SECRET-2"}}
    remote = {"type": "mcp", "server_label": "s", "server_url": "https://example.com", **secrets}
    with serve(log=log) as emulator, connect(emulator) as client:
        response = client.responses.create(model="gpt-4.1", input="hello", tools=[remote])
        again = client.responses.retrieve(response.id)
        kept = repr(msgspec.to_builtins(emulator.exchanges)) + response.to_json() + again.to_json() + log.read_text()
    assert "TOP-SECRET" not in kept
    assert kept.count("***") >= 4, "and people see that there was something"


def test_a_picture_is_not_kept_whole():
    with serve() as emulator, connect(emulator) as client:
        client.responses.create(model="gpt-4.1", input="x" * 1_000_000)
        assert len(repr(emulator.exchanges[0].request)) < 1000


def test_an_exchange_is_there_as_soon_as_its_stream_has_ended():
    with serve() as emulator, connect(emulator) as client:
        for number in range(1, 101):
            list(client.responses.create(model="gpt-4.1", input="hello", stream=True))
            assert len(emulator.exchanges) == number


def test_whoever_has_seen_the_last_event_may_go_on_in_the_conversation():
    with serve(faults=["slow delay=0.02"]) as emulator, connect(emulator) as client:
        conversation = client.conversations.create().id
        for event in client.responses.create(model="gpt-4.1", input="hello", conversation=conversation, stream=True):
            if event.type == "response.completed":
                assert client.responses.create(model="gpt-4.1", input="again", conversation=conversation).status == "completed"


def test_nothing_that_is_said_can_forge_a_line_or_speak_to_the_terminal():
    with serve(mind=["all is well\n   99  responses  200  forged\x1b]0;owned\x07"]) as emulator, connect(emulator) as client:
        client.responses.create(model="gpt-4.1", input="hello")
        assert emulator.exchanges[0].told.isprintable()
