"""The reader of raw bodies sees what is wrong with them: traffic of an honest story is spoiled, one thing at a time."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from legato.stores import MemoryStore
from tests.providers.stories.caching import misses, shared
from tests.providers.stories.seen import seen
from tests.providers.stories.telling import Travelled, check, check_cache, tell
from tests.providers.stories.traffic import Provider, Sent
from tests.providers.stories.wires import WIRES
from tests.stories.all import STORIES

TURNS = "three user turns through two agents: each request grows by what was said, and by nothing else"
TOOLS = "A -> B -> C -> A, policy everything: A's second request has B's and C's tool outputs"
BY_VALUE = ["responses inline", "chat", "chat compatible", "anthropic"]
HELD = ["responses chained", "responses conversation"]

Body = dict[str, Any]
Place = tuple[list[Any], int]
Honest = dict[tuple[str, str], Travelled]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def honest(emulated: Provider, models: dict[tuple[str, bool], Any]) -> Honest:
    """Two stories over every wire, as they were told."""
    return {
        (wire, title): await tell(STORIES[title], emulated, kind, models[wire, False], False, MemoryStore())
        for wire, kind in WIRES.items()
        for title in (TURNS, TOOLS)
    }


def spoiled(told: Travelled, number: int, spoil: Callable[[Body], object]) -> Travelled:
    """The same story, but for the body of one request."""
    body = json.loads(told.traffic[number].body)
    spoil(body)
    return with_sent(told, number, replace(told.traffic[number], body=json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()))


def with_sent(told: Travelled, number: int, sent: Sent) -> Travelled:
    return replace(told, traffic=[*told.traffic[:number], sent, *told.traffic[number + 1 :]])


def said_in(body: Body, *kinds: str) -> list[Place]:
    """Where messages, calls or outputs of these kinds stand, by role or by type."""
    places: list[Place] = []
    for items in (body.get("input"), body.get("messages")):
        for index, item in enumerate(items or ()):
            if isinstance(item.get("content"), list):
                places += [(item["content"], at) for at, part in enumerate(item["content"]) if part["type"] in kinds]
            elif item.get("type", item.get("role")) in kinds:
                places.append((items, index))
    return places


USERS = ("user", "text")
OUTPUTS = ("function_call_output", "tool", "tool_result")


def lose(*kinds: str) -> Callable[[Body], None]:
    def spoil(body: Body) -> None:
        items, index = said_in(body, *kinds)[-1]
        del items[index]

    return spoil


def double(*kinds: str) -> Callable[[Body], None]:
    def spoil(body: Body) -> None:
        items, index = said_in(body, *kinds)[-1]
        items.insert(index, items[index])

    return spoil


def swap_outputs(body: Body) -> None:
    """The last two outputs are told under each other's ids."""
    (first, one), (second, other) = said_in(body, *OUTPUTS)[-2:]
    for name in ("call_id", "tool_call_id", "tool_use_id"):
        if name in first[one]:
            first[one][name], second[other][name] = second[other][name], first[one][name]


def heard_as_seen(told: Travelled, at: int) -> bool:
    request, number = told.asked[at]
    return told.raw.heard(number) == seen(request, told.kind.manner)


def test_what_nobody_spoiled_is_in_order(honest: Honest) -> None:
    for told in honest.values():
        check(told)
        check_cache(told)


# -- messages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", [*BY_VALUE, *HELD])
@pytest.mark.parametrize("change", [lose(*USERS), double(*USERS)], ids=["lost", "doubled"])
def test_a_message_that_is_lost_or_doubled_is_seen(wire: str, change: Callable[[Body], None], honest: Honest) -> None:
    told = honest[wire, TURNS]
    wrong = spoiled(told, told.asked[2][1], change)
    assert heard_as_seen(told, 2)
    assert not heard_as_seen(wrong, 2)
    with pytest.raises(AssertionError):
        check(wrong)


@pytest.mark.parametrize("wire", HELD)
def test_what_is_lost_in_one_request_is_missing_in_all_that_go_on_from_it(wire: str, honest: Honest) -> None:
    told = honest[wire, TURNS]
    wrong = spoiled(told, told.asked[2][1], lose(*USERS))
    assert [heard_as_seen(wrong, at) for at in range(6)] == [True, True, False, False, False, False]


@pytest.mark.parametrize("wire", BY_VALUE)
def test_messages_in_another_order_are_seen(wire: str, honest: Honest) -> None:
    told = honest[wire, TURNS]

    def reverse(body: Body) -> None:
        (first, one), *_, (last, other) = said_in(body, *USERS)
        first[one], last[other] = last[other], first[one]

    assert not heard_as_seen(spoiled(told, told.asked[2][1], reverse), 2)


# -- calls and outputs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", [*BY_VALUE, *HELD])
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        pytest.param(lose(*OUTPUTS), "no output for", id="missing"),
        pytest.param(double(*OUTPUTS), "which is not open", id="twice"),
    ],
)
def test_a_call_without_exactly_one_output_is_seen(wire: str, change: Callable[[Body], None], complaint: str, honest: Honest) -> None:
    told = honest[wire, TOOLS]
    _, number = told.asked[-1]
    (wrong,) = spoiled(told, number, change).raw.unpaired(number)
    assert complaint in wrong


@pytest.mark.parametrize("wire", BY_VALUE)
def test_a_call_that_is_sent_twice_is_seen(wire: str, honest: Honest) -> None:
    told = honest[wire, TOOLS]
    _, number = told.asked[-1]
    wrong = spoiled(told, number, double("function_call", "tool_use", "assistant")).raw.unpaired(number)
    assert "two calls have the id" in wrong[0]


@pytest.mark.parametrize("wire", [*BY_VALUE, *HELD])
def test_an_output_under_the_id_of_another_call_is_seen(wire: str, honest: Honest) -> None:
    told = honest[wire, TOOLS]
    _, number = told.asked[-1]
    wrong = spoiled(told, number, swap_outputs)
    assert wrong.raw.unpaired(number) == []  # each has one, but not its own
    assert not heard_as_seen(wrong, -1)


# -- ids ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", ["responses inline", *HELD])
@pytest.mark.parametrize("item", [{"id": "fc_of_mine"}, {"type": "item_reference", "id": "msg_1"}], ids=["of an item", "as a reference"])
def test_an_id_of_an_item_is_seen(wire: str, item: Body, honest: Honest) -> None:
    told = honest[wire, TOOLS]
    _, number = told.asked[-1]
    wrong = spoiled(told, number, lambda body: body["input"][-1].update(item))
    assert wrong.raw.unproven(number) == [f"{item['id']} goes by reference"]


@pytest.mark.parametrize("wire", BY_VALUE)
def test_an_id_that_the_provider_gave_its_answer_is_seen_wherever_it_stands(wire: str, honest: Honest) -> None:
    told = honest[wire, TOOLS]
    (_, first), *_, (_, last) = told.asked
    given = told.traffic[first].answer["id"]
    wrong = spoiled(told, last, lambda body: body.update(metadata={"after": given}))
    assert wrong.raw.unproven(last) == [f"{given} is the provider's own id"]


def test_a_chain_on_the_wrong_response_is_seen(honest: Honest) -> None:
    told = honest["responses chained", TURNS]
    _, number = told.asked[-1]
    stale = told.traffic[told.asked[0][1]].answer["id"]
    wrong = spoiled(told, number, lambda body: body.update(previous_response_id=stale))
    assert wrong.raw.unproven(number) == []  # the provider has it, but it is not what the request should begin with
    assert not heard_as_seen(wrong, -1)
    with pytest.raises(AssertionError):
        check(wrong)


@pytest.mark.parametrize("wire", HELD)
def test_a_past_that_the_provider_never_confirmed_is_seen(wire: str, honest: Honest) -> None:
    told = honest[wire, TURNS]
    _, number = told.asked[-1]
    name = "previous_response_id" if "chained" in wire else "conversation"
    wrong = spoiled(told, number, lambda body: body.update({name: "another_1"}))
    assert wrong.raw.unproven(number) == ["another_1 was never confirmed to be stored"]


def test_a_chain_on_a_response_that_was_not_stored_is_seen(honest: Honest) -> None:
    told = honest["responses chained", TURNS]
    (_, before), (_, number) = told.asked[:2]
    sent = told.traffic[before]
    wrong = with_sent(told, before, replace(sent, answer={**sent.answer, "store": False}))
    assert [complaint.split(" ", 1)[1] for complaint in wrong.raw.unproven(number)] == ["was never confirmed to be stored"]


def test_a_refused_request_is_seen(honest: Honest) -> None:
    told = honest["chat", TURNS]
    with pytest.raises(AssertionError):
        check(with_sent(told, 1, replace(told.traffic[1], status=400)))


# -- bytes -------------------------------------------------------------------------------------------------------------


def reworded(body: Body) -> None:
    for name in ("instructions", "system"):
        if body.get(name):
            body[name] = "Another."
    for items, index in said_in(body, "system"):
        items[index]["content"] = "Another."


def respelled(body: Body) -> None:
    """The first message, its members in another order: it says the same."""
    items = body.get("input") or body["messages"]
    items[0 if items[0].get("role") == "user" else 1] = dict(reversed(items[0 if items[0].get("role") == "user" else 1].items()))


def reordered_tools(body: Body) -> None:
    body["tools"] = [dict(reversed(tool.items())) for tool in body["tools"]]


def moved_head(body: Body) -> None:
    body["model"] = body.pop("model")


@pytest.mark.parametrize("wire", BY_VALUE)
@pytest.mark.parametrize("change", [reworded, respelled, reordered_tools, moved_head])
def test_a_prompt_that_is_written_otherwise_than_before_is_seen(wire: str, change: Callable[[Body], None], honest: Honest) -> None:
    told = honest[wire, TURNS]
    (_, before), (_, after) = next(pair for pair in told.in_a_row)
    wrong = spoiled(told, after, change)
    assert heard_as_seen(wrong, [number for _, number in told.asked].index(after))
    assert shared(told.raw.asked[before], told.raw.asked[after]) > 0
    assert misses(told.raw.asked[before], told.raw.asked[after]) == []
    assert len(misses(wrong.raw.asked[before], wrong.raw.asked[after])) == 1
    with pytest.raises(AssertionError):
        check_cache(wrong)


@pytest.mark.parametrize("wire", [wire for wire, kind in WIRES.items() if kind.thinks and not kind.manner.aside])
def test_a_thought_that_was_sent_and_is_not_sent_again_is_seen(wire: str, honest: Honest) -> None:
    told = honest[wire, TOOLS]
    _, number = told.asked[-1]

    def forget(body: Body) -> None:
        for items in (body.get("input"), *(message["content"] for message in body.get("messages", ()))):
            if isinstance(items, list):
                items[:] = [item for item in items if item.get("type") not in ("reasoning", "thinking")]
        for message in body.get("messages", ()):
            message.pop("reasoning_content", None)

    wrong = spoiled(told, number, forget)
    assert heard_as_seen(wrong, -1)
    with pytest.raises(AssertionError):
        check_cache(wrong)


@pytest.mark.parametrize("wire", HELD)
def test_what_the_provider_holds_counts_among_what_it_was_told(wire: str, honest: Honest) -> None:
    told = honest[wire, TURNS]
    (_, before), (_, after) = list(told.in_a_row)[-1]
    first, second = told.raw.asked[before], told.raw.asked[after]
    assert second.held > len(first.told) - 1 > 0
    assert misses(first, second) == []
    other = replace(second, told=(replace(second.told[0], text='{"content":"My order came broken","role":"user"}'), *second.told[1:]))
    assert len(misses(first, other)) == 1
