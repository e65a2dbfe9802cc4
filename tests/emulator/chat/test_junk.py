"""Whatever passes the law book can be answered, and whatever does not can be refused."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from legato.emulator.asks import Failure
from legato.emulator.minds.base import Item, Refused, Say, Thought, Use, Words
from legato.emulator.pieces import Budget, cut_at, pieces
from legato.emulator.tokens import count
from tests.emulator.chat.asking import WEATHER, accumulated, ask, dialect, parsed, whole, wired

TEXT = st.text(max_size=30)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
NAME = st.sampled_from(["f", "get_weather", "sql"])
CONTENT = st.none() | TEXT | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": TEXT}) | JUNK, max_size=3) | JUNK
CALL = st.fixed_dictionaries(
    {"id": TEXT, "type": st.just("function"), "function": st.fixed_dictionaries({"name": NAME, "arguments": TEXT})}
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "developer", "user", "assistant", "tool", "function"])},
    optional={
        "content": CONTENT,
        "tool_calls": st.lists(CALL | JUNK, max_size=2) | JUNK,
        "tool_call_id": TEXT | JUNK,
        "function_call": st.fixed_dictionaries({"name": NAME, "arguments": TEXT}) | JUNK,
        "name": NAME | JUNK,
        "refusal": TEXT | JUNK,
    },
)
PARAMETERS: dict[str, st.SearchStrategy[Any]] = {
    "stream": st.booleans(),
    "n": st.integers(1, 4),
    "max_tokens": st.integers(1, 30),
    "max_completion_tokens": st.integers(1, 30),
    "stop": TEXT | st.lists(TEXT, max_size=4),
    "tools": st.lists(st.just(WEATHER) | JUNK, max_size=2),
    "functions": st.lists(st.just({"name": "f"}), min_size=1, max_size=2),
    "tool_choice": st.sampled_from(["auto", "none", "required", {"type": "function", "function": {"name": "get_weather"}}]),
    "function_call": st.sampled_from(["auto", {"name": "f"}]) | JUNK,
    "response_format": st.sampled_from([{"type": "text"}, {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}]),
    "stream_options": st.fixed_dictionaries({}, optional={"include_usage": st.booleans(), "include_obfuscation": st.booleans()}),
    "seed": st.integers(),
    "service_tier": st.sampled_from(["auto", "flex"]),
    "reasoning_effort": st.sampled_from(["none", "low"]),
    "metadata": JUNK,
    "store": st.booleans(),
}
BODY = st.fixed_dictionaries(
    {"model": st.sampled_from(["gpt-4o", "gpt-5"]), "messages": st.lists(MESSAGE, min_size=1, max_size=4)},
    optional={name: parameter | JUNK for name, parameter in PARAMETERS.items()},
)
LEGAL = st.fixed_dictionaries(
    {
        "model": st.just("gpt-4o"),
        "messages": st.lists(st.fixed_dictionaries({"role": st.sampled_from(["system", "user"]), "content": TEXT}), min_size=1, max_size=3),
    },
    optional={name: PARAMETERS[name] for name in ("stream", "n", "max_tokens", "stop", "functions", "seed", "service_tier", "store")},
)
ITEM: st.SearchStrategy[Item] = st.one_of(
    TEXT.map(Thought), TEXT.map(Words), TEXT.map(Refused), st.builds(Use, NAME, TEXT | st.just('{"a": 1}'), st.just("") | TEXT)
)
SAY = st.builds(Say, st.lists(ITEM, max_size=4).map(tuple), st.sampled_from(["stop", "length", "content_filter"]))


@settings(max_examples=300, deadline=None)
@given(body=BODY, say=SAY, azure=st.booleans())
@example(body={"model": "gpt-4o", "messages": [{"role": "user", "content": "x"}], "tools": [{"custom": []}]}, say=Say(()), azure=False)
def test_any_body_is_refused_with_a_body_or_answered_with_one(body: dict[str, Any], say: Say, azure: bool) -> None:
    room, asked = dialect(), ask(body, azure=azure)
    complaints = room.judge(asked)
    if complaints:
        refusal = room.refuse(asked, complaints)
        assert 400 <= refusal.status < 500
        assert wired(refusal.body)["error"]["message"]
    # Also where the law book complained: another profile may not.
    assert len(room.prompts(asked)) >= 1
    answer = room.answer(asked, say)
    wired(answer.body)
    assert all(event.encode() for event in answer.events)
    wired(room.fail(asked, Failure("rate_limit", 429)).body)


@settings(max_examples=200, deadline=None)
@given(body=LEGAL, say=SAY)
def test_the_stream_of_any_answer_is_the_whole_answer(body: dict[str, Any], say: Say) -> None:
    room, asked = dialect(), ask(body)
    assert room.judge(asked) == ()
    answer = room.answer(asked, say)
    completion = parsed(answer)
    assert accumulated(answer) == whole(answer)
    assert completion.usage is not None
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + completion.usage.completion_tokens
    if "max_tokens" in body:
        assert completion.usage.completion_tokens <= body["max_tokens"] * body.get("n", 1)


@given(text=st.text(max_size=200))
def test_no_character_is_lost_between_the_pieces(text: str) -> None:
    assert "".join(pieces(text)) == text


@settings(deadline=None)
@given(text=st.text(max_size=200), limit=st.integers(0, 40))
def test_a_cut_text_is_a_beginning_that_fits(text: str, limit: int) -> None:
    kept = cut_at(text, limit)
    assert text.startswith(kept)
    assert count(kept) <= limit
    assert kept == text or count(text) > limit


def test_a_budget_that_is_spent_gives_nothing_more() -> None:
    budget = Budget(3)
    assert budget.take("one cat two dogs ran off") == "one cat two"
    assert budget.exhausted
    assert budget.take("more") == ""
    assert budget.spent == 3


def test_a_budget_without_a_limit_is_never_spent() -> None:
    budget = Budget(None)
    assert budget.take("word " * 1000) == "word " * 1000
    assert budget.room
