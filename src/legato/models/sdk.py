"""What the clients of providers' SDKs share. May know: SDKs by their manners. Decides: which of their errors may pass.

The SDKs of OpenAI and Anthropic come from one workshop: the same names for errors, the same streams. They are used for what they do
well (connections, keys, headers); what is sent and what is read is the wires' business, and retries are the driver's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from legato.core.facts import Refusal, Words
from legato.core.reply import Reply
from legato.errors import BadInput, ModelFailed
from legato.models.base import Emit
from legato.wire.failures import refusal_of
from legato.wire.loose import mapping, text
from legato.wire.sse import EventReader

JSON = {"Content-Type": "application/json"}

T = TypeVar("T")


def needs(package: str, extra: str) -> BadInput:
    """An SDK is not installed."""
    return BadInput(f"this model needs the package {package!r}", do=f"pip install 'legato[{extra}]'")


class Clients:
    """One client of an SDK per event loop: its connections belong to the loop that opened them."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._made: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()

    def __call__(self) -> Any:
        """The client of the running loop."""
        loop = asyncio.get_running_loop()
        client = self._made.get(loop)
        if client is None:
            client = self._made[loop] = self._make()
        return client

    async def close(self) -> None:
        """Close the connections of the running loop; the next request opens new ones."""
        client = self._made.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()


async def failing(doing: Awaitable[T], sdk: Any) -> T:
    """The SDK's errors as failures of the model. `sdk` is the SDK's module."""
    try:
        return await doing
    except sdk.APIStatusError as error:
        raise refusal_of(
            error.status_code, _told(error), retry_after=retry_after(error.response.headers), request_id=error.request_id or ""
        ) from error
    except sdk.APIConnectionError as error:
        raise ModelFailed(f"the provider could not be reached: {error}", retryable=True) from error
    except sdk.APIError as error:
        raise ModelFailed(f"{type(error).__name__}: {error}") from error


def _told(error: Any) -> dict[str, Any]:
    """What an error answer says. One SDK unwraps it, the other does not; compatible servers write it as they like."""
    body = mapping(error.body)
    inner = mapping(body.get("error")) or body
    return {"error": inner if text(inner.get("message")) else {**inner, "message": error.message}}


def retry_after(headers: Any) -> float | None:
    """How long the provider asks to wait."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) * unit)
        except (KeyError, ValueError):
            continue
    return None


async def events_of(stream: Any) -> AsyncIterator[bytes]:
    """The data of a stream's events. A connection that breaks is a failure that may pass."""
    events = EventReader()
    try:
        async for chunk in stream.response.aiter_bytes():
            for data in events.feed(chunk):
                yield data
    except (ModelFailed, GeneratorExit, asyncio.CancelledError):
        raise
    except Exception as error:
        raise _broken(error) from error
    finally:
        await stream.response.aclose()


async def whole_of(stream: Any) -> bytes:
    """The body of an answer that was to be a stream and is none."""
    try:
        body: bytes = await stream.response.aread()
    except Exception as error:
        raise _broken(error) from error
    finally:
        await stream.response.aclose()
    return body


def _broken(error: Exception) -> ModelFailed:
    return ModelFailed(f"the stream broke: {type(error).__name__}: {error}", retryable=True)


def tell(reply: Reply, emit: Emit) -> Reply:
    """The words of a reply that came in one piece, for whoever listens; then the reply."""
    for item in reply.items:
        if isinstance(item, (Words, Refusal)):
            emit(item.text)
    return reply
