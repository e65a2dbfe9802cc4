"""Every provider rule, violated and obeyed over HTTP: the exact status and body, and the violation in the exchange."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.emulator.rule_case_client import RuleCaseClients
from tests.providers.rules.all_cases import ALL_CASES, RULE_SETS
from tests.providers.rules.rule_cases import RuleCase, fill_placeholders

BREAKABLE_CASES = [(api, case) for api, case in ALL_CASES if case.illegal is not None]
# A body that is no object has no member `stream`; V14, CP7 and one case of MS2 are about that member; F1 fails inside the stream (below).
STREAMABLE = [
    (api, case)
    for api, case in BREAKABLE_CASES
    if isinstance(case.illegal, dict) and "stream" not in case.illegal and case.rule_id not in ("F1", "CP7")
]
# On Azure a model's name is that of a deployment, which may be any.
ON_AZURE = [(api, case) for api, case in BREAKABLE_CASES if api != "anthropic" and case.rule_id not in ("O9", "CP3")]
LAST_EVENT = {"responses": "response.completed", "chat": "[DONE]", "anthropic": "message_stop"}


@pytest.fixture(scope="module")
def clients() -> Iterator[RuleCaseClients]:
    clients = RuleCaseClients()
    yield clients
    clients.close()


def read_error(response: httpx2.Response) -> tuple[int, dict[str, Any]]:
    """Return the status and the body of an error, without the request's id, which must equal that of the headers."""
    body: dict[str, Any] = response.json()
    if "request_id" in body:
        assert body.pop("request_id") == response.headers["request-id"]
    return response.status_code, body


def read_events(response: httpx2.Response) -> list[Any]:
    """Return the decoded events of a stream."""
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8", response.text
    data = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
    return [text if text == "[DONE]" else json.loads(text) for text in data]


def test_every_rule_has_a_case() -> None:
    expected = {(api, rule_id.id, rule_id.is_permission) for api, rule_set in RULE_SETS.items() for rule_id in rule_set.by_id.values()}
    assert {(api, case.rule_id, case.illegal is None) for api, case in ALL_CASES} == expected


@pytest.mark.parametrize(("api", "case"), BREAKABLE_CASES, ids=str)
def test_violation_gets_the_exact_error(clients: RuleCaseClients, api: str, case: RuleCase) -> None:
    client = clients.find(api, case)
    with client.prepare(api, case.setup) as saved:
        response = client.send_case(api, case, case.illegal, saved, *case.omitted_headers)
        assert read_error(response) == (case.status, fill_placeholders(case.error_body, saved))
        assert {violation.rule_id for violation in client.find_newest_exchange().violations} == {case.rule_id}


@pytest.mark.parametrize(("api", "case"), ALL_CASES, ids=str)
def test_nearest_legal_request_gets_reply(clients: RuleCaseClients, api: str, case: RuleCase) -> None:
    client = clients.find(api, case)
    with client.prepare(api, case.setup) as saved:
        response = client.send_case(api, case, case.legal, saved)
        assert response.status_code == 200, response.text
        assert client.find_newest_exchange().violations == ()


@pytest.mark.parametrize(("api", "case"), STREAMABLE, ids=str)
def test_illegal_stream_request_gets_plain_error(clients: RuleCaseClients, api: str, case: RuleCase) -> None:
    client = clients.find(api, case)
    with client.prepare(api, case.setup) as saved:
        response = client.send_case(api, case, case.illegal, saved, *case.omitted_headers, stream=True)
        assert read_error(response) == (case.status, fill_placeholders(case.error_body, saved))


@pytest.mark.parametrize(("api", "case"), ALL_CASES, ids=str)
def test_legal_request_streams_to_the_end(clients: RuleCaseClients, api: str, case: RuleCase) -> None:
    client = clients.find(api, case)
    with client.prepare(api, case.setup) as saved:
        last = read_events(client.send_case(api, case, case.legal, saved, stream=True))[-1]
        assert (last if isinstance(last, str) else last["type"]) == LAST_EVENT[api]


@pytest.mark.parametrize(("api", "case"), ON_AZURE, ids=str)
def test_azure_paths_have_the_same_errors(clients: RuleCaseClients, api: str, case: RuleCase) -> None:
    client = clients.find(api, case, is_azure=True)
    with client.prepare(api, case.setup) as saved:
        response = client.send_case(api, case, case.illegal, saved)
        assert read_error(response) == (case.status, fill_placeholders(case.error_body, saved))


@pytest.mark.parametrize("body", [[], ["x"], "x", 7, 1.5, True], ids=repr)
@pytest.mark.parametrize(("api", "rule_id"), [("responses", "P0"), ("chat", "CB1"), ("anthropic", "MB1")])
def test_body_without_object_breaks_a_rule(clients: RuleCaseClients, api: str, rule_id: str, body: Any) -> None:
    client = clients.find(api, RuleCase(rule_id))
    response = client.send(api, body)
    assert response.status_code == 400
    assert [violation.rule_id for violation in client.find_newest_exchange().violations] == [rule_id]


def test_too_long_input_fails_inside_the_stream(clients: RuleCaseClients) -> None:
    case = next(case for api, case in ALL_CASES if case.rule_id == "F1")
    stream_events = read_events(clients.find("responses", case).send_case("responses", case, case.illegal, {}, stream=True))
    assert [event["type"] for event in stream_events] == ["response.created", "response.in_progress", "error", "response.failed"]
    assert case.error_body is not None
    assert stream_events[2]["error"] == case.error_body["error"]
    assert stream_events[3]["response"]["error"] == {key: case.error_body["error"][key] for key in ("code", "message")}


def test_too_large_body_gets_its_rules_error(clients: RuleCaseClients) -> None:
    """The limit is 32 MiB."""
    case = next(case for api, case in ALL_CASES if case.rule_id == "M22b")
    case_without_request = RuleCase(case.rule_id)
    response = clients.find("anthropic", case_without_request).send_case("anthropic", case_without_request, {"model": "x" * 2**25}, {})
    assert read_error(response) == (413, case.error_body)
