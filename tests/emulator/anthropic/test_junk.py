"""Whatever passes the law book can be answered, and whatever does not can be refused."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from legato.emulator.asks import Failure
from legato.emulator.minds.base import Item, Refused, Say, Thought, Use, Words
from tests.emulator.anthropic.asking import BETA, HEADERS, WEATHER, accumulated, ask, dialect, parsed, wired

TEXT = st.text(max_size=30)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
ID = st.sampled_from(["t1", "t2", "t3"])
NAME = st.sampled_from(["f", "get_weather"])
BLOCK = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": TEXT | JUNK}),
    st.fixed_dictionaries({"type": st.just("tool_use"), "id": ID, "name": NAME, "input": JUNK}),
    st.fixed_dictionaries({"type": st.just("tool_result"), "tool_use_id": ID, "content": TEXT | JUNK}),
    st.fixed_dictionaries({"type": st.just("thinking"), "thinking": TEXT, "signature": TEXT | JUNK}),
    JUNK,
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system"])}, optional={"content": TEXT | st.lists(BLOCK, max_size=3) | JUNK}
)
PARAMETERS: dict[str, st.SearchStrategy[Any]] = {
    "stream": st.booleans(),
    "system": TEXT | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": TEXT}), max_size=2),
    "stop_sequences": st.lists(st.text(min_size=1, max_size=3), max_size=3),
    "tools": st.lists(st.just(WEATHER), max_size=2),
    "tool_choice": st.sampled_from([{"type": "auto"}, {"type": "any"}, {"type": "none"}, {"type": "tool", "name": "get_weather"}]),
    "thinking": st.sampled_from([{"type": "adaptive"}, {"type": "disabled"}, {"type": "adaptive", "display": "omitted"}]),
    "output_config": st.sampled_from([{"effort": "low"}, {"format": {"type": "json_schema", "schema": {"type": "object"}}}]),
    "metadata": st.just({"user_id": "u"}),
}
BODY = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["claude-sonnet-5", "claude-opus-5-5"]),
        "max_tokens": st.integers(1, 40) | JUNK,
        "messages": st.lists(MESSAGE, min_size=1, max_size=4) | JUNK,
    },
    optional={name: parameter | JUNK for name, parameter in PARAMETERS.items()},
)
LEGAL = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["claude-sonnet-5", "claude-opus-5-5"]),
        "max_tokens": st.integers(1, 40),
        "messages": st.just([{"role": "user", "content": "Hello"}]),
    },
    optional={name: PARAMETERS[name] for name in ("stream", "thinking", "stop_sequences")},
)
ITEM: st.SearchStrategy[Item] = st.one_of(
    TEXT.map(Thought), TEXT.map(Words), TEXT.map(Refused), st.builds(Use, NAME, TEXT | st.just('{"a": 1}'), st.just("") | TEXT)
)
PROPER: st.SearchStrategy[Item] = st.one_of(
    TEXT.map(Thought),
    TEXT.map(Words),
    TEXT.map(Refused),
    st.builds(Use, NAME, st.sampled_from(["{}", '{"a": "b c d"}', ' {"a": [1, 2]} '])),
)
FINISH = st.sampled_from(["stop", "length", "content_filter"])
HEADER = st.sampled_from([HEADERS, HEADERS | {"anthropic-beta": BETA}, {}])


@settings(max_examples=300, deadline=None)
@given(body=BODY, say=st.builds(Say, st.lists(ITEM, max_size=4).map(tuple), FINISH), headers=HEADER)
def test_any_body_is_refused_with_a_body_or_answered_with_one(body: dict[str, Any], say: Say, headers: dict[str, str]) -> None:
    room, asked = dialect(), ask(body, headers=headers)
    complaints = room.judge(asked)
    if complaints:
        refusal = room.refuse(asked, complaints)
        assert 400 <= refusal.status < 500
        assert wired(refusal.body)["error"]["message"]
    else:
        room.prompt(asked)
        answer = room.answer(asked, say)
        wired(answer.body)
        assert all(event.encode() for event in answer.events)
    wired(room.fail(asked, Failure("rate_limit", 429)).body)
    assert room.count_tokens(asked)[0] in (200, 400, 404)


@settings(max_examples=200, deadline=None)
@given(body=LEGAL, say=st.builds(Say, st.lists(PROPER, max_size=4).map(tuple), FINISH))
def test_the_stream_of_any_answer_is_the_whole_answer(body: dict[str, Any], say: Say) -> None:
    room, asked = dialect(), ask(body)
    assert room.judge(asked) == ()
    answer = room.answer(asked, say)
    message = parsed(answer)
    assert message.usage.output_tokens <= max(body["max_tokens"], 1)
    if message.stop_reason != "max_tokens":  # a call that was cut short is no JSON; its stream is tested by itself
        assert accumulated(answer) == wired(answer.body)
