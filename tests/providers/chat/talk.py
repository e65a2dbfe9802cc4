"""Conversations for the tests of this wire: facts made by hand, or by dice, folded and seen as an agent sees them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count
from typing import Any

from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from legato.core.digests import digest_bytes
from legato.core.facts import (
    AnyFact,
    Call,
    CallRef,
    CallReturned,
    CallStarted,
    Compacted,
    Content,
    File,
    HandedOff,
    Hosted,
    Image,
    Item,
    MessageReceived,
    ModelReplied,
    Opened,
    Reasoning,
    Refusal,
    Text,
    Words,
)
from legato.core.history_policies import Dialogue, Everything, HistorySpec, Last, OwnTools, SinceHandoff, Summarised
from legato.core.state import State, fold
from legato.core.turn_context import Frame, ToolSpec
from legato.core.view import Request, request_for, visible
from legato.core.workflow_graph import handoff_tool_name
from legato.providers.formats.chat.compile import compile_request
from legato.providers.formats.compiled import Compiled
from legato.providers.formats.options import Options

PICTURE, LETTER = b"\x89PNG a picture", b"%PDF a letter"
CONTENTS = {digest_bytes(data): data for data in (PICTURE, LETTER)}
HERE = "chat http://here/v1 m"

LOOK_UP = ToolSpec("look_up", "Look up an order.", '{"type":"object","properties":{"order":{"type":"string"},"at":{"type":"integer"}}}')


class Talk:
    """A ledger that is written turn by turn."""

    def __init__(self) -> None:
        self._clock = count(1000)
        self.facts: list[AnyFact] = [Opened(at=0, ledger="aaaabbbbccccdddd", workflow="w")]

    def says(self, content: Content) -> Talk:
        self.facts.append(MessageReceived(at=next(self._clock), content=content))
        return self

    def replies(self, *items: Item | str, outputs: Sequence[Content] = (), agent: str = "desk", to: str = "", **more: Any) -> Talk:
        """A reply, and the outputs of its calls; where there are too few, the last is repeated. `to`: its last call hands over."""
        position = len(self.facts)
        said = tuple(Words(item) if isinstance(item, str) else item for item in items)
        self.facts.append(ModelReplied(at=next(self._clock), agent=agent, frame="f", upto=position - 1, items=said, **more))
        calls = [CallRef(position, index) for index, item in enumerate(said) if isinstance(item, Call)]
        given = [*outputs, *[outputs[-1] if outputs else "done"] * len(calls)]
        for ref, output in zip(calls[: len(calls) - bool(to)], given, strict=False):
            self.facts.append(CallStarted(at=next(self._clock), call=ref, attempt=1, epoch=1))
            self.facts.append(CallReturned(at=next(self._clock), call=ref, output=output, attempt=1))
        if to:
            self.facts.append(HandedOff(at=next(self._clock), call=calls[-1], source=agent, target=to))
        return self

    def sums_up(self, agent: str, summary: str) -> Talk:
        self.facts.append(Compacted(at=next(self._clock), agent=agent, upto=len(self.facts) - 1, summary=summary))
        return self

    @property
    def state(self) -> State:
        return fold(self.facts, "s")

    def request(self, frame: Frame | None = None, **members: Any) -> Request:
        """What the agent of this frame is asked now."""
        frame = frame or Frame("desk", **members)
        state = self.state
        groups = visible(state, frame.history, frame.agent)
        return replace(request_for(state, frame, "d", groups, frame.agent), contents=CONTENTS)


def compiled(request: Request, *, stream: bool = False, origin: str = HERE, reasoning: bool = False, **options: Any) -> Compiled:
    return compile_request(request, Options("m", **options), stream=stream, origin=origin, reasoning=reasoning)


def body(request: Request, **options: Any) -> dict[str, Any]:
    """The request as the server reads it."""
    read: dict[str, Any] = json.loads(compiled(request, **options).body)
    return read


def messages(request: Request, **options: Any) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = body(request, **options)["messages"]
    return told


# -- by dice -----------------------------------------------------------------------------------------------------------

SOME_WORDS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20)
AGENTS = ("desk", "Größe & Maße", "x" * 80)
NAMES = st.sampled_from(["look_up", "Größe der Wand", "n" * 80, "no/such tool", ""])
CALL_IDS = st.one_of(st.sampled_from(["", "call_1", "call_2", "call_2_0", "i" * 64, "i" * 65, "functions.look_up:0"]), SOME_WORDS)
ARGUMENTS = st.sampled_from(["{}", "", " ", '{"order":"A-17"}', '{"order": "A', "[1]", "null", '{"ü":"\\u00fc\\n"}'])
PARTS = st.one_of(
    st.builds(Text, SOME_WORDS),
    st.sampled_from([Image(url="https://example.com/cat.png"), Image("image/jpeg", digest=digest_bytes(PICTURE))]),
    st.sampled_from([File("plan.pdf", url="https://example.com/plan.pdf"), File(url="https://example.com/x")]),
    st.sampled_from([File("letter.pdf", "application/pdf", digest=digest_bytes(LETTER)), File(digest=digest_bytes(LETTER))]),
)
CONTENT = st.one_of(SOME_WORDS, st.lists(PARTS, min_size=1, max_size=3).map(tuple))
OUTPUTS = st.lists(st.one_of(st.just(""), CONTENT), max_size=3)
CALLS = st.builds(Call, NAMES, ARGUMENTS, CALL_IDS)
SAID = st.one_of(
    st.builds(Words, SOME_WORDS, notes=st.sampled_from(["", '[{"url":"u"}]'])),
    st.builds(Refusal, SOME_WORDS),
    st.builds(Reasoning, st.sampled_from(["", "Hm."]), st.sampled_from(["", "gAAA"])),
    st.builds(Hosted, st.just("web_search_call"), st.just('{"id":"ws_1"}')),
)
ORIGINS = st.sampled_from(["", HERE, "responses http://there/v1 n"])


class Turn(Struct, frozen=True):
    """What the user says, the replies with calls, who takes over, and the last words."""

    said: Content
    agent: str
    loop: tuple[tuple[tuple[Item, ...], tuple[Content, ...]], ...]
    to: str
    last: tuple[Item, ...]
    origin: str


TURNS = st.builds(
    Turn,
    CONTENT,
    st.sampled_from(AGENTS),
    st.lists(
        st.tuples(st.tuples(st.lists(st.one_of(SAID, CALLS), max_size=3), CALLS).map(lambda pair: (*pair[0], pair[1])), OUTPUTS.map(tuple)),
        max_size=3,
    ).map(tuple),
    st.sampled_from(["", "", *AGENTS]),
    st.lists(SAID, max_size=3).map(tuple),
    ORIGINS,
)


def talk_of(turns: Sequence[Turn], summary_after: int = -1) -> Talk:
    """The conversation that these turns are, up to what the user said last."""
    talk = Talk()
    for number, turn in enumerate(turns):
        talk.says(turn.said)
        agent = turn.agent
        for items, outputs in turn.loop:
            talk.replies(*items, outputs=outputs, agent=agent, origin=turn.origin)
        if turn.to and turn.to != agent:
            talk.replies("Over to you.", Call(handoff_tool_name(turn.to), "{}", "call_1"), agent=agent, to=turn.to, origin=turn.origin)
            agent = turn.to
        talk.replies(*turn.last, agent=agent, finish="stop" if turn.last else "length", origin=turn.origin)
        if number == summary_after:
            talk.sums_up("desk", "They talked.")
    return talk.says("And now?")


TALKS = st.builds(talk_of, st.lists(TURNS, max_size=4), st.integers(-1, 3))
POLICIES: st.SearchStrategy[HistorySpec] = st.sampled_from(
    [Everything(), Dialogue(), OwnTools(), SinceHandoff(), Last(2), Summarised(1000)]
)
CLOSED = '{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"integer"}},"required":["b","a"],"additionalProperties":false}'
OPEN = '{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"integer"}}}'
TOOLS = st.lists(NAMES, max_size=3, unique=True).map(lambda names: tuple(ToolSpec(name, name, LOOK_UP.parameters) for name in names))
FRAMES = st.builds(
    Frame,
    agent=st.sampled_from(AGENTS),
    instructions=st.sampled_from(["", "Be brief.\n\u2028"]),
    messages=st.lists(SOME_WORDS, max_size=2).map(tuple),
    tools=TOOLS,
    history=POLICIES,
    output=st.sampled_from(["", CLOSED, OPEN]),
)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.sampled_from([0.0, 0.7, 2.0]),
        "top_p": st.sampled_from([0.1, 1.0]),
        "max_tokens": st.integers(1, 9000),
        "effort": st.sampled_from(["none", "low", "high"]),
        "verbosity": st.sampled_from(["low", "high"]),
        "tool_choice": st.one_of(st.sampled_from(["auto", "none", "required"]), NAMES),
        "parallel_calls": st.booleans(),
        "service_tier": st.sampled_from(["auto", "flex"]),
        "stop": st.lists(SOME_WORDS, max_size=4).map(tuple),
        "seed": st.integers(0, 99),
        "compatible": st.booleans(),
        "extra": st.sampled_from([{}, {"user": "u"}, {"metadata": {"b": "1", "a": "2"}}]),
    },
)
