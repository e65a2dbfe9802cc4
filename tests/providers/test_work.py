"""A request costs what is new, however long the conversation is: counted in work done, not in time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from legato.core.model_reply import Reply
from legato.core.view import Request
from legato.emulator.minds.base import Say
from legato.models.base import Emit
from legato.providers.formats import course, sequence
from legato.providers.formats.anthropic import compile as anthropic
from legato.providers.formats.chat import compile as chat
from legato.providers.formats.group_cache import cache_of, clear_cache
from legato.providers.formats.responses import compile as responses
from legato.providers.formats.responses import past
from legato.providers.rules import rule_set
from legato.runtime.session import Session
from tests.providers.longtalk import desk, question, speak
from tests.providers.sweep.lines import LINES, Line, Provider

EARLY, LATE = range(21, 61), range(81, 121)


class InProcess:
    """A line to the emulator's own code, which says what the long talk has it say."""

    def __init__(self, line: Line) -> None:
        self.name = line.name
        self.options_text = line.options.text()
        self._line = line
        self._provider = Provider("work")

    async def conversation_for(self, request: Request) -> str:
        return self._provider.conversation_for(self._line, request)

    async def reply(self, request: Request, emit: Emit) -> Reply:
        compiled = self._line.compile(request, stream=False)
        dialect, ask = self._provider.dialect(self._line), self._provider.ask(self._line, msgspec.json.decode(compiled.body))
        assert [*compiled.complaints, *dialect.judge(ask)] == []
        dialect.begin(ask)
        answer = dialect.answer(ask, Say(tuple(speak(dialect.prompt(ask)))))
        dialect.keep(ask, answer)
        dialect.end(ask)
        return self._line.read(answer, compiled, emit, stream=False)


class Work:
    """Counts what compilers and readers do."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.done: Counter[str] = Counter()
        self._patch = patch
        self._count(course.Course, "_gets_own_ids", "groups gone through")
        self._count(responses._Writing, "write", "groups written")
        self._count(chat._Writing, "fragment", "groups written")
        self._count(anthropic, "_written", "groups written")
        self._count(sequence, "_digest", "elements digested")
        for module in (responses, chat, anthropic):
            self._count(module, "_encode", "bytes encoded", len)
        self._count(responses, "judge_items", "judged")
        self._count(rule_set.Phase, "in_force", "phases judged")

    def _count(self, owner: Any, name: str, what: str, weigh: Any = lambda made: 1) -> None:
        before = getattr(owner, name)

        def counted(*given: Any, **more: Any) -> Any:
            made = before(*given, **more)
            self.done[what] += weigh(made)
            return made

        self._patch.setattr(owner, name, counted)


async def worked(line: Line, patch: pytest.MonkeyPatch) -> tuple[list[Counter[str]], Session]:
    """What each turn of a long talk took, without what the provider does."""
    work, turns = Work(patch), list[Counter[str]]()
    model = InProcess(line)
    dialect = type(model._provider.dialect(line))
    judging = dialect.judge

    def unseen(self: Any, ask: Any) -> Any:  # the emulator judges by the same book: that is the provider's work
        before = Counter(work.done)
        try:
            return judging(self, ask)
        finally:
            work.done = before

    patch.setattr(dialect, "judge", unseen)
    session = desk(model).session("s")
    for number in range(1, LATE.stop):
        work.done = Counter()
        await session.run(question(number))
        turns.append(work.done)
    return turns, session


def most(turns: list[Counter[str]], numbers: range) -> dict[str, int]:
    """The most that one turn of these took."""
    names = sorted({name for turn in turns for name in turn})
    return {name: max(turns[number - 1][name] for number in numbers) for name in names}


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.name)
async def test_a_turn_late_in_a_conversation_takes_no_more_work_than_an_early_one(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    turns, session = await worked(line, monkeypatch)
    early, late = most(turns, EARLY), most(turns, LATE)
    assert {name: (late[name], early[name]) for name in late if late[name] > 1.05 * early[name]} == {}
    assert late["groups gone through"] > 1
    kept = [value for group in session.state.groups for value in cache_of(group).values() if isinstance(value, course.Course)]
    assert len(kept) <= 2, "of each agent one is kept, and none is left behind"


@pytest.mark.parametrize("line", LINES[::2], ids=lambda line: line.name)
async def test_work_that_grows_is_seen(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    before = course.course_of

    def forgetful(request: Request, key: str, about: Any, begin: Any) -> Any:
        clear_cache(request.groups)
        return before(request, key, about, begin)

    for module in (responses, past, chat, anthropic):
        monkeypatch.setattr(module, "course_of", forgetful)
    turns, _ = await worked(line, monkeypatch)
    early, late = most(turns, EARLY), most(turns, LATE)
    assert late["groups gone through"] > 1.5 * early["groups gone through"]
    grown = "elements digested" if line.options.memory == "conversation" else "bytes encoded"
    assert late[grown] > 1.5 * early[grown]
