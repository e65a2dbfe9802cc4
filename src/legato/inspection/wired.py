"""What was sent, from the ledger alone. May know: facts, frames, wires. Decides: which wire a reply came over, and what proves its request.

A reply says who made it (`origin`: API, address, model), its frame how the model was asked. So its request can be compiled again, byte for
byte, without the program and without a key. Whether a stream was asked for is the one thing that no ledger says; it is taken for granted.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from legato.core.facts import ModelReplied
from legato.core.secret_arguments import masked
from legato.core.view import Request
from legato.providers.formats.compiled import Compiled
from legato.providers.formats.options import Options, options_from
from legato.providers.rules.names import wire_name

WIRES = ("responses", "chat", "anthropic")
CALL = "function_call"

Proof = Literal["proved", "refuted", ""]


class Wired(Struct, frozen=True):
    """A request as bytes. `wire`: the API; empty: a model of the user's own, which is shown what Legato hands it.

    `proof`: what the ledger itself says about the request: a digest of it was recorded with the reply, and fits, or does not.
    """

    wire: str
    body: bytes
    proof: Proof = ""


def sent(request: Request, fact: ModelReplied) -> Wired:
    """The request behind a reply, as it was sent."""
    options = _recorded_options(request.frame.options, fact.origin)
    if options is None:
        return handed(request)
    compiled = _compiled_as_then(request, options, fact.origin, fact)
    return Wired(_wire(fact.origin), compiled.body, _proof(compiled, fact))


def shown_sent(was: Wired, exact: Request, shown: Request) -> Wired:
    """A request as it may be shown: `shown` is the exact one with digests in place of secrets.

    What the provider holds is proved by exact digests, so a request that hides something would be compiled as another one. So arguments are
    hidden in the exact body, wherever any stand: as they are in `shown`, or whole.
    """
    if shown is exact:
        return was
    if not was.wire:
        return handed(shown)
    body = _Hidden(exact, shown).value(msgspec.json.decode(was.body))
    return Wired(was.wire, msgspec.json.encode(body), was.proof)


class _Hidden:
    """Hides the arguments of calls in the body of a request."""

    def __init__(self, exact: Request, shown: Request) -> None:
        self._calls: dict[tuple[str, str], Any] = {}  # by name and arguments, as text or as JSON
        self._told: dict[str, str] = {}  # what people changed arguments to, which the model is told: it stands in outputs
        for was, is_ in zip(exact.groups, shown.groups, strict=True):
            for call, twin in zip(was.calls, is_.calls, strict=True):
                name, arguments, hidden = wire_name(call.call.tool), call.call.arguments, twin.call.arguments
                if arguments != hidden or (name, arguments) not in self._calls:  # another agent's tool may have the name, and no secrets
                    self._calls[name, arguments] = hidden
                    self._calls[name, _written(arguments)] = msgspec.json.decode(_written(hidden))
                if call.edited and call.arguments != twin.arguments:
                    self._told[call.arguments] = twin.arguments

    def value(self, value: Any) -> Any:
        match value:
            case {"name": str(name), "arguments": str(arguments)} if value.get("type", CALL) == CALL:
                return {**value, "arguments": self._calls.get((name, arguments), masked(arguments, None))}
            case {"type": "tool_use", "name": str(name), "input": given}:
                written = msgspec.json.encode(given, order="sorted").decode()
                return {**value, "input": self._calls.get((name, written), {"arguments": masked(written, None)})}
            case dict():
                return {key: self.value(each) for key, each in value.items()}
            case list():
                return [self.value(each) for each in value]
            case str():
                for exact, hidden in self._told.items():
                    value = value.replace(exact, hidden)
        return value


def _written(arguments: str) -> str:
    """Arguments as a JSON object, in one spelling."""
    try:
        decoded = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        decoded = arguments
    return msgspec.json.encode(decoded if isinstance(decoded, dict) else {"arguments": decoded}, order="sorted").decode()


def would_be_sent(request: Request, options: Options | None, origin: str, fact: ModelReplied) -> Wired:
    """A request as a model with these options would be sent it, in place of the one behind a reply; None: a model of the user's own."""
    return handed(request) if options is None else Wired(_wire(origin), _compiled_as_then(request, options, origin, fact).body)


def _compiled_as_then(request: Request, options: Options, origin: str, fact: ModelReplied) -> Compiled:
    """Compiled for what the provider held then: in the conversation that the reply names, or by value where it had lost it."""
    if options.memory == "conversation" and fact.base:
        request = replace(request, conversation=fact.base)
    compiled = compiled_for(request, options, origin)
    return compiled_for(request, options, origin, by_value=True) if compiled.base and not fact.base else compiled


def compiled_for(request: Request, options: Options, origin: str, *, by_value: bool = False) -> Compiled:
    """The request for the wire that an origin names."""
    from legato.providers.formats.anthropic import compile as anthropic
    from legato.providers.formats.chat import compile as chat
    from legato.providers.formats.responses import compile as responses

    match _wire(origin):
        case "responses":
            return responses.compile_request(request, options, origin, stream=True, by_value=by_value)
        case "chat":
            back = options.compatible and options.replay_reasoning
            return chat.compile_request(request, options, stream=True, origin=origin, reasoning=back)
        case _:
            return anthropic.compile_request(request, options, origin, stream=True)


def handed(request: Request) -> Wired:
    """What a model of the user's own is handed."""
    frame = request.frame
    plain: dict[str, Any] = {
        "agent": frame.agent,
        "instructions": frame.instructions,
        "tools": [{"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in frame.tools],
        "messages": request.messages,
    }
    if frame.output:
        plain["output"] = frame.output
    return Wired("", msgspec.json.encode(plain, order="sorted"))


def _wire(origin: str) -> str:
    wire = origin.partition(" ")[0]
    return wire if wire in WIRES else ""


def _recorded_options(text: str, origin: str) -> Options | None:
    """The options of the model that replied. Where several stood by for each other, the frame has those of all."""
    if not text or not _wire(origin):
        return None
    try:
        given = msgspec.json.decode(text)
        texts = given if isinstance(given, list) else [text]
        known = [options_from(each) for each in texts if each]
    except (msgspec.DecodeError, TypeError):
        return None
    model = origin.split(" ", 2)[-1]
    return next((options for options in known if options.model == model), None)


def _proof(compiled: Compiled, fact: ModelReplied) -> Proof:
    from legato.providers.formats.losses import BARE
    from legato.providers.formats.sequence import after_reply

    held = fact.held.removesuffix(BARE).strip()
    if not held or not compiled.told:
        return ""
    now = after_reply(compiled.told, fact.items) if _wire(fact.origin) == "responses" else compiled.told
    return "proved" if now == held else "refuted"
