"""The base of all providers' models: how a client is made, how a request is sent, and when it is sent again.

A request can be refused for a part of it that the turn can do without: reasoning that is sent back, what the provider is said to hold, an
output that is enforced. Then the same turn goes again without that part, each part once. Every other failure is the driver's business.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, TypeVar

from msgspec.structs import replace

from legato.core.facts import NO_USAGE
from legato.core.model_reply import Reply
from legato.core.view import Request
from legato.errors import ModelFailed
from legato.models.arguments import check_arguments, options_of
from legato.models.base import Emit
from legato.models.check import Check, check
from legato.models.masking import note_request
from legato.models.prices import Price, Priced
from legato.models.sdk import JSON, Clients, address_of, configured_address, failing, shown
from legato.providers.formats.compiled import Compiled
from legato.providers.formats.loose import json_of
from legato.providers.formats.options import Options
from legato.providers.rules.rule_set import Complaint

T = TypeVar("T")


class ProviderModel(Priced):
    """A model behind HTTP, reached through its provider's SDK."""

    api: ClassVar[str]
    """What the API is called in errors."""
    key: ClassVar[str]
    """The word for the API in the origin of a reply."""
    path: ClassVar[str]
    request_id: ClassVar[str] = "x-request-id"
    """The header of an answer that names the exchange."""
    sdk: ClassVar[str]
    lacks: ClassVar[Mapping[str, str]]
    """The options that the API does not have, with what to do instead."""
    owned: ClassVar[Mapping[str, str]]
    """The members of a request that are not the caller's, with the reason."""
    judged_options: ClassVar[Callable[[Options], Sequence[Complaint]]]
    """What the law book says of options alone."""

    def _set_up(
        self,
        options: Mapping[str, Any],
        stream: bool,
        check: Check,
        prices: Mapping[str, Price] | None,
        timeout: float | None,
        client: Any,
        base_url: str | None,
        **client_options: Any,
    ) -> None:
        """Take in what every model is made with. `client_options` are for `_make`, if no client is given."""
        check_arguments(stream=stream, check=check, prices=prices, timeout=timeout)
        judged = type(self).judged_options
        self.options = options_of(self.api, options, lacks=self.lacks, owned=self.owned, judged=judged, how=check)
        self.options_text = self.options.recorded()
        self._stream = stream
        self._check = check
        self.prices = prices
        self._base_url = base_url
        self.address = configured_address(base_url, client)
        self._headers: Mapping[str, str] = JSON
        self._clients = Clients(self._make, {"base_url": base_url, **client_options}, client, timeout)

    @staticmethod
    @abstractmethod
    def _make(given: Mapping[str, Any], timeout: float) -> Any:
        """Make the SDK's client."""

    @abstractmethod
    def _compile(self, request: Request, origin: str, left_out: frozenset[str]) -> Compiled:
        """The request as it is sent, without the parts that were refused."""

    @abstractmethod
    def _refused_parts(self, failure: ModelFailed, compiled: Compiled, request: Request) -> Iterator[str]:
        """The parts of a request that it may have been refused for."""

    @abstractmethod
    async def _send(self, client: Any, compiled: Compiled, origin: str, emit: Emit) -> Reply:
        """The reply to a request."""

    def __repr__(self) -> str:
        where = f" at {shown(self._base_url)}" if self._base_url else ""
        return f"<{type(self).__name__} {self.options.model}{where}>"

    async def close(self) -> None:
        """Close its connections, in the running event loop. A model that is used again opens new ones."""
        await self._clients.close()

    async def body(self, request: Request) -> bytes:
        """What the provider is sent for a request, such as `await session.seen()`: nothing is sent."""
        return self._compile(request, self._origin(self._clients()), frozenset()).body

    def _origin(self, client: Any) -> str:
        """The API, address and model. It is recorded with a reply, so that its reasoning goes back there and nowhere else."""
        return f"{self.key} {address_of(client)} {self.options.model}"

    async def _ask(self, request: Request, emit: Emit) -> Reply:
        client = self._clients()
        origin = self._origin(client)
        left_out: frozenset[str] = frozenset()
        compiled = self._compile(request, origin, left_out)
        spent = NO_USAGE  # by what came to nothing
        while True:
            check(compiled, self._check)
            try:
                reply = await self._failing(self._send(client, compiled, origin, emit))
                return replace(reply, usage=self._with_cost(reply.usage, reply.model) + spent) if spent != NO_USAGE else reply
            except ModelFailed as failure:
                spent += self._with_cost(failure.usage or NO_USAGE)
                failure.usage = spent if spent != NO_USAGE else failure.usage
                refused = next((part for part in self._refused_parts(failure, compiled, request) if part not in left_out), "")
                left_out |= {refused}
                before, compiled = compiled, self._compile(request, origin, left_out)
                if not refused or compiled.body == before.body:
                    raise

    async def _post(self, client: Any, compiled: Compiled) -> tuple[Any, str]:
        """Send a request; its answer's JSON, and the provider's id of the exchange."""
        import httpx2

        answer = await client.post(self.path, content=compiled.body, cast_to=httpx2.Response, options={"headers": self._headers})
        note_request(answer)
        return json_of(answer.content), answer.headers.get(self.request_id, "")

    async def _open_stream(self, client: Any, compiled: Compiled) -> tuple[Any, str]:
        """Send a request; its answer as it comes, and the provider's id of the exchange."""
        stream = await client.post(
            self.path,
            content=compiled.body,
            cast_to=object,
            stream=True,
            stream_cls=self._imported_sdk().AsyncStream[object],
            options={"headers": self._headers},
        )
        return stream, stream.response.headers.get(self.request_id, "")

    async def _failing(self, doing: Awaitable[T]) -> T:
        """The SDK's errors as failures of the model."""
        return await failing(doing, self._imported_sdk())

    def _imported_sdk(self) -> Any:
        """The SDK. It is asked for when the client is made: where it is not installed, that says what to do."""
        return import_module(self.sdk)
