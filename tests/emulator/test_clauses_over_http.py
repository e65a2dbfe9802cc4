"""Every clause of every law book, broken and obeyed over HTTP: the exact status and body, and the clause in the exchange's verdict."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.emulator.casework import Benches
from tests.providers.casebooks import BOOKS, CASES
from tests.providers.lawcase import LawCase, filled

BREAKABLE = [(api, case) for api, case in CASES if case.breaks is not None]
# A body that is no object has no member `stream`; V14, CP7 and one case of MS2 are about it; and F1 is told inside the stream (below).
STREAMABLE = [
    (api, case)
    for api, case in BREAKABLE
    if isinstance(case.breaks, dict) and "stream" not in case.breaks and case.clause not in ("F1", "CP7")
]
# On Azure a model's name is a deployment's, which may be any.
ON_AZURE = [(api, case) for api, case in BREAKABLE if api != "anthropic" and case.clause not in ("O9", "CP3")]
LAST_EVENT = {"responses": "response.completed", "chat": "[DONE]", "anthropic": "message_stop"}


@pytest.fixture(scope="module")
def benches() -> Iterator[Benches]:
    benches = Benches()
    yield benches
    benches.close()


def told(answer: httpx2.Response) -> tuple[int, dict[str, Any]]:
    """The status and the body of a refusal, without the id of the request, which the headers have too."""
    body: dict[str, Any] = answer.json()
    if "request_id" in body:
        assert body.pop("request_id") == answer.headers["request-id"]
    return answer.status_code, body


def events(answer: httpx2.Response) -> list[Any]:
    """What a stream said, event by event."""
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8", answer.text
    data = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    return [text if text == "[DONE]" else json.loads(text) for text in data]


def test_every_clause_of_every_book_is_put_to_the_server() -> None:
    written = {(api, clause.id, clause.permits) for api, book in BOOKS.items() for clause in book.clauses.values()}
    assert {(api, case.clause, case.breaks is None) for api, case in CASES} == written


@pytest.mark.parametrize(("api", "case"), BREAKABLE, ids=str)
def test_a_request_that_breaks_a_clause_is_refused_in_the_exact_words(benches: Benches, api: str, case: LawCase) -> None:
    bench = benches.of(api, case)
    with bench.after(api, case.setup) as saved:
        answer = bench.put(api, case, case.breaks, saved, *case.omits)
        assert told(answer) == (case.status, filled(case.body, saved))
        assert {verdict.clause for verdict in bench.newest().verdict} == {case.clause}


@pytest.mark.parametrize(("api", "case"), CASES, ids=str)
def test_the_nearest_request_that_obeys_the_clause_is_answered(benches: Benches, api: str, case: LawCase) -> None:
    bench = benches.of(api, case)
    with bench.after(api, case.setup) as saved:
        answer = bench.put(api, case, case.obeys, saved)
        assert answer.status_code == 200, answer.text
        assert bench.newest().verdict == ()


@pytest.mark.parametrize(("api", "case"), STREAMABLE, ids=str)
def test_a_request_for_a_stream_is_refused_before_the_stream_begins(benches: Benches, api: str, case: LawCase) -> None:
    bench = benches.of(api, case)
    with bench.after(api, case.setup) as saved:
        answer = bench.put(api, case, case.breaks, saved, *case.omits, stream=True)
        assert told(answer) == (case.status, filled(case.body, saved))


@pytest.mark.parametrize(("api", "case"), CASES, ids=str)
def test_what_obeys_a_clause_may_be_streamed_to_its_end(benches: Benches, api: str, case: LawCase) -> None:
    bench = benches.of(api, case)
    with bench.after(api, case.setup) as saved:
        last = events(bench.put(api, case, case.obeys, saved, stream=True))[-1]
        assert (last if isinstance(last, str) else last["type"]) == LAST_EVENT[api]


@pytest.mark.parametrize(("api", "case"), ON_AZURE, ids=str)
def test_on_azures_paths_the_words_are_the_same(benches: Benches, api: str, case: LawCase) -> None:
    bench = benches.of(api, case, azure=True)
    with bench.after(api, case.setup) as saved:
        answer = bench.put(api, case, case.breaks, saved)
        assert told(answer) == (case.status, filled(case.body, saved))


@pytest.mark.parametrize("body", [[], ["x"], "x", 7, 1.5, True], ids=repr)
@pytest.mark.parametrize(("api", "clause"), [("responses", "P0"), ("chat", "CB1"), ("anthropic", "MB1")])
def test_json_that_is_no_object_is_judged_by_the_book(benches: Benches, api: str, clause: str, body: Any) -> None:
    bench = benches.of(api, LawCase(clause))
    answer = bench.send(api, body)
    assert answer.status_code == 400
    assert [verdict.clause for verdict in bench.newest().verdict] == [clause]


def test_an_input_that_is_too_long_is_refused_inside_the_stream(benches: Benches) -> None:
    case = next(case for api, case in CASES if case.clause == "F1")
    said = events(benches.of("responses", case).put("responses", case, case.breaks, {}, stream=True))
    assert [event["type"] for event in said] == ["response.created", "response.in_progress", "error", "response.failed"]
    assert case.body is not None
    assert said[2]["error"] == case.body["error"]
    assert said[3]["response"]["error"] == {key: case.body["error"][key] for key in ("code", "message")}


def test_a_body_beyond_thirty_two_megabytes_is_refused_in_the_words_of_its_clause(benches: Benches) -> None:
    case = next(case for api, case in CASES if case.clause == "M22b")
    plain = LawCase(case.clause)
    answer = benches.of("anthropic", plain).put("anthropic", plain, {"model": "x" * 2**25}, {})
    assert told(answer) == (413, case.body)
