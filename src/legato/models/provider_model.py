"""The base class of all providers' models.

A provider can refuse a request for a part that the turn can do without: replayed reasoning, history that it is said to store, an enforced
output. Then the request is sent again without that part, once per part. The driver handles all other failures.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, TypeVar

from msgspec.structs import replace

from legato.core.facts import NO_USAGE
from legato.core.model_reply import ModelReply
from legato.core.view import ModelRequest
from legato.errors import ModelFailed
from legato.models.credential_masks import remember_request
from legato.models.model import Emit
from legato.models.model_arguments import check_arguments, make_options
from legato.models.prices import Price, PricedModel
from legato.models.request_check import CheckMode, check_request
from legato.models.sdk_client import (
    JSON_HEADERS,
    LoopClients,
    find_configured_address,
    get_client_address,
    strip_url_secrets,
    translate_sdk_errors,
)
from legato.providers.formats.encoded_request import EncodedRequest
from legato.providers.formats.lenient_json import decode_json
from legato.providers.formats.request_options import RequestOptions
from legato.providers.rules.rule_set import RuleViolation

T = TypeVar("T")


class ProviderModel(PricedModel):
    """A model behind HTTP, reached through its provider's SDK."""

    api_name: ClassVar[str]
    """The API's name in error messages."""
    origin_key: ClassVar[str]
    """The API's name in the origin of a reply."""
    path: ClassVar[str]
    request_id_header: ClassVar[str] = "x-request-id"
    """The response header that holds the request id."""
    sdk_name: ClassVar[str]
    missing_options: ClassVar[Mapping[str, str]]
    """The options that the API does not have, with what to do instead."""
    reserved_members: ClassVar[Mapping[str, str]]
    """The members of a request that callers may not set, with the reason."""
    find_option_violations: ClassVar[Callable[[RequestOptions], Sequence[RuleViolation]]]
    """The check of options against the provider's rules."""

    def _set_up(
        self,
        options: Mapping[str, Any],
        stream: bool,
        check: CheckMode,
        prices: Mapping[str, Price] | None,
        timeout: float | None,
        client: Any,
        base_url: str | None,
        **client_options: Any,
    ) -> None:
        """Set the attributes of a model from its arguments. `client_options` are for `_make_client`, unless there is a client."""
        check_arguments(stream=stream, check=check, prices=prices, timeout=timeout)
        find_violations = type(self).find_option_violations
        self.options = make_options(
            self.api_name,
            options,
            missing_options=self.missing_options,
            reserved_members=self.reserved_members,
            find_violations=find_violations,
            check=check,
        )
        self.options_text = self.options.to_masked_json()
        self._stream = stream
        self._check = check
        self.prices = prices
        self._base_url = base_url
        self.address = find_configured_address(base_url, client)
        self._headers: Mapping[str, str] = JSON_HEADERS
        self._clients = LoopClients(self._make_client, {"base_url": base_url, **client_options}, client, timeout)

    @staticmethod
    @abstractmethod
    def _make_client(options: Mapping[str, Any], timeout: float) -> Any:
        """Make the SDK's client."""

    @abstractmethod
    def _encode(self, request: ModelRequest, origin: str, omitted_parts: frozenset[str]) -> EncodedRequest:
        """Encode a request without the parts that the provider refused."""

    @abstractmethod
    def _find_refused_parts(self, failure: ModelFailed, encoded: EncodedRequest, request: ModelRequest) -> Iterator[str]:
        """Yield the parts of a request that the provider may have refused."""

    @abstractmethod
    async def _send(self, client: Any, encoded: EncodedRequest, origin: str, emit: Emit) -> ModelReply:
        """Send a request and return its reply."""

    def __repr__(self) -> str:
        where = f" at {strip_url_secrets(self._base_url)}" if self._base_url else ""
        return f"<{type(self).__name__} {self.options.model}{where}>"

    async def close(self) -> None:
        """Close the model's connections in the running event loop. A later request opens new ones."""
        await self._clients.close()

    async def body(self, request: ModelRequest) -> bytes:
        """Return the body that the provider is sent for a request, such as `await session.seen()`. Nothing is sent."""
        return self._encode(request, self._make_origin(self._clients()), frozenset()).body

    def _make_origin(self, client: Any) -> str:
        """Return the API, the address and the model. They are recorded with a reply: its reasoning is replayed only there."""
        return f"{self.origin_key} {get_client_address(client)} {self.options.model}"

    async def _request_reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        client = self._clients()
        origin = self._make_origin(client)
        omitted_parts: frozenset[str] = frozenset()
        encoded = self._encode(request, origin, omitted_parts)
        failed_usage = NO_USAGE  # the usage of failed requests
        while True:
            check_request(encoded, self._check)
            try:
                reply = await self._translate_errors(self._send(client, encoded, origin, emit))
                if failed_usage == NO_USAGE:
                    return reply
                return replace(reply, usage=self._add_cost(reply.usage, reply.model) + failed_usage)
            except ModelFailed as failure:
                failed_usage += self._add_cost(failure.usage or NO_USAGE)
                failure.usage = failed_usage if failed_usage != NO_USAGE else failure.usage
                refused_part = next((part for part in self._find_refused_parts(failure, encoded, request) if part not in omitted_parts), "")
                omitted_parts |= {refused_part}
                previous, encoded = encoded, self._encode(request, origin, omitted_parts)
                if not refused_part or encoded.body == previous.body:
                    raise

    async def _post(self, client: Any, encoded: EncodedRequest) -> tuple[Any, str]:
        """Send a request; return the JSON of the response, and the request id."""
        import httpx2

        answer = await client.post(self.path, content=encoded.body, cast_to=httpx2.Response, options={"headers": self._headers})
        remember_request(answer)
        return decode_json(answer.content), answer.headers.get(self.request_id_header, "")

    async def _open_stream(self, client: Any, encoded: EncodedRequest) -> tuple[Any, str]:
        """Send a request; return the response as a stream, and the request id."""
        stream = await client.post(
            self.path,
            content=encoded.body,
            cast_to=object,
            stream=True,
            stream_cls=self._import_sdk_module().AsyncStream[object],
            options={"headers": self._headers},
        )
        return stream, stream.response.headers.get(self.request_id_header, "")

    async def _translate_errors(self, awaitable: Awaitable[T]) -> T:
        """Await a call of the SDK, and raise its errors as `ModelFailed`."""
        return await translate_sdk_errors(awaitable, self._import_sdk_module())

    def _import_sdk_module(self) -> Any:
        """Import the SDK. `_make_client` did so before, and says what to do if it is not installed."""
        return import_module(self.sdk_name)
