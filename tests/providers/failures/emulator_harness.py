"""A harness of an emulator, models in every provider format, and checks of the requests between them.

`stories/traffic_reader.py` reads the bodies without any encoder. `EmulatorHarness.check_sessions` checks C1-C4 with it: each reply was
requested with exactly its agent's view, each call had one output, and no unconfirmed id was sent.
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
from tests.providers.stories import story_formats as manners
from tests.providers.stories.expected_contents import expected_lines
from tests.providers.stories.recording_provider import SentRequest
from tests.providers.stories.traffic_reader import ContentLine as Told
from tests.providers.stories.traffic_reader import TrafficReader

KEY = "sk-failures"


def _openai(emulator: Emulator, key: str, path: str = "/v1", **more: Any) -> openai.AsyncOpenAI:
    # Without TLS: loading certificates takes longer than most of these tests.
    plain = more.pop("http_client", None) or httpx2.AsyncClient(verify=False)
    return openai.AsyncOpenAI(base_url=emulator.url + path, api_key=key, max_retries=0, http_client=plain, **more)


def _responses(memory: str) -> Callable[..., Any]:
    def make(emulator: Emulator, key: str, model: str = "", **options: Any) -> OpenAIResponses:
        client = _openai(emulator, key, **_pop_client_options(options))
        return OpenAIResponses(model or "gpt-5", memory=memory, client=client, **{"effort": "low", **options})  # type: ignore[arg-type]

    return make


def _azure(emulator: Emulator, key: str, model: str = "", **options: Any) -> AzureOpenAIResponses:
    client = _openai(emulator, key, "/openai/v1", **_pop_client_options(options))
    return AzureOpenAIResponses(model or "gpt-5-of-ours", endpoint=emulator.url, client=client, **{"memory": "chained", **options})


def _chat(compatible: bool) -> Callable[..., Any]:
    def make(emulator: Emulator, key: str, model: str = "", **options: Any) -> OpenAIChat:
        return OpenAIChat(model or "gpt-5", compatible=compatible, client=_openai(emulator, key, **_pop_client_options(options)), **options)

    return make


def _anthropic(emulator: Emulator, key: str, model: str = "", **options: Any) -> Anthropic:
    client_options = _pop_client_options(options)
    plain = client_options.pop("http_client", None) or httpx2.AsyncClient(verify=False)
    client = anthropic.AsyncAnthropic(base_url=emulator.url, api_key=key, max_retries=0, http_client=plain, **client_options)
    return Anthropic(model or "claude-opus-5-5", client=client, **{"effort": "low", **options})


def _pop_client_options(options: dict[str, Any]) -> dict[str, Any]:
    """Remove the client's options from a model's options, and return them."""
    return {name: options.pop(name) for name in ("timeout", "http_client") if name in options}


FORMATS: dict[str, Callable[..., Any]] = {
    "responses inline": _responses("inline"),
    "responses chained": _responses("chained"),
    "responses conversation": _responses("conversation"),
    "azure": _azure,  # chained
    "chat": _chat(False),
    "chat compatible": _chat(True),
    "anthropic": _anthropic,
}
RESPONSES_FORMATS = [wire for wire in FORMATS if wire.startswith("responses") or wire == "azure"]
STORING_FORMATS = ["responses chained", "responses conversation", "azure"]
"""The formats in which the provider stores the conversation."""


class EmulatorHarness:
    """One emulator and the models that send it requests."""

    def __init__(self, emulator: Emulator, stream: bool) -> None:
        self.emulator = emulator
        self.stream = stream
        self._models: list[Any] = []

    def make_model(self, format: str, key: str = KEY, **options: Any) -> Any:
        """Make a model of this format."""
        model = FORMATS[format](self.emulator, key, stream=self.stream, **options)
        self._models.append(model)
        return model

    async def close(self) -> None:
        for model in self._models:
            await model._clients().close()

    async def read_all_exchanges(self) -> list[Exchange]:
        """Return all exchanges in the order of their arrival, once the server recorded them: clients read an answer's end earlier."""
        for _ in range(2000):
            exchanges = sorted(self.emulator.exchanges, key=lambda exchange: exchange.number)
            if sum(exchange.is_model_request for exchange in exchanges) == self.emulator.log.requests:
                return exchanges
            await asyncio.sleep(0.005)
        raise AssertionError("the emulator did not record every exchange")

    async def read_exchanges(self) -> list[Exchange]:
        """Return the exchanges of model requests."""
        return [exchange for exchange in await self.read_all_exchanges() if exchange.is_model_request]

    async def find_refusals(self) -> list[str]:
        """Return the requests of any kind that the provider's rules refused."""
        return [f"{exchange} {exchange._error_message}" for exchange in await self.read_all_exchanges() if exchange.violations]

    async def read_traffic(self) -> tuple[TrafficReader, dict[str, int]]:
        """Return a reader of all requests with complete answers, and the number of each answer by its id."""
        exchanges = [each for each in await self.read_all_exchanges() if each.status == 200 and each.is_complete and not _is_failed(each)]
        traffic = [
            SentRequest(
                each.api, each.path, each.is_model_request, json.dumps(each.request_body).encode(), each.status, each.reply_body or {}
            )
            for each in exchanges
        ]
        return TrafficReader(traffic), {request.answer["id"]: number for number, request in enumerate(traffic) if request.is_model_request}

    async def check_sessions(self, *sessions: Session, refusals: int = 0, since: int = 0) -> None:
        """Check C1-C4 for the replies of these sessions, from the one numbered `since` on, by the requests over HTTP."""
        assert len(await self.find_refusals()) == refusals, await self.find_refusals()
        raw, numbers = await self.read_traffic()
        for session in sessions:
            for turn, fact in enumerate(find_replies(session)[since:], since):
                number = numbers[fact.response_id]
                assert raw.read_contents(number) == await find_expected_contents(session, turn)
                assert raw.find_unpaired_calls(number) == []
                assert raw.find_unconfirmed_ids(number) == []


async def find_expected_contents(session: Session, turn: int) -> list[Told]:
    """Return the contents that the request for a reply should have in its format."""
    api = find_replies(session)[turn].origin.partition(" ")[0]
    conventions = {"responses": manners.PLAIN_CONVENTIONS, "chat": manners.CHAT_CONVENTIONS, "anthropic": manners.ANTHROPIC_CONVENTIONS}[
        api
    ]
    return expected_lines(await session.seen(turn), conventions)


def _is_failed(exchange: Exchange) -> bool:
    return (exchange.reply_body or {}).get("status") == "failed"


@asynccontextmanager
async def run_emulator(stream: bool, fake_model: Any, **options: Any) -> AsyncIterator[EmulatorHarness]:
    """Run an emulator with this fake model, and stop it at the end."""
    async with serve(**{"fake_model": fake_model, "max_text_chars": None, **options}) as emulator:
        harness = EmulatorHarness(emulator, stream)
        try:
            yield harness
        finally:
            await harness.close()


# -- recorded facts and shown messages ---------------------------------------------------------------------------------


def find_replies(session: Session) -> list[ModelReplied]:
    return [fact for fact in session.facts if isinstance(fact, ModelReplied)]


def find_failed_requests(session: Session) -> list[ModelRequestFailed]:
    return [fact for fact in session.facts if isinstance(fact, ModelRequestFailed)]


def find_conversations(session: Session) -> list[str]:
    """Return the provider's conversations that requests were sent to, in order."""
    return [fact.conversation for fact in session.facts if isinstance(fact, ConversationClaimed)]


async def collect_events(run: AsyncIterator[Event] | Any) -> list[Event]:
    return [event async for event in run]


def collect_shown_messages(events: Iterable[Event]) -> list[str]:
    """Return the messages that a streaming client shows in the end: retracted text is gone, and no text may be repeated."""
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
    assert not pieces, f"{pieces!r} was shown and is in no message"
    return messages


def format_body(exchange: Exchange) -> str:
    """Return a request body as text, for searches."""
    return json.dumps(exchange.request_body)
