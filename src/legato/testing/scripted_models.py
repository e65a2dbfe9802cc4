"""A fake model that replies from a script, for tests and demonstrations without a network.

It records its requests, and fails if it gets more or fewer of them than the script has replies.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, overload

from legato.core.facts import Call, HostedToolUse, OutputText, Reasoning, Refusal, ReplyItem, Usage
from legato.core.planner import CHARS_PER_TOKEN
from legato.core.view import ModelRequest
from legato.core.workflow_graph import make_handoff_tool_name
from legato.errors import BadInput, ModelFailed
from legato.models.model import Emit, ModelReply

ScriptedReply: TypeAlias = str | ReplyItem | ModelReply | BaseException | Sequence[str | ReplyItem]
"""One reply: a text, a call, a list of both, a whole `ModelReply`, or an exception to raise."""


def call(tool: str, /, call_id: str = "", **arguments: Any) -> Call:
    """Return a tool call for a script.

    >>> call("refund", order_id="7")
    Call(tool='refund', arguments='{"order_id": "7"}', call_id='', item_id='', extra='')
    """
    return Call(tool, json.dumps(arguments), call_id)


def handoff(agent: str, /, reason: str = "", **more: Any) -> Call:
    """Return a handoff call for a script: `handoff("refunds", "wants money back")`."""
    arguments = {"reason": reason, **more} if reason else more
    return Call(make_handoff_tool_name(agent), json.dumps(arguments))


class RecentRequests(Sequence[ModelRequest]):
    """The requests of a model, of which only the newest are kept. The first request has index 0, even after it was dropped.

    A request refers to all its messages, so keeping all requests would cost the square of a conversation's length.

    >>> RecentRequests(keep=100)
    <RecentRequests: 0 requests, the last 100 are kept>
    """

    def __init__(self, keep: int) -> None:
        self._max_requests = keep
        self._dropped_count = 0
        self._requests: list[ModelRequest] = []

    def append(self, request: ModelRequest) -> None:
        """Add a request, and drop the oldest if there are too many."""
        self._requests.append(request)
        if len(self._requests) > self._max_requests:
            del self._requests[0]
            self._dropped_count += 1

    def __len__(self) -> int:
        return self._dropped_count + len(self._requests)

    @overload
    def __getitem__(self, index: int) -> ModelRequest: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ModelRequest]: ...
    def __getitem__(self, index: int | slice) -> ModelRequest | Sequence[ModelRequest]:
        numbers = range(len(self))[index]
        if isinstance(numbers, range):
            return [self[number] for number in numbers]
        if numbers < self._dropped_count:
            raise BadInput(
                f"request {numbers} of this ScriptedModel is no longer kept",
                found=f"{len(self)} requests, of which the last {len(self._requests)} are kept",
                do=f"create it with ScriptedModel(..., keep_requests={len(self)})",
            )
        return self._requests[numbers - self._dropped_count]

    def __eq__(self, other: object) -> bool:
        return len(self) == len(other) and list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"<RecentRequests: {len(self)} requests, the last {self._max_requests} are kept>"


class ScriptedModel:
    """A fake model that replies from a script: a list, a list per agent, or a function of the request.

    - `ScriptedModel(["Hello!", call("refund", order_id="7"), handoff("refunds")])` uses the next reply for each request.
    - `ScriptedModel(by_agent={"triage": [...], "refunds": [...]})` gives each agent the reply for *its* n-th turn in the ledger.
      It keeps no state in memory, so it continues correctly after a restart.
    - `ScriptedModel(lambda request: ...)` calls the function, sync or async. `request.messages`, `request.agent`,
      `request.agent_reply_count` and `request.turn_context.tools` are the model input.

    `model.requests` has the requests, in order. The last 100 are kept; `keep_requests=1000` keeps more.
    `model.check()` raises if replies were not used; so does leaving a `with` block.

    >>> model = ScriptedModel(["Hello!"])
    >>> model
    <ScriptedModel: 0 requests, replies left: 1>
    """

    def __init__(
        self,
        script: Sequence[ScriptedReply] | Callable[[ModelRequest], Any] | None = None,
        *,
        by_agent: Mapping[str, Sequence[ScriptedReply]] | None = None,
        name: str = "scripted",
        delay: float = 0.0,
        words_per_delta: int = 1,
        keep_requests: int = 100,
    ) -> None:
        if (script is None) == (by_agent is None):
            raise BadInput("a script is a list, a function, or by_agent={...}", do='write ScriptedModel(["Hello!"])')
        if isinstance(script, str):
            raise BadInput("a script is a list of replies", found="text", do=f"write ScriptedModel([{script!r}])")
        if keep_requests < 1:
            raise BadInput(
                "keep_requests must be at least 1", found=str(keep_requests), do="leave it out, or pass the number of requests to keep"
            )
        self._script = script
        self._by_agent = by_agent
        self._name = name
        self._delay = delay
        self._words_per_delta = max(1, words_per_delta)
        self._next = 0
        self.requests = RecentRequests(keep_requests)

    @property
    def name(self) -> str:
        return self._name

    async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        """Return the next reply of the script."""
        self.requests.append(request)
        if self._delay:
            await asyncio.sleep(self._delay)
        scripted = await self._choose(request)
        if isinstance(scripted, BaseException):
            raise scripted
        reply = make_reply(scripted, request)
        for item in reply.items:
            if isinstance(item, (OutputText, Refusal)):
                await self._emit_text(item.text, emit)
        return reply

    async def _choose(self, request: ModelRequest) -> Any:
        if callable(self._script):
            chosen = self._script(request)
            return await chosen if asyncio.iscoroutine(chosen) else chosen
        if self._by_agent is not None:
            replies, index = self._by_agent.get(request.agent, ()), request.agent_reply_count
        else:
            replies, index = self._script or (), self._next
            self._next += 1
        if index >= len(replies):
            raise ModelFailed(
                f"the script has no reply number {index + 1} for {request.agent!r}",
                found=f"{len(replies)} replies",
                do="add a reply to the script, or find out why there was another request; its last messages are: "
                + "; ".join(str(message)[:60] for message in request.messages[-3:]),
            )
        return replies[index]

    async def _emit_text(self, text: str, emit: Emit) -> None:
        words = text.split(" ")
        for start in range(0, len(words), self._words_per_delta):
            piece = " ".join(words[start : start + self._words_per_delta])
            emit(piece if start == 0 else " " + piece)

    @property
    def replies_left(self) -> int:
        """The number of unused replies, if the script is a list; else 0."""
        return len(self._script) - self._next if isinstance(self._script, Sequence) else 0

    def check(self) -> None:
        """Raise an `AssertionError` if replies were not used."""
        if self.replies_left > 0 and isinstance(self._script, Sequence):
            rest = ", ".join(repr(each)[:60] for each in self._script[self._next :][:3])
            raise AssertionError(f"{self.replies_left} scripted replies were not used: {rest}")

    def __enter__(self) -> ScriptedModel:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.check()

    def __repr__(self) -> str:
        return f"<ScriptedModel: {len(self.requests)} requests, replies left: {self.replies_left}>"


def make_reply(scripted: Any, request: ModelRequest) -> ModelReply:
    """Return a scripted reply as a model's reply, with plausible usage."""
    if isinstance(scripted, ModelReply):
        return scripted
    pieces = [scripted] if isinstance(scripted, (str, OutputText, Call, Reasoning, Refusal)) else scripted
    if not isinstance(pieces, Sequence):
        raise BadInput("a scripted reply is a text, a call, or a list of both", found=type(scripted).__name__)
    items: list[ReplyItem] = []
    for piece in pieces:
        if not isinstance(piece, (str, OutputText, Call, Reasoning, Refusal, HostedToolUse)):
            raise BadInput("a scripted reply is a text, a call, or a list of both", found=type(piece).__name__)
        items.append(OutputText(piece) if isinstance(piece, str) else piece)
    input_chars = sum(len(message.text) for message in request.messages) + len(request.turn_context.instructions)
    output_chars = sum(
        len(item.arguments if isinstance(item, Call) else item.body if isinstance(item, HostedToolUse) else item.text) for item in items
    )
    usage = Usage(input=input_chars // CHARS_PER_TOKEN + 1, output=output_chars // CHARS_PER_TOKEN + 1, cost=0)
    return ModelReply(items=tuple(items), usage=usage)
