"""Checking any JSON never raises, and each violation can be sent as an error body."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from legato.emulator.fake_models.base import ReplyCall, ReplyText, ReplyThought
from legato.providers.rules.responses.key_suggestions import REQUEST_KEYS
from legato.providers.rules.responses.rules import OPENAI, ResponsesRuleSwitches, check_request, render_error_body
from legato.providers.rules.responses.type_shapes import ITEM_SHAPES
from tests.providers.rules.responses.cases import CASES
from tests.providers.rules.responses.fake_provider import FakeAccount, FakeProvider
from tests.providers.rules.responses.sample_requests import NON_REASONING_MODEL, REASONING_MODEL, TOOL, make_request
from tests.providers.rules.rule_cases import SetupStep, fill_placeholders

STRICT = ResponsesRuleSwitches(
    unique_call_ids=True, single_outputs=True, unique_tool_names=True, same_model_blobs=True, blobs_need_ids=True
)
WITHOUT_RETENTION = ResponsesRuleSwitches(zero_data_retention=True, code_never_null=True)
WITHOUT_LIMITS = ResponsesRuleSwitches(tool_name_limit=0, tools_limit=0, item_not_found_status=400, reasoning_pairing_unstored=True)

PROVIDER = FakeProvider()
PROVIDER.run_step(
    SetupStep.respond(
        make_request(model=REASONING_MODEL, tools=[TOOL]), ReplyThought("hm"), ReplyCall("look_up", "{}", "call_1"), save_as="r1"
    )
)
PROVIDER.run_step(SetupStep.respond(make_request(model=REASONING_MODEL), ReplyThought("hm"), ReplyText("good day"), save_as="r2"))
PROVIDER.run_step(SetupStep.conversation(save_as="c1"))
SAVED = PROVIDER.saved_values

MEMBERS = sorted({name for shape in ITEM_SHAPES.values() for name in shape.member_types})
KNOWN_STRINGS = [  # strings that have a meaning somewhere
    *REQUEST_KEYS, *ITEM_SHAPES, *MEMBERS, "user", "assistant", "input_text", "output_text", "call_1", "completed", "none", "required", "",
    SAVED["r1"]["id"], SAVED["c1"]["id"], *(item["id"] for name in ("r1", "r2") for item in SAVED[name]["output"]),
    SAVED["r1"]["output"][0]["encrypted_content"], NON_REASONING_MODEL, REASONING_MODEL,
]  # fmt: skip

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.just(10**4000), st.floats(), st.text(max_size=8), st.sampled_from(KNOWN_STRINGS)
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KNOWN_STRINGS) | st.text(max_size=5), inner, max_size=5),
    max_leaves=12,
)


def list_requests() -> list[tuple[FakeAccount, Any]]:
    """List the requests of all test cases, each with its account after the setup."""
    requests = []
    for case in CASES:
        provider = FakeProvider()
        for step in case.setup:
            provider.run_step(step)
        for request in (case.illegal, case.legal):
            if request is not None and len(str(request)) < 10_000:
                requests.append((provider.find_account(), fill_placeholders(request, provider.saved_values)))
    return requests


REQUESTS = list_requests()


def list_paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List the paths of all values in a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(deeper for key, each in inner for deeper in list_paths(each, (*path, key)))]


@st.composite
def mutants(draw: st.DrawFn) -> tuple[FakeAccount, Any]:
    """A request of a test case in which a few values are changed, removed, doubled or renamed."""
    account, request = draw(st.sampled_from(REQUESTS))
    mutant = copy.deepcopy(request)
    for _ in range(draw(st.integers(1, 3))):
        paths = [path for path in list_paths(mutant) if path]
        if not paths:
            break
        *parents, last = draw(st.sampled_from(paths))
        holder = mutant
        for step in parents:
            holder = holder[step]
        match draw(st.sampled_from(["change", "remove", "double", "rename"])):
            case "change":
                holder[last] = draw(json_values)
            case "remove":
                del holder[last]
            case "double" if isinstance(holder, list):
                holder.insert(last, copy.deepcopy(holder[last]))
            case _ if isinstance(holder, dict):
                holder[draw(st.sampled_from(KNOWN_STRINGS))] = holder[last]
            case _:
                holder.append(draw(json_values))
    return account, mutant


def check_never_raises(request: Any, account: FakeAccount | None = None) -> None:
    """Check a request with several switches; it must not raise, and not change the request."""
    before = json.dumps(request)
    for switches in (OPENAI, STRICT, WITHOUT_RETENTION, WITHOUT_LIMITS):
        for violation in check_request(request, account or PROVIDER.find_account(), switches, token_count=5):
            body = render_error_body(violation, switches)
            assert 400 <= violation.status < 500
            assert list(body["error"]) == ["message", "type", "param", "code"]
            json.dumps(body)
        check_request(request, switches=switches)
    assert json.dumps(request) == before


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutants())
def test_checking_mutated_requests_never_raises(case: tuple[FakeAccount, Any]) -> None:
    """And leaves them as they were."""
    account, request = case
    check_never_raises(request, account)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(list(REQUEST_KEYS)), json_values, max_size=6) | json_values)
def test_checking_random_json_never_raises(request_: Any) -> None:
    check_never_raises({"model": NON_REASONING_MODEL, "input": "hello", **request_} if isinstance(request_, dict) else request_)
    check_never_raises(request_)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.dictionaries(st.sampled_from(MEMBERS), json_values, max_size=6) | json_values, max_size=4), st.data())
def test_checking_random_items_never_raises(items: list[Any], data: st.DataObject) -> None:
    for item in items:
        if isinstance(item, dict):
            item["type"] = data.draw(st.sampled_from([*ITEM_SHAPES, None]))
    check_never_raises({"model": REASONING_MODEL, "input": items})


def test_checking_deep_nesting_never_raises() -> None:
    deep: Any = {}
    for _ in range(20_000):
        deep = {"type": "object", "properties": {"a": deep}}
    check_request(
        make_request(tools=[{**TOOL, "strict": True, "parameters": deep}], text=deep, metadata=deep, tool_choice=deep, reasoning=deep)
    )
    check_request(make_request([deep, [deep]]))
    while deep.get("properties"):  # freed level by level: freeing it at once would recurse
        deep = deep["properties"].pop("a")


def test_checking_huge_numbers_never_raises() -> None:
    for name in REQUEST_KEYS:
        check_request({**make_request(), name: 10**6000})
        check_request({**make_request(), name: [10**6000, {"id": -(10**6000)}]})


def test_checking_lone_surrogates_never_raises() -> None:
    half = "\ud83d"
    check_request({"model": half, "input": [{"role": half, "content": half, "id": half}], half: 1})
    check_request(make_request([{"type": "function_call", "call_id": half, "name": half, "arguments": half}], metadata={half: half}))
