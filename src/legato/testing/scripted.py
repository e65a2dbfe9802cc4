"""A model that says what it is told to. May know: requests. Decides: nothing by chance.

For tests and demonstrations, offline. It records the requests that it is sent, and complains when it is asked more than was written
for it, or less.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, overload

from legato.core.facts import Call, Hosted, Item, Reasoning, Refusal, Usage, Words
from legato.core.planner import LETTERS_PER_TOKEN
from legato.core.view import Request
from legato.core.workflow_graph import handoff_tool_name
from legato.errors import BadInput, ModelFailed
from legato.models.base import Emit, Reply

Scripted: TypeAlias = str | Item | Reply | BaseException | Sequence[str | Item]
"""One reply: words, a call, a list of both, a whole `Reply`, or an exception to raise."""


def call(tool: str, /, call_id: str = "", **arguments: Any) -> Call:
    """A tool call for a script.

    >>> call("refund", order_id="7")
    Call(tool='refund', arguments='{"order_id": "7"}', call_id='', item_id='', extra='')
    """
    return Call(tool, json.dumps(arguments), call_id)


def handoff(agent: str, /, reason: str = "", **more: Any) -> Call:
    """A handoff call for a script: `handoff("refunds", "wants money back")`."""
    given = {"reason": reason, **more} if reason else more
    return Call(handoff_tool_name(agent), json.dumps(given))


class RecentRequests(Sequence[Request]):
    """The requests that a model was sent, of which only the newest are kept; the first one has index 0, also when it is not kept any more.

    A request refers to every message that its agent saw, so keeping all of them costs the square of a conversation's length.

    >>> RecentRequests(keep=100)
    <RecentRequests: 0 requests, the last 100 are kept>
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._dropped = 0
        self._kept: list[Request] = []

    def append(self, request: Request) -> None:
        """Add a request, and drop the oldest if there are too many."""
        self._kept.append(request)
        if len(self._kept) > self._keep:
            del self._kept[0]
            self._dropped += 1

    def __len__(self) -> int:
        return self._dropped + len(self._kept)

    @overload
    def __getitem__(self, index: int) -> Request: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Request]: ...
    def __getitem__(self, index: int | slice) -> Request | Sequence[Request]:
        numbers = range(len(self))[index]
        if isinstance(numbers, range):
            return [self[number] for number in numbers]
        if numbers < self._dropped:
            raise BadInput(
                f"request {numbers} of this ScriptedModel is not kept any more",
                found=f"{len(self)} requests, of which the last {len(self._kept)} are kept",
                do=f"create it with ScriptedModel(..., keep_requests={len(self)})",
            )
        return self._kept[numbers - self._dropped]

    def __eq__(self, other: object) -> bool:
        return len(self) == len(other) and list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"<RecentRequests: {len(self)} requests, the last {self._keep} are kept>"


class ScriptedModel:
    """Replies from a script: a list used up in order, a list per agent, or a function of the request.

    - `ScriptedModel(["Hello!", call("refund", order_id="7"), handoff("refunds")])` uses the next one each time it is asked.
    - `ScriptedModel(by_agent={"triage": [...], "refunds": [...]})` gives each agent the reply for *its* n-th turn in the ledger.
      It needs no memory, so it is right after a restart too.
    - `ScriptedModel(lambda seen: ...)` asks the function, sync or async; `seen.messages`, `seen.agent`, `seen.agent_turn`,
      `seen.frame.tools` are what the agent saw.

    `model.requests` has the requests, in order. The last 100 are kept; `keep_requests=1000` keeps more.
    `model.check()` raises if replies were left over; so does leaving a `with` block.

    >>> model = ScriptedModel(["Hello!"])
    >>> model
    <ScriptedModel: 0 asked, 1 left>
    """

    def __init__(
        self,
        script: Sequence[Scripted] | Callable[[Request], Any] | None = None,
        *,
        by_agent: Mapping[str, Sequence[Scripted]] | None = None,
        name: str = "scripted",
        delay: float = 0.0,
        words_at_once: int = 1,
        keep_requests: int = 100,
    ) -> None:
        if (script is None) == (by_agent is None):
            raise BadInput("a script is a list, a function, or by_agent={...}", do='write ScriptedModel(["Hello!"])')
        if isinstance(script, str):
            raise BadInput("a script is a list of replies", found="text", do=f"write ScriptedModel([{script!r}])")
        if keep_requests < 1:
            raise BadInput(
                "keep_requests is at least 1", found=str(keep_requests), do="leave it out, or give the number of requests to keep"
            )
        self._script = script
        self._by_agent = by_agent
        self._name = name
        self._delay = delay
        self._words_at_once = max(1, words_at_once)
        self._next = 0
        self.requests = RecentRequests(keep_requests)

    @property
    def name(self) -> str:
        return self._name

    async def reply(self, request: Request, emit: Emit) -> Reply:
        """The next reply of the script."""
        self.requests.append(request)
        if self._delay:
            await asyncio.sleep(self._delay)
        scripted = await self._choose(request)
        if isinstance(scripted, BaseException):
            raise scripted
        reply = as_reply(scripted, request)
        for item in reply.items:
            if isinstance(item, (Words, Refusal)):
                await self._speak(item.text, emit)
        return reply

    async def _choose(self, request: Request) -> Any:
        if callable(self._script):
            chosen = self._script(request)
            return await chosen if asyncio.iscoroutine(chosen) else chosen
        if self._by_agent is not None:
            replies, index = self._by_agent.get(request.agent, ()), request.agent_turn
        else:
            replies, index = self._script or (), self._next
            self._next += 1
        if index >= len(replies):
            raise ModelFailed(
                f"the script has no reply number {index + 1} for {request.agent!r}",
                found=f"{len(replies)} replies",
                do="add a reply to the script, or find out why the model was asked once more; it saw: "
                + "; ".join(str(message)[:60] for message in request.messages[-3:]),
            )
        return replies[index]

    async def _speak(self, text: str, emit: Emit) -> None:
        words = text.split(" ")
        for start in range(0, len(words), self._words_at_once):
            piece = " ".join(words[start : start + self._words_at_once])
            emit(piece if start == 0 else " " + piece)

    @property
    def left(self) -> int:
        """How many replies of a list have not been used."""
        return len(self._script) - self._next if isinstance(self._script, Sequence) else 0

    def check(self) -> None:
        """Complain about replies that were never used."""
        if self.left > 0 and isinstance(self._script, Sequence):
            rest = ", ".join(repr(each)[:60] for each in self._script[self._next :][:3])
            raise AssertionError(f"{self.left} scripted replies were not used: {rest}")

    def __enter__(self) -> ScriptedModel:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.check()

    def __repr__(self) -> str:
        return f"<ScriptedModel: {len(self.requests)} asked, {self.left} left>"


def as_reply(scripted: Any, request: Request) -> Reply:
    """What a script says, as a reply with plausible usage."""
    if isinstance(scripted, Reply):
        return scripted
    pieces = [scripted] if isinstance(scripted, (str, Words, Call, Reasoning, Refusal)) else scripted
    if not isinstance(pieces, Sequence):
        raise BadInput("a scripted reply is words, a call, or a list of both", found=type(scripted).__name__)
    items: list[Item] = []
    for piece in pieces:
        if not isinstance(piece, (str, Words, Call, Reasoning, Refusal, Hosted)):
            raise BadInput("a scripted reply is words, a call, or a list of both", found=type(piece).__name__)
        items.append(Words(piece) if isinstance(piece, str) else piece)
    sent = sum(len(message.text) for message in request.messages) + len(request.frame.instructions)
    said = sum(len(item.arguments if isinstance(item, Call) else item.body if isinstance(item, Hosted) else item.text) for item in items)
    usage = Usage(input=sent // LETTERS_PER_TOKEN + 1, output=said // LETTERS_PER_TOKEN + 1, cost=0)
    return Reply(items=tuple(items), usage=usage)
