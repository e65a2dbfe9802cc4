"""Whatever JSON comes in, judging it never fails: a list of complaints comes out, each fit to be sent."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from legato.emulator.minds.base import Thought, Use, Words
from legato.providers.rules.responses.laws import OPENAI, Profile, envelope, judge
from legato.providers.rules.responses.shapes import ITEM_SHAPES
from legato.providers.rules.responses.spelling import KEYS
from tests.providers.lawcase import Step, filled
from tests.providers.responses.cases import CASES
from tests.providers.responses.lawcase import PLAIN, THINKS, TOOL, ask
from tests.providers.responses.world import Account, World

STRICT = Profile(unique_call_ids=True, single_outputs=True, unique_tool_names=True, same_model_blobs=True, blobs_need_ids=True)
ZERO = Profile(zero_data_retention=True, code_never_null=True)
UNHEARD_OF = Profile(tool_name_limit=0, tools_limit=0, item_not_found_status=400, reasoning_pairing_unstored=True)

WORLD = World()
WORLD.take(Step.respond(ask(model=THINKS, tools=[TOOL]), Thought("hm"), Use("look_up", "{}", "call_1"), save_as="r1"))
WORLD.take(Step.respond(ask(model=THINKS), Thought("hm"), Words("good day"), save_as="r2"))
WORLD.take(Step.conversation(save_as="c1"))

MEMBERS = sorted({name for shape in ITEM_SHAPES.values() for name in shape.kinds})
TELLING = [  # strings that mean something somewhere
    *KEYS, *ITEM_SHAPES, *MEMBERS, "user", "assistant", "input_text", "output_text", "call_1", "completed", "none", "required", "",
    WORLD.saved["r1"]["id"], WORLD.saved["c1"]["id"], *(item["id"] for name in ("r1", "r2") for item in WORLD.saved[name]["output"]),
    WORLD.saved["r1"]["output"][0]["encrypted_content"], PLAIN, THINKS,
]  # fmt: skip

scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.just(10**4000), st.floats(), st.text(max_size=8), st.sampled_from(TELLING))
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(TELLING) | st.text(max_size=5), inner, max_size=5),
    max_leaves=12,
)


def grown() -> list[tuple[Account, Any]]:
    """Every request of the casebook, with the account as its case sets it up."""
    requests = []
    for case in CASES:
        world = World()
        for step in case.setup:
            world.take(step)
        for request in (case.breaks, case.obeys):
            if request is not None and len(str(request)) < 10_000:
                requests.append((world.account(), filled(request, world.saved)))
    return requests


REQUESTS = grown()


def ways(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [way, *(deeper for key, each in inner for deeper in ways(each, (*way, key)))]


@st.composite
def mutants(draw: st.DrawFn) -> tuple[Account, Any]:
    """A request that is or nearly was legal, with a few places changed, taken away or doubled."""
    account, request = draw(st.sampled_from(REQUESTS))
    mutant = copy.deepcopy(request)
    for _ in range(draw(st.integers(1, 3))):
        places = [way for way in ways(mutant) if way]
        if not places:
            break
        *parents, last = draw(st.sampled_from(places))
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
                holder[draw(st.sampled_from(TELLING))] = holder[last]
            case _:
                holder.append(draw(json_values))
    return account, mutant


def judged(request: Any, account: Account | None = None) -> None:
    before = json.dumps(request)
    for profile in (OPENAI, STRICT, ZERO, UNHEARD_OF):
        for complaint in judge(request, account or WORLD.account(), profile, tokens=5):
            body = envelope(complaint, profile)
            assert 400 <= complaint.status < 500
            assert list(body["error"]) == ["message", "type", "param", "code"]
            json.dumps(body)
        judge(request, profile=profile)
    assert json.dumps(request) == before


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutants())
def test_a_legal_request_gone_wrong_is_judged_without_failing_and_left_as_it_was(case: tuple[Account, Any]) -> None:
    account, request = case
    judged(request, account)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(list(KEYS)), json_values, max_size=6) | json_values)
def test_any_json_is_judged_without_failing(request_: Any) -> None:
    judged({"model": PLAIN, "input": "hello", **request_} if isinstance(request_, dict) else request_)
    judged(request_)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.dictionaries(st.sampled_from(MEMBERS), json_values, max_size=6) | json_values, max_size=4), st.data())
def test_any_items_are_judged_without_failing(items: list[Any], data: st.DataObject) -> None:
    for item in items:
        if isinstance(item, dict):
            item["type"] = data.draw(st.sampled_from([*ITEM_SHAPES, None]))
    judged({"model": THINKS, "input": items})


def test_nesting_without_end_is_judged_without_failing() -> None:
    deep: Any = {}
    for _ in range(20_000):
        deep = {"type": "object", "properties": {"a": deep}}
    judge(ask(tools=[{**TOOL, "strict": True, "parameters": deep}], text=deep, metadata=deep, tool_choice=deep, reasoning=deep))
    judge(ask([deep, [deep]]))
    while deep.get("properties"):  # let go of it level by level
        deep = deep["properties"].pop("a")


def test_a_number_too_long_to_print_is_judged_without_failing() -> None:
    for name in KEYS:
        judge({**ask(), name: 10**6000})
        judge({**ask(), name: [10**6000, {"id": -(10**6000)}]})


def test_half_a_character_is_judged_without_failing() -> None:
    half = "\ud83d"
    judge({"model": half, "input": [{"role": half, "content": half, "id": half}], half: 1})
    judge(ask([{"type": "function_call", "call_id": half, "name": half, "arguments": half}], metadata={half: half}))
