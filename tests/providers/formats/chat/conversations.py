"""Conversations for the tests of this format: facts written by hand or generated, folded into the view of an agent."""

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
    HostedToolUse,
    Image,
    MessageReceived,
    ModelReplied,
    Opened,
    OutputText,
    Reasoning,
    Refusal,
    ReplyItem,
    Text,
)
from legato.core.history_policies import Dialogue, Everything, HistoryPolicy, LastTurns, OwnTools, SinceHandoff, Summarised
from legato.core.state import State, fold
from legato.core.turn_context import ToolSpec, TurnContext
from legato.core.view import ModelRequest, build_request, select_groups
from legato.core.workflow_graph import make_handoff_tool_name
from legato.providers.formats.chat.encode import encode_request
from legato.providers.formats.encoded_request import EncodedRequest
from legato.providers.formats.request_options import RequestOptions

PICTURE, LETTER = b"\x89PNG a picture", b"%PDF a letter"
CONTENTS = {digest_bytes(data): data for data in (PICTURE, LETTER)}
ORIGIN = "chat http://here/v1 m"

LOOK_UP_TOOL = ToolSpec(
    "look_up", "Look up an order.", '{"type":"object","properties":{"order":{"type":"string"},"at":{"type":"integer"}}}'
)


class ConversationBuilder:
    """A builder of a ledger, turn by turn."""

    def __init__(self) -> None:
        self._clock = count(1000)
        self.facts: list[AnyFact] = [Opened(at=0, ledger_id="aaaabbbbccccdddd", workflow="w")]

    def add_message(self, content: Content) -> ConversationBuilder:
        self.facts.append(MessageReceived(at=next(self._clock), content=content))
        return self

    def add_reply(
        self, *items: ReplyItem | str, outputs: Sequence[Content] = (), agent: str = "desk", to: str = "", **more: Any
    ) -> ConversationBuilder:
        """Add a reply and the outputs of its calls; the last output is repeated as needed. `to`: its last call hands over."""
        position = len(self.facts)
        reply_items = tuple(OutputText(item) if isinstance(item, str) else item for item in items)
        self.facts.append(ModelReplied(at=next(self._clock), agent=agent, context_digest="f", upto=position - 1, items=reply_items, **more))
        calls = [CallRef(position, index) for index, item in enumerate(reply_items) if isinstance(item, Call)]
        all_outputs = [*outputs, *[outputs[-1] if outputs else "done"] * len(calls)]
        for ref, output in zip(calls[: len(calls) - bool(to)], all_outputs, strict=False):
            self.facts.append(CallStarted(at=next(self._clock), call=ref, attempt=1, epoch=1))
            self.facts.append(CallReturned(at=next(self._clock), call=ref, output=output, attempt=1))
        if to:
            self.facts.append(HandedOff(at=next(self._clock), call=calls[-1], source=agent, target=to))
        return self

    def add_summary(self, agent: str, summary: str) -> ConversationBuilder:
        self.facts.append(Compacted(at=next(self._clock), agent=agent, upto=len(self.facts) - 1, summary=summary))
        return self

    @property
    def state(self) -> State:
        return fold(self.facts, "s")

    def build_request(self, context: TurnContext | None = None, **members: Any) -> ModelRequest:
        """Build the request to the agent of this turn context."""
        context = context or TurnContext("desk", **members)
        state = self.state
        groups = select_groups(state, context.history, context.agent)
        return replace(build_request(state, context, "d", groups, context.agent), contents=CONTENTS)


def encode(
    request: ModelRequest, *, stream: bool = False, origin: str = ORIGIN, with_reasoning: bool = False, **options: Any
) -> EncodedRequest:
    return encode_request(request, RequestOptions("m", **options), stream=stream, origin=origin, with_reasoning=with_reasoning)


def encode_body(request: ModelRequest, **options: Any) -> dict[str, Any]:
    """Encode a request, and return its body decoded."""
    decoded: dict[str, Any] = json.loads(encode(request, **options).body)
    return decoded


def encode_messages(request: ModelRequest, **options: Any) -> list[dict[str, Any]]:
    decoded: list[dict[str, Any]] = encode_body(request, **options)["messages"]
    return decoded


# -- generated conversations -------------------------------------------------------------------------------------------

SHORT_TEXTS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20)
AGENTS = ("desk", "Größe & Maße", "x" * 80)
TOOL_NAMES = st.sampled_from(["look_up", "Größe der Wand", "n" * 80, "no/such tool", ""])
CALL_IDS = st.one_of(st.sampled_from(["", "call_1", "call_2", "call_2_0", "i" * 64, "i" * 65, "functions.look_up:0"]), SHORT_TEXTS)
ARGUMENTS = st.sampled_from(["{}", "", " ", '{"order":"A-17"}', '{"order": "A', "[1]", "null", '{"ü":"\\u00fc\\n"}'])
CONTENT_PARTS = st.one_of(
    st.builds(Text, SHORT_TEXTS),
    st.sampled_from([Image(url="https://example.com/cat.png"), Image("image/jpeg", digest=digest_bytes(PICTURE))]),
    st.sampled_from([File("plan.pdf", url="https://example.com/plan.pdf"), File(url="https://example.com/x")]),
    st.sampled_from([File("letter.pdf", "application/pdf", digest=digest_bytes(LETTER)), File(digest=digest_bytes(LETTER))]),
)
CONTENT = st.one_of(SHORT_TEXTS, st.lists(CONTENT_PARTS, min_size=1, max_size=3).map(tuple))
OUTPUTS = st.lists(st.one_of(st.just(""), CONTENT), max_size=3)
CALLS = st.builds(Call, TOOL_NAMES, ARGUMENTS, CALL_IDS)
TEXT_ITEMS = st.one_of(
    st.builds(OutputText, SHORT_TEXTS, citations=st.sampled_from(["", '[{"url":"u"}]'])),
    st.builds(Refusal, SHORT_TEXTS),
    st.builds(Reasoning, st.sampled_from(["", "Hm."]), st.sampled_from(["", "gAAA"])),
    st.builds(HostedToolUse, st.just("web_search_call"), st.just('{"id":"ws_1"}')),
)
REPLY_ORIGINS = st.sampled_from(["", ORIGIN, "responses http://there/v1 n"])


class GeneratedTurn(Struct, frozen=True):
    """A user's message, replies with calls, the target of a handoff, and the last reply."""

    message: Content
    agent: str
    tool_replies: tuple[tuple[tuple[ReplyItem, ...], tuple[Content, ...]], ...]
    target: str
    final_items: tuple[ReplyItem, ...]
    origin: str


TURNS = st.builds(
    GeneratedTurn,
    CONTENT,
    st.sampled_from(AGENTS),
    st.lists(
        st.tuples(
            st.tuples(st.lists(st.one_of(TEXT_ITEMS, CALLS), max_size=3), CALLS).map(lambda pair: (*pair[0], pair[1])), OUTPUTS.map(tuple)
        ),
        max_size=3,
    ).map(tuple),
    st.sampled_from(["", "", *AGENTS]),
    st.lists(TEXT_ITEMS, max_size=3).map(tuple),
    REPLY_ORIGINS,
)


def build_conversation(turns: Sequence[GeneratedTurn], summary_after: int = -1) -> ConversationBuilder:
    """Build the conversation of these turns, with a last message of the user."""
    builder = ConversationBuilder()
    for number, turn in enumerate(turns):
        builder.add_message(turn.message)
        agent = turn.agent
        for items, outputs in turn.tool_replies:
            builder.add_reply(*items, outputs=outputs, agent=agent, origin=turn.origin)
        if turn.target and turn.target != agent:
            builder.add_reply(
                "Over to you.", Call(make_handoff_tool_name(turn.target), "{}", "call_1"), agent=agent, to=turn.target, origin=turn.origin
            )
            agent = turn.target
        builder.add_reply(*turn.final_items, agent=agent, finish="stop" if turn.final_items else "length", origin=turn.origin)
        if number == summary_after:
            builder.add_summary("desk", "They talked.")
    return builder.add_message("And now?")


CONVERSATIONS = st.builds(build_conversation, st.lists(TURNS, max_size=4), st.integers(-1, 3))
POLICIES: st.SearchStrategy[HistoryPolicy] = st.sampled_from(
    [Everything(), Dialogue(), OwnTools(), SinceHandoff(), LastTurns(2), Summarised(1000)]
)
CLOSED_SCHEMA = (
    '{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"integer"}},"required":["b","a"],"additionalProperties":false}'
)
OPEN_SCHEMA = '{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"integer"}}}'
TOOL_LISTS = st.lists(TOOL_NAMES, max_size=3, unique=True).map(
    lambda names: tuple(ToolSpec(name, name, LOOK_UP_TOOL.parameters) for name in names)
)
TURN_CONTEXTS = st.builds(
    TurnContext,
    agent=st.sampled_from(AGENTS),
    instructions=st.sampled_from(["", "Be brief.\n\u2028"]),
    messages=st.lists(SHORT_TEXTS, max_size=2).map(tuple),
    tools=TOOL_LISTS,
    history=POLICIES,
    output=st.sampled_from(["", CLOSED_SCHEMA, OPEN_SCHEMA]),
)
OPTION_SETS = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.sampled_from([0.0, 0.7, 2.0]),
        "top_p": st.sampled_from([0.1, 1.0]),
        "max_tokens": st.integers(1, 9000),
        "effort": st.sampled_from(["none", "low", "high"]),
        "verbosity": st.sampled_from(["low", "high"]),
        "tool_choice": st.one_of(st.sampled_from(["auto", "none", "required"]), TOOL_NAMES),
        "parallel_calls": st.booleans(),
        "service_tier": st.sampled_from(["auto", "flex"]),
        "stop": st.lists(SHORT_TEXTS, max_size=4).map(tuple),
        "seed": st.integers(0, 99),
        "compatible": st.booleans(),
        "extra": st.sampled_from([{}, {"user": "u"}, {"metadata": {"b": "1", "a": "2"}}]),
    },
)
