"""The endpoints of stored responses.

`input_items` lists everything that the model was given for a response, the chain before it included.
"""

from __future__ import annotations

from legato.emulator.request_types import EmulatorRequest
from legato.emulator.responses.endpoint_replies import EndpointReply, Query, make_error, make_not_found, make_page
from legato.emulator.responses.provider_state import ResponsesStorage
from legato.errors import BadInput


class ResponseEndpoints:
    """`/v1/responses/{id}` and the paths below it. An account sees only its own responses."""

    def __init__(self, storage: ResponsesStorage) -> None:
        self._storage = storage

    def get(self, request: EmulatorRequest, id: str, query: Query) -> EndpointReply:
        """Answer `GET /v1/responses/{id}`. A request to stream it again is an error of the emulator, which cannot do that."""
        if query.get("stream", "false").lower() == "true":
            raise BadInput("the emulator does not stream a stored response again", do="retrieve it without stream=true")
        row, turn = self._storage.find_response(request.account, id, request.now), self._storage.turns.find_turn(request.account, id)
        return (200, {**row, "output": turn.output_items}) if row and turn else _response_not_found(id)

    def delete(self, request: EmulatorRequest, id: str, query: Query) -> EndpointReply:
        """Answer `DELETE /v1/responses/{id}`. Responses that continue it go on working."""
        if self._storage.find_response(request.account, id, request.now) is None:
            return _response_not_found(id)
        self._storage.objects.delete(request.account, "response", id)
        return 200, {"id": id, "object": "response", "deleted": True}

    def input_items(self, request: EmulatorRequest, id: str, query: Query) -> EndpointReply:
        """Answer `GET /v1/responses/{id}/input_items`."""
        if self._storage.find_response(request.account, id, request.now) is None:
            return _response_not_found(id)
        *earlier_turns, turn = self._storage.turns.list_chain(request.account, id)
        return make_page([item for earlier in earlier_turns for item in earlier.items] + turn.input_items, query)

    def cancel(self, request: EmulatorRequest, id: str, query: Query) -> EndpointReply:
        """Answer `POST /v1/responses/{id}/cancel`. A background response is complete at once, so it is returned as it is."""
        row = self._storage.find_response(request.account, id, request.now)
        if row is None:
            return _response_not_found(id)
        return self.get(request, id, query) if row["background"] else make_error("Cannot cancel a synchronous response.")


def _response_not_found(id: str) -> EndpointReply:
    return make_not_found("Response", id)
