"""A client of the API, as plain as one can be: what is asked is what is sent, and every answer is looked at as it came."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlsplit

from legato.server import Server

PATIENCE = 60


class Answer:
    """What came back."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return str(self.json["error"]["code"])

    def __repr__(self) -> str:
        return f"<{self.status} {self.body[:300]!r}>"


class Client:
    """Asks a server, with its token."""

    def __init__(self, server: Server | str, token: str = "") -> None:
        self.url = server if isinstance(server, str) else server.url
        self.token = token or (server.token if isinstance(server, Server) else "")
        parts = urlsplit(self.url)
        self.host, self.port = parts.hostname or "", parts.port or 80

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)

    @contextmanager
    def connection_to(self, method: str, path: str) -> Iterator[http.client.HTTPConnection]:
        """A connection on which something was asked and not read yet."""
        connection = self.connection()
        try:
            connection.request(method, path, headers={"authorization": f"Bearer {self.token}"})
            yield connection
        finally:
            connection.close()

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """One request on a connection of its own. A body that is no bytes goes as JSON."""
        given: dict[str, str] = {"authorization": f"Bearer {self.token}", **(headers or {})}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            given.setdefault("content-type", "application/json")
        connection = self.connection()
        try:
            connection.request(method, path, body, given)
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        answer = self.ask("GET", path)
        assert answer.status == 200, answer
        return answer.json

    def post(self, path: str, body: Any, status: int = 200) -> Any:
        answer = self.ask("POST", path, body)
        assert answer.status == status, answer
        return answer.json

    def session(self, id: str) -> Any:
        return self.get(f"/api/sessions/{quote(id, safe='')}")

    def begin(self, message: str, id: str, status: str = "waiting", **more: Any) -> Any:
        """A session in which something was said, once it stands like this."""
        self.post("/api/sessions", {"id": id, "message": message, **more}, 201)
        return self.until(id, status)

    def until(self, id: str, *statuses: str) -> Any:
        """The session, once it stands like one of these: whoever follows it is told."""
        with self.events(id) as events:
            for event in events:
                if event.get("event") == "status" and json.loads(event["data"])["data"] in statuses:
                    break
        session = self.session(id)
        return session if session["status"] in statuses else self.until(id, *statuses)

    @contextmanager
    def events(self, id: str, after: str = "", last: str = "") -> Iterator[Iterator[dict[str, str]]]:
        """The events of a session, each as its fields."""
        connection = self.connection()
        path = f"/api/sessions/{quote(id, safe='')}/events" + (f"?after={after}" if after else "")
        headers = {"authorization": f"Bearer {self.token}", **({"last-event-id": last} if last else {})}
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            assert response.status == 200, Answer(response)
            yield fields(response)
        finally:
            if connection.sock is not None:
                connection.sock.close()
            connection.close()


def fields(response: http.client.HTTPResponse) -> Iterator[dict[str, str]]:
    """Server-sent events, without the comments."""
    event: dict[str, str] = {}
    for line in response:
        text = line.decode().rstrip("\n")
        if not text:
            if event:
                yield event
            event = {}
        elif not text.startswith(":"):
            name, _, value = text.partition(": ")
            event[name] = value


async def in_thread(function: Any, *given: Any) -> Any:
    return await asyncio.to_thread(function, *given)
