"""The traffic reader detects wrong requests: the requests of a good story are spoiled, one at a time."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from legato.stores import MemoryStore
from tests.providers.stories.expected_contents import expected_lines
from tests.providers.stories.prompt_cache_checks import count_shared_pieces, find_cache_misses
from tests.providers.stories.recording_provider import RecordingProvider, SentRequest
from tests.providers.stories.story_formats import FORMATS
from tests.providers.stories.story_player import PlayedStory, check_prompt_cache, check_story, play_story
from tests.stories.all_stories import STORIES

TURNS_STORY = "three user turns through two agents: each request grows by what was said, and by nothing else"
TOOLS_STORY = "A -> B -> C -> A, policy everything: A's second request has B's and C's tool outputs"
BY_VALUE_FORMATS = ["responses inline", "chat", "chat compatible", "anthropic"]
STORING_FORMATS = ["responses chained", "responses conversation"]

Body = dict[str, Any]
Place = tuple[list[Any], int]
HonestStories = dict[tuple[str, str], PlayedStory]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def honest_stories(emulated: RecordingProvider, models: dict[tuple[str, bool], Any]) -> HonestStories:
    """Play two stories in every format."""
    return {
        (format, title): await play_story(STORIES[title], emulated, kind, models[format, False], False, MemoryStore())
        for format, kind in FORMATS.items()
        for title in (TURNS_STORY, TOOLS_STORY)
    }


def spoil_body(played: PlayedStory, number: int, spoil: Callable[[Body], object]) -> PlayedStory:
    """Return the story with one request body changed."""
    body = json.loads(played.traffic[number].body)
    spoil(body)
    return replace_request(
        played, number, replace(played.traffic[number], body=json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode())
    )


def replace_request(played: PlayedStory, number: int, request: SentRequest) -> PlayedStory:
    return replace(played, traffic=[*played.traffic[:number], request, *played.traffic[number + 1 :]])


def find_places(body: Body, *kinds: str) -> list[Place]:
    """Return the places of messages, calls or outputs of these kinds, by role or type."""
    places: list[Place] = []
    for items in (body.get("input"), body.get("messages")):
        for index, item in enumerate(items or ()):
            if isinstance(item.get("content"), list):
                places += [(item["content"], at) for at, part in enumerate(item["content"]) if part["type"] in kinds]
            elif item.get("type", item.get("role")) in kinds:
                places.append((items, index))
    return places


USER_KINDS = ("user", "text")
OUTPUT_KINDS = ("function_call_output", "tool", "tool_result")


def remove_last(*kinds: str) -> Callable[[Body], None]:
    def spoil(body: Body) -> None:
        items, index = find_places(body, *kinds)[-1]
        del items[index]

    return spoil


def repeat_last(*kinds: str) -> Callable[[Body], None]:
    def spoil(body: Body) -> None:
        items, index = find_places(body, *kinds)[-1]
        items.insert(index, items[index])

    return spoil


def swap_outputs(body: Body) -> None:
    """Exchange the call ids of the last two outputs."""
    (first, one), (second, other) = find_places(body, *OUTPUT_KINDS)[-2:]
    for name in ("call_id", "tool_call_id", "tool_use_id"):
        if name in first[one]:
            first[one][name], second[other][name] = second[other][name], first[one][name]


def has_expected_contents(played: PlayedStory, at: int) -> bool:
    request, number = played.requests[at]
    return played.reader.read_contents(number) == expected_lines(request, played.format.conventions)


def test_unspoiled_stories_pass_all_checks(honest_stories: HonestStories) -> None:
    for played in honest_stories.values():
        check_story(played)
        check_prompt_cache(played)


# -- messages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", [*BY_VALUE_FORMATS, *STORING_FORMATS])
@pytest.mark.parametrize("change", [remove_last(*USER_KINDS), repeat_last(*USER_KINDS)], ids=["lost", "doubled"])
def test_lost_or_repeated_message_is_detected(format: str, change: Callable[[Body], None], honest_stories: HonestStories) -> None:
    played = honest_stories[format, TURNS_STORY]
    wrong = spoil_body(played, played.requests[2][1], change)
    assert has_expected_contents(played, 2)
    assert not has_expected_contents(wrong, 2)
    with pytest.raises(AssertionError):
        check_story(wrong)


@pytest.mark.parametrize("format", STORING_FORMATS)
def test_lost_content_is_missing_in_continuing_requests(format: str, honest_stories: HonestStories) -> None:
    played = honest_stories[format, TURNS_STORY]
    wrong = spoil_body(played, played.requests[2][1], remove_last(*USER_KINDS))
    assert [has_expected_contents(wrong, at) for at in range(6)] == [True, True, False, False, False, False]


@pytest.mark.parametrize("format", BY_VALUE_FORMATS)
def test_reordered_messages_are_detected_as_wrong(format: str, honest_stories: HonestStories) -> None:
    played = honest_stories[format, TURNS_STORY]

    def reverse(body: Body) -> None:
        (first, one), *_, (last, other) = find_places(body, *USER_KINDS)
        first[one], last[other] = last[other], first[one]

    assert not has_expected_contents(spoil_body(played, played.requests[2][1], reverse), 2)


# -- calls and outputs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", [*BY_VALUE_FORMATS, *STORING_FORMATS])
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param(remove_last(*OUTPUT_KINDS), "no output for", id="missing"),
        pytest.param(repeat_last(*OUTPUT_KINDS), "which is not open", id="twice"),
    ],
)
def test_call_without_exactly_one_output_is_detected(
    format: str, change: Callable[[Body], None], problem: str, honest_stories: HonestStories
) -> None:
    played = honest_stories[format, TOOLS_STORY]
    _, number = played.requests[-1]
    (wrong,) = spoil_body(played, number, change).reader.find_unpaired_calls(number)
    assert problem in wrong


@pytest.mark.parametrize("format", BY_VALUE_FORMATS)
def test_call_sent_twice_is_detected(format: str, honest_stories: HonestStories) -> None:
    played = honest_stories[format, TOOLS_STORY]
    _, number = played.requests[-1]
    wrong = spoil_body(played, number, repeat_last("function_call", "tool_use", "assistant")).reader.find_unpaired_calls(number)
    assert "two calls have the id" in wrong[0]


@pytest.mark.parametrize("format", [*BY_VALUE_FORMATS, *STORING_FORMATS])
def test_output_with_a_wrong_call_id_is_detected(format: str, honest_stories: HonestStories) -> None:
    played = honest_stories[format, TOOLS_STORY]
    _, number = played.requests[-1]
    wrong = spoil_body(played, number, swap_outputs)
    assert wrong.reader.find_unpaired_calls(number) == []  # each call has one output, but not its own
    assert not has_expected_contents(wrong, -1)


# -- ids ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["responses inline", *STORING_FORMATS])
@pytest.mark.parametrize("item", [{"id": "fc_of_mine"}, {"type": "item_reference", "id": "msg_1"}], ids=["of an item", "as a reference"])
def test_item_id_in_a_request_is_detected(format: str, item: Body, honest_stories: HonestStories) -> None:
    played = honest_stories[format, TOOLS_STORY]
    _, number = played.requests[-1]
    wrong = spoil_body(played, number, lambda body: body["input"][-1].update(item))
    assert wrong.reader.find_unconfirmed_ids(number) == [f"{item['id']} goes by reference"]


@pytest.mark.parametrize("format", BY_VALUE_FORMATS)
def test_response_id_in_a_request_is_detected(format: str, honest_stories: HonestStories) -> None:
    played = honest_stories[format, TOOLS_STORY]
    (_, first), *_, (_, last) = played.requests
    response_id = played.traffic[first].answer["id"]
    wrong = spoil_body(played, last, lambda body: body.update(metadata={"after": response_id}))
    assert wrong.reader.find_unconfirmed_ids(last) == [f"{response_id} is the provider's own id"]


def test_chain_on_the_wrong_response_is_detected(honest_stories: HonestStories) -> None:
    played = honest_stories["responses chained", TURNS_STORY]
    _, number = played.requests[-1]
    stale = played.traffic[played.requests[0][1]].answer["id"]
    wrong = spoil_body(played, number, lambda body: body.update(previous_response_id=stale))
    assert wrong.reader.find_unconfirmed_ids(number) == []  # the provider stores it, but it is the wrong base
    assert not has_expected_contents(wrong, -1)
    with pytest.raises(AssertionError):
        check_story(wrong)


@pytest.mark.parametrize("format", STORING_FORMATS)
def test_unconfirmed_base_is_detected_in_requests(format: str, honest_stories: HonestStories) -> None:
    played = honest_stories[format, TURNS_STORY]
    _, number = played.requests[-1]
    name = "previous_response_id" if "chained" in format else "conversation"
    wrong = spoil_body(played, number, lambda body: body.update({name: "another_1"}))
    assert wrong.reader.find_unconfirmed_ids(number) == ["another_1 was never confirmed to be stored"]


def test_chain_on_an_unstored_response_is_detected(honest_stories: HonestStories) -> None:
    played = honest_stories["responses chained", TURNS_STORY]
    (_, before), (_, number) = played.requests[:2]
    request = played.traffic[before]
    wrong = replace_request(played, before, replace(request, answer={**request.answer, "store": False}))
    assert [problem.split(" ", 1)[1] for problem in wrong.reader.find_unconfirmed_ids(number)] == ["was never confirmed to be stored"]


def test_refused_request_is_detected_by_checks(honest_stories: HonestStories) -> None:
    played = honest_stories["chat", TURNS_STORY]
    with pytest.raises(AssertionError):
        check_story(replace_request(played, 1, replace(played.traffic[1], status=400)))


# -- bytes -------------------------------------------------------------------------------------------------------------


def reword_instructions(body: Body) -> None:
    for name in ("instructions", "system"):
        if body.get(name):
            body[name] = "Another."
    for items, index in find_places(body, "system"):
        items[index]["content"] = "Another."


def reorder_members(body: Body) -> None:
    """Reorder the members of the first message, which keeps its meaning."""
    items = body.get("input") or body["messages"]
    items[0 if items[0].get("role") == "user" else 1] = dict(reversed(items[0 if items[0].get("role") == "user" else 1].items()))


def reorder_tools(body: Body) -> None:
    body["tools"] = [dict(reversed(tool.items())) for tool in body["tools"]]


def move_model_member(body: Body) -> None:
    body["model"] = body.pop("model")


@pytest.mark.parametrize("format", BY_VALUE_FORMATS)
@pytest.mark.parametrize("change", [reword_instructions, reorder_members, reorder_tools, move_model_member])
def test_changed_prompt_bytes_are_detected(format: str, change: Callable[[Body], None], honest_stories: HonestStories) -> None:
    played = honest_stories[format, TURNS_STORY]
    (_, before), (_, after) = next(pair for pair in played.consecutive_requests)
    wrong = spoil_body(played, after, change)
    assert has_expected_contents(wrong, [number for _, number in played.requests].index(after))
    assert count_shared_pieces(played.reader.requests[before], played.reader.requests[after]) > 0
    assert find_cache_misses(played.reader.requests[before], played.reader.requests[after]) == []
    assert len(find_cache_misses(wrong.reader.requests[before], wrong.reader.requests[after])) == 1
    with pytest.raises(AssertionError):
        check_prompt_cache(wrong)


@pytest.mark.parametrize(
    "format", [format for format, kind in FORMATS.items() if kind.thinks and not kind.conventions.messages_in_instructions]
)
def test_dropped_reasoning_is_detected_as_cache_miss(format: str, honest_stories: HonestStories) -> None:
    played = honest_stories[format, TOOLS_STORY]
    _, number = played.requests[-1]

    def forget(body: Body) -> None:
        for items in (body.get("input"), *(message["content"] for message in body.get("messages", ()))):
            if isinstance(items, list):
                items[:] = [item for item in items if item.get("type") not in ("reasoning", "thinking")]
        for message in body.get("messages", ()):
            message.pop("reasoning_content", None)

    wrong = spoil_body(played, number, forget)
    assert has_expected_contents(wrong, -1)
    with pytest.raises(AssertionError):
        check_prompt_cache(wrong)


@pytest.mark.parametrize("format", STORING_FORMATS)
def test_stored_contents_count_for_the_cache(format: str, honest_stories: HonestStories) -> None:
    played = honest_stories[format, TURNS_STORY]
    (_, before), (_, after) = list(played.consecutive_requests)[-1]
    first, second = played.reader.requests[before], played.reader.requests[after]
    assert second.stored_count > len(first.contents) - 1 > 0
    assert find_cache_misses(first, second) == []
    other = replace(
        second, contents=(replace(second.contents[0], text='{"content":"My order came broken","role":"user"}'), *second.contents[1:])
    )
    assert len(find_cache_misses(first, other)) == 1
