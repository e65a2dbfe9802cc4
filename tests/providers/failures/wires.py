"""The wires that these stories are told over: an emulator, a model that speaks to it, and what went over HTTP between the two.

`raw.py` of the stories reads the bodies; it knows nothing of the compilers. `Line.check` holds sessions to C1-C4 by it: every reply
was made from exactly what its agent should have seen, every call had one output, and no id was sent that nothing proves.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import httpx2
import openai

from legato import Session
from legato.core.facts import ConversationClaimed, ModelReplied, ModelRequestFailed
from legato.emulator import Emulator, serve
from legato.emulator.exchanges import Exchange
from legato.models import Anthropic, AzureOpenAIResponses, OpenAIChat, OpenAIResponses
from legato.runtime.events import Event
from tests.providers.stories import wires as manners
from tests.providers.stories.raw import Line as Told
from tests.providers.stories.raw import Reader
from tests.providers.stories.seen import seen
from tests.providers.stories.traffic import Sent

KEY = "sk-failures"


def _openai(emulator: Emulator, key: str, path: str = "/v1", **more: Any) -> openai.AsyncOpenAI:
    # Without TLS: loading the world's certificates takes longer than most of these tests.
    plain = more.pop("http_client", None) or httpx2.AsyncClient(verify=False)
    return openai.AsyncOpenAI(base_url=emulator.url + path, api_key=key, max_retries=0, http_client=plain, **more)


def _responses(memory: str) -> Callable[..., Any]:
    def make(emulator: Emulator, key: str, model: str = "", **options: Any) -> OpenAIResponses:
        client = _openai(emulator, key, **_of_client(options))
        return OpenAIResponses(model or "gpt-5", memory=memory, client=client, **{"effort": "low", **options})  # type: ignore[arg-type]

    return make


def _azure(emulator: Emulator, key: str, model: str = "", **options: Any) -> AzureOpenAIResponses:
    client = _openai(emulator, key, "/openai/v1", **_of_client(options))
    return AzureOpenAIResponses(model or "gpt-5-of-ours", endpoint=emulator.url, client=client, **{"memory": "chained", **options})


def _chat(compatible: bool) -> Callable[..., Any]:
    def make(emulator: Emulator, key: str, model: str = "", **options: Any) -> OpenAIChat:
        return OpenAIChat(model or "gpt-5", compatible=compatible, client=_openai(emulator, key, **_of_client(options)), **options)

    return make


def _anthropic(emulator: Emulator, key: str, model: str = "", **options: Any) -> Anthropic:
    client_options = _of_client(options)
    plain = client_options.pop("http_client", None) or httpx2.AsyncClient(verify=False)
    client = anthropic.AsyncAnthropic(base_url=emulator.url, api_key=key, max_retries=0, http_client=plain, **client_options)
    return Anthropic(model or "claude-opus-5-5", client=client, **{"effort": "low", **options})


def _of_client(options: dict[str, Any]) -> dict[str, Any]:
    """Take the options that are the client's out of those of a model."""
    return {name: options.pop(name) for name in ("timeout", "http_client") if name in options}


WIRES: dict[str, Callable[..., Any]] = {
    "responses inline": _responses("inline"),
    "responses chained": _responses("chained"),
    "responses conversation": _responses("conversation"),
    "azure": _azure,  # chained
    "chat": _chat(False),
    "chat compatible": _chat(True),
    "anthropic": _anthropic,
}
RESPONSES = [wire for wire in WIRES if wire.startswith("responses") or wire == "azure"]
HELD = ["responses chained", "responses conversation", "azure"]
"""Where the provider keeps the conversation."""


class Line:
    """One emulator, the models that speak to it, and what they said."""

    def __init__(self, emulator: Emulator, stream: bool) -> None:
        self.emulator = emulator
        self.stream = stream
        self._models: list[Any] = []

    def model(self, wire: str, key: str = KEY, **options: Any) -> Any:
        """A model behind one of the wires."""
        made = WIRES[wire](self.emulator, key, stream=self.stream, **options)
        self._models.append(made)
        return made

    async def close(self) -> None:
        for model in self._models:
            await model._clients().close()

    async def all(self) -> list[Exchange]:
        """Everything that was asked for, in the order in which it arrived, once the server has noted it all: the last byte of an
        answer is read before it has."""
        for _ in range(2000):
            exchanges = sorted(self.emulator.exchanges, key=lambda exchange: exchange.number)
            if sum(exchange.asks for exchange in exchanges) == self.emulator.log.requests:
                return exchanges
            await asyncio.sleep(0.005)
        raise AssertionError("the emulator has not noted every exchange")

    async def exchanges(self) -> list[Exchange]:
        """The requests for replies."""
        return [exchange for exchange in await self.all() if exchange.asks]

    async def refused(self) -> list[str]:
        """What the provider's law book refused, of whatever was asked."""
        return [f"{exchange} {exchange._message}" for exchange in await self.all() if exchange.verdict]

    async def raw(self) -> tuple[Reader, dict[str, int]]:
        """The bodies of what was answered to its end, put together again; and the number in there of each answer by its id."""
        exchanges = [each for each in await self.all() if each.status == 200 and each.whole and not _failed(each)]
        traffic = [
            Sent(each.api, each.path, each.asks, json.dumps(each.request).encode(), each.status, each.reply or {}) for each in exchanges
        ]
        return Reader(traffic), {sent.answer["id"]: number for number, sent in enumerate(traffic) if sent.asks}

    async def check(self, *sessions: Session, refusals: int = 0, since: int = 0) -> None:
        """C1-C4, for every reply of these sessions from the one numbered `since` on, by what went over HTTP."""
        assert len(await self.refused()) == refusals, await self.refused()
        raw, numbers = await self.raw()
        for session in sessions:
            for turn, fact in enumerate(answers(session)[since:], since):
                number = numbers[fact.response_id]
                assert raw.heard(number) == await should_hear(session, turn)
                assert raw.unpaired(number) == []
                assert raw.unproven(number) == []


async def should_hear(session: Session, turn: int) -> list[Told]:
    """What a reply's model should have been told, in the words that its API has."""
    api = answers(session)[turn].origin.partition(" ")[0]
    manner = {"responses": manners.PLAIN, "chat": manners.CHAT, "anthropic": manners.ANTHROPIC}[api]
    return seen(await session.seen(turn), manner)


def _failed(exchange: Exchange) -> bool:
    return (exchange.reply or {}).get("status") == "failed"


@asynccontextmanager
async def line(stream: bool, mind: Any, **options: Any) -> AsyncIterator[Line]:
    """An emulator that says this, and is stopped in the end."""
    async with serve(**{"mind": mind, "longest": None, **options}) as emulator:
        made = Line(emulator, stream)
        try:
            yield made
        finally:
            await made.close()


# -- what was recorded, and what was seen of it ---------------------------------------------------------------------------


def answers(session: Session) -> list[ModelReplied]:
    return [fact for fact in session.facts if isinstance(fact, ModelReplied)]


def attempts(session: Session) -> list[ModelRequestFailed]:
    return [fact for fact in session.facts if isinstance(fact, ModelRequestFailed)]


def conversations(session: Session) -> list[str]:
    """The provider's conversations that requests went to, in order."""
    return [fact.conversation for fact in session.facts if isinstance(fact, ConversationClaimed)]


async def events_of(run: AsyncIterator[Event] | Any) -> list[Event]:
    return [event async for event in run]


def shown(events: Iterable[Event]) -> list[str]:
    """What whoever streams has on the screen, message by message: pieces that were withdrawn are gone, and none may stand twice."""
    messages: list[str] = []
    pieces = ""
    for event in events:
        if event.type == "output" and event.data.delta:
            pieces += event.data.text
        elif event.type == "output":
            messages.append(event.data.text)
        elif event.type == "output_reset":
            pieces = ""
        elif event.type == "message" and event.data.role == "assistant" and pieces:
            messages.append(pieces)
            pieces = ""
    assert not pieces, f"{pieces!r} was shown, and is part of no message"
    return messages


def body_text(exchange: Exchange) -> str:
    """A request as text, to look for what must not be in it."""
    return json.dumps(exchange.request)
