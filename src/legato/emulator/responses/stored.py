"""The endpoints for stored responses. May know: the store. Decides: nothing; each function answers one path.

`input_items` lists everything that the response stood on, the chain before it included, as the model was given it.
"""

from __future__ import annotations

from legato.emulator.asks import Ask
from legato.emulator.responses.held import Store
from legato.emulator.responses.lists import Query, Reply, not_found, page, refused
from legato.errors import BadInput


class ResponseEndpoints:
    """`/v1/responses/{id}` and what is under it. Everything belongs to the account that asks."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, ask: Ask, id: str, query: Query) -> Reply:
        """GET /v1/responses/{id}. Nothing is streamed anew: that is told rather than left out."""
        if query.get("stream", "false").lower() == "true":
            raise BadInput("the emulator does not stream a stored response again", do="retrieve it without stream=true")
        row, turn = self._store.response(ask.account, id, ask.now), self._store.turns.get(ask.account, id)
        return (200, {**row, "output": turn.answered}) if row and turn else _no_response(id)

    def delete(self, ask: Ask, id: str, query: Query) -> Reply:
        """DELETE /v1/responses/{id}. What was built on it before goes on working."""
        if self._store.response(ask.account, id, ask.now) is None:
            return _no_response(id)
        self._store.shelf.delete(ask.account, "response", id)
        return 200, {"id": id, "object": "response", "deleted": True}

    def input_items(self, ask: Ask, id: str, query: Query) -> Reply:
        """GET /v1/responses/{id}/input_items."""
        if self._store.response(ask.account, id, ask.now) is None:
            return _no_response(id)
        *before, turn = self._store.turns.walk(ask.account, id)
        return page([item for one in before for item in one.items] + turn.sent, query)

    def cancel(self, ask: Ask, id: str, query: Query) -> Reply:
        """POST /v1/responses/{id}/cancel. A response in the background is complete at once, so it is given back as it is."""
        row = self._store.response(ask.account, id, ask.now)
        if row is None:
            return _no_response(id)
        return self.get(ask, id, query) if row["background"] else refused("Cannot cancel a synchronous response.")


def _no_response(id: str) -> Reply:
    return not_found("Response", id)
