"""What goes over HTTP, written down beside the ledger. May know: the SDK's client. Decides: what a request says, by its bytes.

Nothing here asks Legato what it sent: the client's own hooks note the bytes as they leave, and what they say is read from those.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias

from legato import Middleware
from legato.core.facts import Answered, Call, CallRef, Refusal, Words
from legato.core.groups import Entry, OutputEntry, UserEntry
from legato.core.messages import text_of
from legato.core.view import Request
from legato.demo.desk import Places, write_down
from legato.models import Reply

Element: TypeAlias = tuple[str, ...]
"""One thing that a model is shown: ("user", words), ("assistant", words), ("call", number, tool, arguments), ("output", number, words).

Calls are numbered as they come; outputs have the number of their call."""

REPEATABLE = (408, 409, 429)
"""Statuses with which a provider asks for patience, and refuses nothing."""

_turn: ContextVar[int] = ContextVar("turn", default=-1)


class Wiretap(Middleware):
    """Notes every HTTP request of a client as it leaves, and how it was answered."""

    def __init__(self, places: Places) -> None:
        self._file = places.traffic
        self._numbers = count()

    async def around_model(self, request: Request, proceed: Callable[[Request], Awaitable[Reply]]) -> Reply:
        """Remember which reply is being asked for: the hooks below run within."""
        _turn.set(request.turn)
        return await proceed(request)

    def client(self) -> Any:
        """OpenAI's own client, with its own hooks."""
        import openai

        hooks: dict[str, list[Callable[..., Any]]] = {"request": [self._leaves], "response": [self._answered]}
        return openai.AsyncOpenAI(max_retries=0, http_client=openai.DefaultAsyncHttpxClient(event_hooks=hooks))

    async def _leaves(self, request: Any) -> None:
        request.extensions["demo"] = f"{os.getpid()}-{next(self._numbers)}"
        self._note(request, turn=_turn.get(), bytes=len(request.content), body=json.loads(request.content or b"{}"))

    async def _answered(self, response: Any) -> None:
        self._note(response.request, status=response.status_code)

    def _note(self, request: Any, **what: Any) -> None:
        write_down(self._file, json.dumps({"id": request.extensions["demo"], **what}))


@dataclass
class Sent:
    """One HTTP request. `status` 0: nobody lived to see the answer."""

    turn: int
    bytes: int
    body: dict[str, Any]
    status: int = 0

    @property
    def refused(self) -> bool:
        return 400 <= self.status < 500 and self.status not in REPEATABLE


def traffic(places: Places) -> list[Sent]:
    """All that went over HTTP, from however many processes."""
    sent: dict[str, Sent] = {}
    for line in places.traffic.read_text().splitlines() if places.traffic.exists() else []:
        note = json.loads(line)
        id = note.pop("id")
        if "body" in note:
            sent[id] = Sent(**note)
        else:
            sent[id].status = note["status"]
    return list(sent.values())


def told(sent: Mapping[int, Sent], replies: Sequence[Answered]) -> list[tuple[list[Element], int]]:
    """What the model knew at each reply: what its request names as held, what the model had answered to that, and what was sent with it.
    With each, how much of it was held."""
    known: list[list[Any]] = []
    told: list[tuple[list[Element], int]] = []
    by_id = {fact.response_id: number for number, fact in enumerate(replies)}
    for number in range(len(replies)):
        body = sent[number].body if number in sent else {}
        before = by_id.get(body.get("previous_response_id", ""))
        held = [*known[before], *_items(replies[before])] if before is not None and before < number else []
        known.append([*held, *body.get("input", ())])
        told.append((_elements(known[-1]), len(_elements(held))))
    return told


def _items(fact: Answered) -> list[dict[str, Any]]:
    """A reply as the provider holds it."""
    items: list[dict[str, Any]] = []
    for item in fact.items:
        if isinstance(item, Words | Refusal):
            items.append({"role": "assistant", "content": item.text})
        elif isinstance(item, Call):
            items.append({"type": "function_call", "call_id": item.call_id, "name": item.tool, "arguments": item.arguments})
    return items


def _elements(items: Sequence[Any]) -> list[Element]:
    elements: list[Element] = []
    calls: dict[str, str] = {}
    for item in items:
        match item:
            case {"type": "function_call", "call_id": id, "name": name, "arguments": arguments}:
                calls[id] = str(len(calls))
                elements.append(("call", calls[id], name, arguments))
            case {"type": "function_call_output", "call_id": id, "output": output}:
                elements.append(("output", calls.get(id, "of no call"), str(output)))
            case {"role": "user" | "assistant" as role, "content": str(words)}:
                elements.append((role, words))
            case {"type": "reasoning"}:
                pass  # the model's own: nobody sees it, and it says nothing to anybody
            case _:
                elements.append(("another", json.dumps(item)))
    return elements


def seen(request: Request) -> list[list[Element]]:
    """The same from what the ledger says an agent saw: for each message, reply or output, its elements."""
    calls: dict[CallRef, str] = {}

    def elements(entry: Entry) -> Iterator[Element]:
        if isinstance(entry, UserEntry):
            yield "user", text_of(entry.content)
        elif isinstance(entry, OutputEntry):
            yield "output", calls[entry.ref], text_of(entry.content)
        else:
            for index, item in enumerate(entry.items):
                if isinstance(item, Words | Refusal):
                    yield "assistant", item.text
                elif isinstance(item, Call):
                    number = calls[CallRef(entry.position, index)] = str(len(calls))
                    yield "call", number, item.tool, item.arguments

    return [list(elements(entry)) for entry in request.entries]
