"""Seeded errors that `conversation_checks` must find."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from legato.core.messages import Message, Text
from legato.stores import MemoryStore
from tests.stories import conversation_checks
from tests.stories.all_stories import STORIES

SpoilMessages = Callable[[list[Message]], list[Message]]


def make_message(role: str = "user", text: str = "invented") -> Message:
    return Message(role=role, parts=(Text(text),))


SPOILED_REQUESTS: dict[str, SpoilMessages] = {
    "a message is repeated": lambda seen: [seen[0], *seen],
    "a message is lost": lambda seen: seen[1:],
    "a message is invented": lambda seen: [*seen, make_message()],
    "an output is lost": lambda seen: [each for each in seen if each.role != "tool" or each is not find_last_output(seen)],
    "an output is repeated": lambda seen: [*seen, find_last_output(seen)],
    "outputs are in another order": lambda seen: swap_outputs(seen),
    "a reply and its outputs are repeated": lambda seen: [*seen, *[each for each in seen if each.role != "user"]],
    "an output says something else": lambda seen: [
        msgspec.structs.replace(each, parts=(Text("all is well"),)) if each is find_last_output(seen) else each for each in seen
    ],
    "an output comes before its call": lambda seen: [
        find_last_output(seen),
        *[each for each in seen if each is not find_last_output(seen)],
    ],
}


def find_last_output(seen: list[Message]) -> Message:
    return [each for each in seen if each.role == "tool"][-1]


def swap_outputs(seen: list[Message]) -> list[Message]:
    first, second = [index for index, each in enumerate(seen) if each.role == "tool"][:2]
    swapped = list(seen)
    swapped[first], swapped[second] = seen[second], seen[first]
    return swapped


class SpoiledRequest:
    """A request with changed messages."""

    def __init__(self, request: object, messages: list[Message]) -> None:
        self._request = request
        self.messages = messages

    def __getattr__(self, name: str) -> object:
        return getattr(self._request, name)


@pytest.mark.parametrize("spoil", [pytest.param(spoil, id=title) for title, spoil in SPOILED_REQUESTS.items()])
async def test_check_finds_each_spoiled_request(spoil: SpoilMessages) -> None:
    story = STORIES["three parallel calls, gated, open, gated: approve the first and reject the last, all three are answered in order"]
    result = await story.run(MemoryStore())
    request = result.requests[-1]
    conversation_checks.check_request(request, result.session.facts)
    with pytest.raises(AssertionError):
        conversation_checks.check_request(SpoiledRequest(request, spoil(request.messages)), result.session.facts)  # type: ignore[arg-type]


async def test_check_finds_a_changed_history() -> None:
    story = STORIES["three user turns through two agents: each request grows by what was said, and by nothing else"]
    result = await story.run(MemoryStore())
    conversation_checks.check_growth(result.requests)
    with pytest.raises(AssertionError):
        conversation_checks.check_growth(result.requests[::-1])


async def test_check_finds_a_deed_without_a_start() -> None:
    story = STORIES["approve one, reject one, edit the third, leave the fourth: partial answers are kept"]
    result = await story.run(MemoryStore())
    result.world.effects.append((f"{result.session.state.ledger_id}:2.3", "paid 100 to dan"))
    with pytest.raises(AssertionError, match="never started"):
        await conversation_checks.check_story(result)
