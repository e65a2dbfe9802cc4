"""The checker can see: what it must catch, it catches. A rig that cannot fail proves nothing."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from legato.core.messages import Message, Text
from legato.stores import MemoryStore
from tests.stories import checking
from tests.stories.all import STORIES

Spoil = Callable[[list[Message]], list[Message]]


def message(role: str = "user", text: str = "invented") -> Message:
    return Message(role=role, parts=(Text(text),))


SPOILED: dict[str, Spoil] = {
    "a message is repeated": lambda seen: [seen[0], *seen],
    "a message is lost": lambda seen: seen[1:],
    "a message is invented": lambda seen: [*seen, message()],
    "an output is lost": lambda seen: [each for each in seen if each.role != "tool" or each is not _last_output(seen)],
    "an output is repeated": lambda seen: [*seen, _last_output(seen)],
    "outputs are in another order": lambda seen: _swapped(seen),
    "a reply and its outputs are repeated": lambda seen: [*seen, *[each for each in seen if each.role != "user"]],
    "an output says something else": lambda seen: [
        msgspec.structs.replace(each, parts=(Text("all is well"),)) if each is _last_output(seen) else each for each in seen
    ],
    "an output comes before its call": lambda seen: [_last_output(seen), *[each for each in seen if each is not _last_output(seen)]],
}


def _last_output(seen: list[Message]) -> Message:
    return [each for each in seen if each.role == "tool"][-1]


def _swapped(seen: list[Message]) -> list[Message]:
    first, second = [index for index, each in enumerate(seen) if each.role == "tool"][:2]
    swapped = list(seen)
    swapped[first], swapped[second] = seen[second], seen[first]
    return swapped


class Spoiled:
    """A request with other messages."""

    def __init__(self, request: object, messages: list[Message]) -> None:
        self._request = request
        self.messages = messages

    def __getattr__(self, name: str) -> object:
        return getattr(self._request, name)


@pytest.mark.parametrize("spoil", [pytest.param(spoil, id=title) for title, spoil in SPOILED.items()])
async def test_the_checker_notices(spoil: Spoil) -> None:
    story = STORIES["three parallel calls, gated, open, gated: approve the first and reject the last, all three are answered in order"]
    told = await story.tell(MemoryStore())
    request = told.requests[-1]
    checking.check_request(request, told.session.facts)
    with pytest.raises(AssertionError):
        checking.check_request(Spoiled(request, spoil(request.messages)), told.session.facts)  # type: ignore[arg-type]


async def test_the_checker_notices_a_past_that_changes() -> None:
    story = STORIES["three user turns through two agents: each request grows by what was said, and by nothing else"]
    told = await story.tell(MemoryStore())
    checking.check_growth(told.requests)
    with pytest.raises(AssertionError):
        checking.check_growth(told.requests[::-1])


async def test_the_checker_notices_a_deed_for_a_call_that_never_started() -> None:
    story = STORIES["approve one, reject one, edit the third, leave the fourth: partial answers are kept"]
    told = await story.tell(MemoryStore())
    told.world.deeds.append((f"{told.session.state.ledger}:2.3", "paid 100 to dan"))
    with pytest.raises(AssertionError, match="never started"):
        await checking.check(told)
