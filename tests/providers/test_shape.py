"""What is judged by its shape is judged as it would be by itself (C5)."""

from __future__ import annotations

from typing import Any

import pytest

from legato.providers.formats.anthropic import compile as anthropic
from legato.providers.formats.chat import compile as chat
from legato.providers.formats.responses import compile as responses
from legato.providers.rules.anthropic.laws import ABOUT_MESSAGES as ABOUT_ANTHROPIC
from legato.providers.rules.anthropic.laws import BOOK as ANTHROPIC
from legato.providers.rules.chat.laws import ABOUT_MESSAGES as ABOUT_CHAT
from legato.providers.rules.chat.laws import BOOK as CHAT
from legato.providers.rules.chat.laws import judge_messages
from legato.providers.rules.responses.laws import ABOUT_ITEMS, judge_items
from legato.providers.rules.responses.laws import BOOK as RESPONSES
from legato.providers.rules.rule_set import Book, Phase
from legato.providers.rules.shape import by_shape
from tests.providers.anthropic.cases import CASES as ANTHROPIC_CASES
from tests.providers.chat.cases import CASES as CHAT_CASES
from tests.providers.responses.cases import CASES as RESPONSES_CASES


def said_in(cases: Any, member: str) -> list[list[dict[str, Any]]]:
    """The conversations of all cases of a casebook, those that break a clause and those that obey it."""
    bodies = [body for case in cases for body in (case.breaks, case.obeys) if isinstance(body, dict)]
    talks = [body.get(member) for body in bodies]
    return [talk for talk in talks if isinstance(talk, list) and talk and all(isinstance(each, dict) for each in talk)]


@pytest.mark.parametrize(
    ("talks", "judge", "judged"),
    [
        (said_in(RESPONSES_CASES, "input"), judge_items, responses._judged),
        (said_in(CHAT_CASES, "messages"), judge_messages, chat._judged),
        (said_in(ANTHROPIC_CASES, "messages"), anthropic._judge, anthropic._judged),
    ],
    ids=["responses", "chat", "anthropic"],
)
def test_every_case_of_the_casebook_is_judged_by_its_shape_as_by_itself(talks: Any, judge: Any, judged: Any) -> None:
    assert [talk for talk in talks if list(judged(talk)) != list(judge(talk))] == []
    assert sum(bool(judge(talk)) for talk in talks) > 10, "too few break anything: this test sees nothing"


@pytest.mark.parametrize(
    ("book", "phases"), [(RESPONSES, ABOUT_ITEMS), (CHAT, ABOUT_CHAT), (ANTHROPIC, ABOUT_ANTHROPIC)], ids=["responses", "chat", "anthropic"]
)
def test_the_phases_about_a_conversation_are_phases_of_the_book_in_its_order(book: Book[Any], phases: tuple[Phase, ...]) -> None:
    assert list(phases) == [phase for phase in book.phases if phase in phases]


def test_one_of_each_shape_is_judged() -> None:
    seen: list[Any] = []

    def judge(items: list[dict[str, Any]]) -> list[Any]:
        seen.append(items)
        return []

    judged = by_shape(judge, frozenset(("text",)), frozenset(("id",)))
    for number in range(5):
        judged([{"text": f"words {number}", "id": f"id-{number}"}])
    assert len(seen) == 1
    for other in ({"text": "", "id": "id-1"}, {"text": " ", "id": "id-1"}, {"text": "a", "id": "bad id"}, {"role": "a"}, {"role": "b"}):
        before = len(seen)
        judged([other])
        assert len(seen) == before + 1
    judged([{"id": "a"}, {"id": "a"}])
    judged([{"id": "a"}, {"id": "b"}])
    assert len(seen) == 8
    for _ in range(2):  # too long to be like anything else: each is judged
        judged([{"url": "data:" + "x" * 200}])
    assert len(seen) == 10
