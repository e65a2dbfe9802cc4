"""A minimal client of the HTTP API, for tests."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlsplit

from legato.server import Server

TIMEOUT_S = 60


class ApiResponse:
    """A response with its body."""

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


class ApiClient:
    """Sends requests to a server, with its token."""

    def __init__(self, server: Server | str, token: str = "") -> None:
        self.url = server if isinstance(server, str) else server.url
        self.token = token or (server.token if isinstance(server, Server) else "")
        parts = urlsplit(self.url)
        self.host, self.port = parts.hostname or "", parts.port or 80

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, self.port, timeout=TIMEOUT_S)

    @contextmanager
    def open_request(self, method: str, path: str) -> Iterator[http.client.HTTPConnection]:
        """Send a request, and yield the connection before its response is read."""
        connection = self.connect()
        try:
            connection.request(method, path, headers={"authorization": f"Bearer {self.token}"})
            yield connection
        finally:
            connection.close()

    def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> ApiResponse:
        """Send a request on a new connection. Bodies other than bytes are encoded as JSON."""
        all_headers: dict[str, str] = {"authorization": f"Bearer {self.token}", **(headers or {})}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            all_headers.setdefault("content-type", "application/json")
        connection = self.connect()
        try:
            connection.request(method, path, body, all_headers)
            return ApiResponse(connection.getresponse())
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        answer = self.request("GET", path)
        assert answer.status == 200, answer
        return answer.json

    def post(self, path: str, body: Any, status: int = 200) -> Any:
        answer = self.request("POST", path, body)
        assert answer.status == status, answer
        return answer.json

    def get_session(self, id: str) -> Any:
        return self.get(f"/api/sessions/{quote(id, safe='')}")

    def create_session(self, message: str, id: str, status: str = "waiting", **more: Any) -> Any:
        """Create a session with a message, and wait until it has this status."""
        self.post("/api/sessions", {"id": id, "message": message, **more}, 201)
        return self.wait_for_status(id, status)

    def wait_for_status(self, id: str, *statuses: str) -> Any:
        """Wait until the session has one of these statuses, by following its events."""
        with self.open_events(id) as events:
            for event in events:
                if event.get("event") == "status" and json.loads(event["data"])["data"] in statuses:
                    break
        session = self.get_session(id)
        return session if session["status"] in statuses else self.wait_for_status(id, *statuses)

    @contextmanager
    def open_events(self, id: str, after: str = "", last: str = "") -> Iterator[Iterator[dict[str, str]]]:
        """Yield the events of a session, each as a dict of its fields."""
        connection = self.connect()
        path = f"/api/sessions/{quote(id, safe='')}/events" + (f"?after={after}" if after else "")
        headers = {"authorization": f"Bearer {self.token}", **({"last-event-id": last} if last else {})}
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            assert response.status == 200, ApiResponse(response)
            yield parse_events(response)
        finally:
            if connection.sock is not None:
                connection.sock.close()
            connection.close()


def parse_events(response: http.client.HTTPResponse) -> Iterator[dict[str, str]]:
    """Parse server-sent events; comments are left out."""
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


async def run_in_thread(function: Any, *arguments: Any) -> Any:
    return await asyncio.to_thread(function, *arguments)
