"""The ways to a model that the sweep knows. A *line* is a wire, who keeps the conversation, and a model behind it.

Behind every line stands the emulator's own code for its API, in this process and without HTTP. Its law books are as strict as their
switches go: what nobody has seen refused is refused here.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from legato.core.model_reply import Reply
from legato.core.view import Request
from legato.emulator.anthropic.dialect import AnthropicDialect
from legato.emulator.asks import Answer, Ask
from legato.emulator.chat.dialect import ChatDialect
from legato.emulator.dialect import Dialect
from legato.emulator.ids import Ids
from legato.emulator.models import Catalogue
from legato.emulator.responses.dialect import ResponsesDialect
from legato.emulator.seal import Seal
from legato.emulator.shelf import Shelf
from legato.models.base import Emit
from legato.models.sdk import tell
from legato.providers.formats.anthropic import compile as anthropic_compile
from legato.providers.formats.anthropic import read as anthropic_read
from legato.providers.formats.anthropic import stream as anthropic_stream
from legato.providers.formats.chat import compile as chat_compile
from legato.providers.formats.chat import read as chat_read
from legato.providers.formats.chat import stream as chat_stream
from legato.providers.formats.compiled import Compiled
from legato.providers.formats.options import Options
from legato.providers.formats.responses import compile as responses_compile
from legato.providers.formats.responses import past as responses_past
from legato.providers.formats.responses import read as responses_read
from legato.providers.formats.responses import stream as responses_stream
from legato.providers.formats.sse import EventReader
from legato.providers.rules.anthropic import laws as anthropic
from legato.providers.rules.chat import laws as chat
from legato.providers.rules.responses import laws as responses

RESPONSES = replace(
    responses.OPENAI,
    unique_call_ids=True,
    single_outputs=True,
    unique_tool_names=True,
    same_model_blobs=True,
    reasoning_pairing_unstored=True,
)
CHAT = replace(chat.OPENAI, duplicate_answers=True, unknown_members=True, unknown_parameter="unknown")
COMPATIBLE = replace(chat.LENIENT, duplicate_answers=True)
ANTHROPIC = replace(anthropic.Profile(), first_message_is_user=True, alternation=True)
_HEADERS = {"anthropic-version": "2023-06-01"}


class Line(Struct, frozen=True):
    """One way to one model."""

    api: Literal["responses", "chat", "anthropic"]
    options: Options

    @property
    def name(self) -> str:
        """Wire and mode, for counting."""
        if self.api == "responses":
            return f"responses {self.options.memory}"
        if self.api == "chat":
            return "chat compatible" if self.options.compatible else "chat"
        return "anthropic older" if self.options.thinking_tokens else "anthropic binding"

    @property
    def origin(self) -> str:
        return f"{self.api} in process {self.options.model}"

    def compile(self, request: Request, *, stream: bool, by_value: bool = False, reasoning: bool = True) -> Compiled:
        """The request as this line sends it."""
        options, origin = self.options, self.origin
        if self.api == "responses":
            return responses_compile.compile_request(request, options, origin, stream=stream, by_value=by_value, reasoning=reasoning)
        if self.api == "chat":
            return chat_compile.compile_request(request, options, stream=stream, origin=origin, reasoning=options.compatible and reasoning)
        return anthropic_compile.compile_request(request, options, origin, stream=stream, reasoning=reasoning)

    def read(self, answer: Answer, compiled: Compiled, emit: Emit, *, stream: bool) -> Reply:
        """The reply that an answer is, whole or by its events."""
        if not stream:
            module: Any = {"responses": responses_read, "chat": chat_read, "anthropic": anthropic_read}[self.api]
            return tell(module.read_reply(msgspec.json.decode(msgspec.json.encode(answer.body)), compiled, self.origin), emit)
        readers: Any = {"responses": responses_stream, "chat": chat_stream, "anthropic": anthropic_stream}[self.api]
        reader, events = readers.StreamReader(emit), EventReader()
        for event in answer.events:
            for sent in events.feed(event.encode()):
                reader.take(sent.data)
        reply: Reply = reader.reply(compiled, self.origin)
        return reply


def _responses(memory: Any, model: str = "gpt-5") -> Line:
    return Line("responses", Options(model=model, memory=memory))


LINES: tuple[Line, ...] = (
    _responses("inline"),
    _responses("chained"),
    _responses("conversation"),
    Line("chat", Options(model="gpt-5")),
    Line("chat", Options(model="some-model", compatible=True)),
    Line("anthropic", Options(model="claude-opus-5-5", effort="low", extra={"cache_control": {"type": "ephemeral"}})),
    Line("anthropic", Options(model="claude-sonnet-4-5", thinking_tokens=1024)),
)
OTHERS: tuple[Line, ...] = (
    _responses("inline", "gpt-5-mini"),
    _responses("chained", "gpt-5-mini"),
    Line("anthropic", Options(model="claude-sonnet-5-5", effort="low")),
)
"""Other models behind the same APIs: what one of them thought is not for the other."""


class Provider:
    """All of the emulator's code behind all lines, with one account."""

    def __init__(self, seed: str) -> None:
        shelf, ids, seal, models = Shelf(), Ids(seed), Seal(b"k" * 32), Catalogue()
        self._responses = ResponsesDialect(shelf, ids, seal, RESPONSES, models)
        self._chat = ChatDialect(shelf, ids, CHAT, models)
        self._compatible = ChatDialect(shelf, ids, COMPATIBLE, Catalogue(any_model=True))
        self._anthropic = AnthropicDialect(ids, seal, ANTHROPIC, models)
        self._asked = 0

    def dialect(self, line: Line) -> Dialect:
        if line.api == "chat":
            return self._compatible if line.options.compatible else self._chat
        return self._responses if line.api == "responses" else self._anthropic

    def ask(self, line: Line, body: dict[str, Any], size: int = 0) -> Ask:
        self._asked += 1
        headers = _HEADERS if line.api == "anthropic" else {}
        return Ask(api=line.api, number=self._asked, body=body, headers=headers, account="org", now=1_800_000_000.0, size=size)

    def conversation_for(self, line: Line, request: Request) -> str:
        """The conversation that a request goes to, made if need be, as `OpenAIResponses` does it."""
        if line.options.memory != "conversation":
            return ""
        known = responses_past.usable_conversation(request, line.origin)
        if known:
            return known
        status, made = self._responses.conversations.create(self.ask(line, {}), {})
        assert status == 200
        return str(made["id"])
