"""The handler of all requests to the emulator, the same for every API.

    API key -> JSON -> fault -> provider rules -> fake model -> reply, in one piece or as a stream

No request may end in an internal error (500). A reply is stored when all of it has been sent, so a stream that was cut leaves nothing
behind.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from legato.asgi import HANG_UP_SCOPE_KEY
from legato.emulator.api_adapter import ApiAdapter
from legato.emulator.api_key_parser import find_api_key
from legato.emulator.exchanges import Exchange, ExchangeLog
from legato.emulator.fake_models.base import FakeModel, FakeReply, ModelPrompt
from legato.emulator.faults import FAULT_HEADER, EmulatorFault, FaultPlan, apply_reply_fault, make_failure, parse_fault
from legato.emulator.open_exchange import (
    ConnectionCut,
    HangUpResponse,
    OpenExchange,
    ReplyStreamResponse,
    RequestRejected,
    TruncatedResponse,
)
from legato.emulator.request_json import BAD_JSON_FAILURE, BODY_TOO_LARGE_FAILURE, BodyTooLarge, parse_body, read_body
from legato.emulator.request_mask import MAX_TEXT_CHARS, mask_secrets, shorten_texts
from legato.emulator.request_types import ApiReply, EmulatorRequest, ProviderFailure, StreamEvent
from legato.errors import BadInput, LegatoError


@runtime_checkable
class MultiChoiceAdapter(Protocol):
    """An adapter whose requests may ask for several choices."""

    def make_prompts(self, request: EmulatorRequest) -> tuple[ModelPrompt, ...]:
        """Return the model's prompts, one for each choice."""
        ...

    def make_reply(self, request: EmulatorRequest, fake_reply: FakeReply, *further_replies: FakeReply) -> ApiReply:
        """Return all choices as one object and its events."""
        ...


UNAUTHORIZED_FAILURE = ProviderFailure("unauthorized", 401)
Lookup: TypeAlias = Callable[[EmulatorRequest], tuple[int, dict[str, Any]]]


class RequestHandler:
    """The handler of all requests of one emulator."""

    def __init__(
        self,
        fake_model: FakeModel,
        fault_plan: FaultPlan,
        exchange_log: ExchangeLog,
        *,
        accepted_keys: frozenset[str] = frozenset(),
        latency: float = 0.0,
        seed: int = 0,
        max_text_chars: int | None = MAX_TEXT_CHARS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.fake_model = fake_model
        self.fault_plan = fault_plan
        self.exchange_log = exchange_log
        self._accepted_keys = accepted_keys
        self._latency = latency
        self._seed = seed
        self._max_text_chars = max_text_chars
        self.clock = clock

    async def handle_model_request(self, http: Request, adapter: ApiAdapter, *, is_azure: bool = False) -> Response:
        """Respond to a request for a model's reply."""
        number = self.exchange_log.next_number()
        request = self.make_request(http, adapter.api, self.exchange_log.requests, is_azure=is_azure)
        open_exchange = OpenExchange(request, adapter, Exchange(number, request.now, adapter.api, http.url.path, {}), self.exchange_log)
        return await self._respond_or_reject(http, open_exchange, self._reply_to_model_request)

    async def handle_lookup(self, http: Request, adapter: ApiAdapter, lookup: Lookup, *, is_azure: bool = False) -> Response:
        """Respond to any other request with the result of a lookup."""
        number, request = self.exchange_log.next_number(is_model_request=False), self.make_request(http, adapter.api, is_azure=is_azure)
        exchange = Exchange(number, request.now, adapter.api, http.url.path, {}, method=http.method, is_model_request=False)

        async def respond_to_lookup(http: Request, open_exchange: OpenExchange) -> Response:
            if self._is_key_refused(request):
                raise open_exchange.make_rejection(UNAUTHORIZED_FAILURE)
            request.body = await self._read_body(http, open_exchange, may_be_empty=True)
            open_exchange.exchange.request_body = self._loggable_body(request)
            if request.non_object_body is not None:
                raise open_exchange.make_rejection(BAD_JSON_FAILURE)
            status, body = lookup(request)
            return open_exchange.respond(status, body, adapter.make_headers(request, is_stream=False, status=status))

        return await self._respond_or_reject(http, OpenExchange(request, adapter, exchange, self.exchange_log), respond_to_lookup)

    async def _respond_or_reject(
        self, http: Request, open_exchange: OpenExchange, respond: Callable[[Request, OpenExchange], Awaitable[Response]]
    ) -> Response:
        """Return the response, or the one for what went wrong."""
        try:
            return await respond(http, open_exchange)
        except RequestRejected as rejection:
            return open_exchange.respond_with_error(rejection.error_reply)
        except RecursionError:  # the JSON is nested as deeply as the decoder can just read
            return open_exchange.respond_with_error(open_exchange.make_rejection(BAD_JSON_FAILURE).error_reply)
        except LegatoError as error:  # a fault or a script that cannot be used: the error is for its author
            return open_exchange.respond_with_error(open_exchange.make_rejection(ProviderFailure("emulator", 400, str(error))).error_reply)
        except (ConnectionCut, ClientDisconnect):
            open_exchange.close(499)
            return HangUpResponse()
        except asyncio.CancelledError:  # the emulator is stopped
            open_exchange.close(499)
            if HANG_UP_SCOPE_KEY in http.scope:
                http.scope[HANG_UP_SCOPE_KEY]()
            raise
        except BaseException:
            open_exchange.close(500)
            raise

    async def _reply_to_model_request(self, http: Request, open_exchange: OpenExchange) -> Response:
        request, adapter = open_exchange.request, open_exchange.adapter
        if self._is_key_refused(request):
            raise open_exchange.make_rejection(UNAUTHORIZED_FAILURE)
        request.body = await self._read_body(http, open_exchange)
        open_exchange.exchange.request_body, open_exchange.exchange.is_stream = self._loggable_body(request), request.wants_stream
        if self._latency:
            await asyncio.sleep(self._latency)
        open_exchange.set_fault(self.fault_plan.take_fault(request.number, request.headers.get(FAULT_HEADER)))
        await self._apply_early_fault(open_exchange)
        open_exchange.check()
        fake_reply = await self._ask_fake_model(open_exchange)
        reply = (
            adapter.make_reply(request, fake_reply, *self._further_choices(open_exchange, adapter))
            if isinstance(adapter, MultiChoiceAdapter)
            else adapter.make_reply(request, fake_reply)
        )
        if request.wants_stream:
            open_exchange.exchange.reply_body = reply.body
            return ReplyStreamResponse(open_exchange, _stream_events(open_exchange, reply))
        if truncated := await _apply_stream_fault(open_exchange, reply):
            return truncated
        adapter.store_reply(request, reply)
        return open_exchange.respond(200, reply.body, adapter.make_headers(request, is_stream=False))

    def make_request(self, http: Request, api: str, number: int = 0, *, is_azure: bool = False) -> EmulatorRequest:
        """Return the request without its body."""
        headers = {name.lower(): value for name, value in http.headers.items()}
        return EmulatorRequest(
            api=api,
            number=number,
            body={},
            headers=headers,
            account=find_account(headers, api),
            now=self.clock(),
            is_azure=is_azure,
            deployment=http.path_params.get("deployment", ""),
        )

    def _is_key_refused(self, request: EmulatorRequest) -> bool:
        """Return True if the API key is missing or not accepted."""
        key = find_api_key(request.headers, request.api)
        return not key or (bool(self._accepted_keys) and key not in self._accepted_keys)

    async def _read_body(self, http: Request, open_exchange: OpenExchange, *, may_be_empty: bool = False) -> dict[str, Any]:
        try:
            data = await read_body(http)
        except BodyTooLarge:
            error_reply = open_exchange.make_rejection(BODY_TOO_LARGE_FAILURE).error_reply
            headers = {**error_reply.headers, "connection": "close"}  # the rest of the body is not worth waiting for
            raise RequestRejected(msgspec.structs.replace(error_reply, headers=headers)) from None
        open_exchange.request.body_bytes = len(data)
        body = parse_body(data) if data or not may_be_empty else {}
        if body is None:
            raise open_exchange.make_rejection(BAD_JSON_FAILURE)
        if not isinstance(body, dict):
            open_exchange.request.non_object_body = body  # the rules reject it
            return {}
        return body

    def _loggable_body(self, request: EmulatorRequest) -> dict[str, Any]:
        """Return the body for the exchange log: secrets masked, long texts shortened."""
        body = mask_secrets(request.body)
        return (
            shorten_texts(body, self._max_text_chars)
            if self._max_text_chars is not None and request.body_bytes > self._max_text_chars
            else body
        )

    async def _apply_early_fault(self, open_exchange: OpenExchange) -> None:
        """Apply a fault of the stages "before" and "state", which need no reply."""
        fault = open_exchange.fault
        if fault is None or fault.stage not in ("before", "state"):
            return
        if fault.stage == "state":
            if not open_exchange.adapter.apply_state_fault(open_exchange.request, fault.kind):
                open_exchange.mark_fault_not_applied()
            return
        if fault.kind == "context_length" and open_exchange.request.wants_stream and open_exchange.adapter.api == "responses":
            open_exchange.fault = parse_fault("error_event kind=context_length after=0")  # this API reports it inside the stream (F2)
            return
        if fault.kind == "hang_up":
            raise ConnectionCut
        if fault.kind == "timeout":
            await asyncio.sleep(fault.get_number("seconds"))
        raise open_exchange.make_rejection(make_failure(fault))

    async def _ask_fake_model(self, open_exchange: OpenExchange) -> FakeReply:
        """Return the fake model's reply, changed by the fault if it is one of replies. A script may bring a fault of its own."""
        prompt = open_exchange.exchange.prompt = self._add_seed(open_exchange.adapter.make_prompt(open_exchange.request))
        if open_exchange.fault is None and (text := self._query_fake_model("fault", prompt)):
            fault = parse_fault(text)
            open_exchange.set_fault(fault)
            await self._apply_early_fault(open_exchange)
            if fault.stage == "state":
                open_exchange.check_again()
        open_exchange.exchange.fake_reply = self._make_fake_reply(open_exchange, prompt)
        open_exchange.exchange.note = self._query_fake_model("note", prompt)
        return open_exchange.exchange.fake_reply

    def _query_fake_model(self, method_name: Literal["fault", "note"], prompt: ModelPrompt) -> str:
        """Call an optional method of the fake model: `fault` for the fault of its script, `note` for a remark on its reply."""
        method: Callable[[ModelPrompt], str] | None = getattr(self.fake_model, method_name, None)
        return "" if method is None else method(prompt)

    def _further_choices(self, open_exchange: OpenExchange, adapter: MultiChoiceAdapter) -> list[FakeReply]:
        """Return the fake model's replies for the choices after the first."""
        return [self._make_fake_reply(open_exchange, self._add_seed(prompt)) for prompt in adapter.make_prompts(open_exchange.request)[1:]]

    def _add_seed(self, prompt: ModelPrompt) -> ModelPrompt:
        return msgspec.structs.replace(prompt, seed=prompt.seed + self._seed) if self._seed else prompt

    def _make_fake_reply(self, open_exchange: OpenExchange, prompt: ModelPrompt) -> FakeReply:
        try:
            fake_reply = self.fake_model.reply(prompt)
        except (LegatoError, RecursionError):
            raise
        except Exception as error:  # the fake model may be the user's own function
            raise open_exchange.make_rejection(
                ProviderFailure("emulator", 500, f"the emulator's fake model failed: {type(error).__name__}: {error}")
            ) from error
        _check_encodable(fake_reply, self.fake_model)
        if open_exchange.fault is not None and open_exchange.fault.stage == "reply":
            changed = apply_reply_fault(fake_reply, open_exchange.fault)
            if changed == fake_reply:
                open_exchange.mark_fault_not_applied()
            return changed
        return fake_reply


def _check_encodable(fake_reply: object, fake_model: FakeModel) -> None:
    """Raise `BadInput` for a reply that cannot be encoded, such as a text with half of a surrogate pair."""
    try:
        msgspec.json.decode(msgspec.json.encode(fake_reply), type=FakeReply)
        is_encodable = isinstance(fake_reply, FakeReply)
    except (UnicodeError, msgspec.MsgspecError, TypeError):
        is_encodable = False
    if not is_encodable:
        raise BadInput(
            f"the fake model {fake_model!r} returned a reply that cannot be encoded",
            expected="a FakeReply of texts in valid Unicode",
            found=repr(fake_reply)[:200],
        )


async def _apply_stream_fault(open_exchange: OpenExchange, reply: ApiReply) -> Response | None:
    """Apply a fault of the stage "stream" to a reply in one piece. Return the truncated response, or None if the reply stays whole."""
    fault = open_exchange.fault
    if fault is None or fault.stage != "stream":
        return None
    if fault.kind == "cut":
        body, byte = msgspec.json.encode(reply.body), int(fault.get_number("byte"))
        cut_position = byte if byte >= 0 else len(body) // 2
        if cut_position >= len(body):
            return None
        open_exchange.exchange.reply_body = reply.body
        open_exchange.close(200)
        return TruncatedResponse(body, open_exchange.adapter.make_headers(open_exchange.request, is_stream=False), cut_position)
    if fault.kind == "error_event":
        raise open_exchange.make_rejection(make_failure(fault))
    await asyncio.sleep(fault.get_number("delay") * len(reply.events))
    return None


async def _stream_events(open_exchange: OpenExchange, reply: ApiReply) -> AsyncIterator[bytes]:
    """Yield the bytes of a reply's events, with the fault applied."""
    fault = open_exchange.fault
    events, cut_position = _apply_fault_to_events(open_exchange.request, open_exchange.adapter, reply, fault)
    delay = fault.get_number("delay") if fault is not None and fault.kind == "slow" else 0.0
    bytes_left = int(fault.get_number("byte")) if fault is not None and fault.kind == "cut" else -1
    for number, event in enumerate(events):
        data = event.encode()
        if number == cut_position or 0 <= bytes_left < len(data):
            if bytes_left > 0:
                yield data[:bytes_left]
            raise ConnectionCut
        bytes_left = bytes_left - len(data) if bytes_left >= 0 else bytes_left
        if delay and number:
            await asyncio.sleep(delay)
        open_exchange.exchange.event_count += 1
        if (
            number == len(events) - 1
        ):  # close before the last event: a client that has seen the end may continue it, and look at the exchange
            if events is reply.events:
                open_exchange.adapter.store_reply(open_exchange.request, reply)
            open_exchange.exchange.is_complete = True
            open_exchange.close(200)
        yield data


def _apply_fault_to_events(
    request: EmulatorRequest, adapter: ApiAdapter, reply: ApiReply, fault: EmulatorFault | None
) -> tuple[tuple[StreamEvent, ...], int]:
    """Return the events with the fault applied, and the index of the event before which the connection breaks (-1: none)."""
    if fault is not None and fault.kind == "error_event":
        is_flat = fault.get_word("form") == "flat"
        return adapter.make_failing_stream(request, reply, make_failure(fault), int(fault.get_number("after")), is_flat), -1
    if fault is not None and fault.kind == "cut":
        event, byte = int(fault.get_number("event")), int(fault.get_number("byte"))
        # Without either option the cut is in the middle.
        return reply.events, event if event >= 0 or byte >= 0 else len(reply.events) // 2
    return reply.events, -1


def find_account(headers: dict[str, str], api: str) -> str:
    """Return the account whose stored objects a request may see: an organisation per key, unless the request names one."""
    organisation = headers.get("openai-organization")
    return organisation or "org-" + hashlib.sha256(find_api_key(headers, api).encode()).hexdigest()[:24]
