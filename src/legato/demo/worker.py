"""The process that drives the conversation, and is killed. May know: the desk. Decides: nothing; it does what its standard input says.

One JSON object per line in (`say`, `decide`, `resume`), one per event out, and `rest` when nothing more can be done without people.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from legato.demo.desk import SESSION, Places, build
from legato.demo.traffic import Wiretap
from legato.drive.events import Event
from legato.errors import LegatoError
from legato.session import Session
from legato.testing.people import give

SHOWN = ("output", "handoff_sent", "tool_started", "tool_returned", "tool_lost", "decided", "model_failed")


async def main(folder: str, model: str) -> None:
    places = Places(Path(folder))
    tap = Wiretap(places)
    session = build(places, model, tap.client(), [tap]).session(SESSION)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        try:
            await obey(session, json.loads(line))
        except LegatoError as error:
            tell("error", words=str(error))
        tell("rest")


async def obey(session: Session, order: dict[str, Any]) -> None:
    match order:
        case {"do": "say", "text": text, "key": key}:
            run = session.run(text, key=key)
        case {"do": "decide", "id": id, "verdict": verdict}:
            await give(session, id, verdict if isinstance(verdict, str) else tuple(verdict))
            run = session.resume()
        case _:
            run = session.resume()
    async for event in run:
        if event.type in SHOWN:
            show(event)


def show(event: Event) -> None:
    match event.type:
        case "output":
            tell("output", who=event.data.author_name, words=event.data.text)
        case "handoff_sent":
            tell("handoff", words=str(event.data))
        case "tool_started" | "tool_returned" | "tool_lost":
            tell(event.type, tool=event.data.tool, arguments=event.data.arguments, output=event.data.output)
        case _:
            tell(event.type, words=str(event.data))


def tell(kind: str, **what: Any) -> None:
    print(json.dumps({"type": kind, **what}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
