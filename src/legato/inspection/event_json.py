"""Events as JSON data, the same over HTTP and on the command line, with digests in place of secrets."""

from __future__ import annotations

from typing import Any

import msgspec

from legato.core.messages import Message
from legato.core.pending_requests import Pending
from legato.inspection.session_summaries import summarize_request
from legato.runtime.events import Event, ToolData, WaitingData
from legato.runtime.session import Session


def event_to_json(event: Event, session: Session) -> dict[str, Any]:
    """Return an event as data: `type`, `position`, `data`, and `cursor` if a client can continue after it."""
    plain = {"type": event.type, "position": event.position, "data": _data_to_json(event.data, session)}
    return {**plain, "cursor": event.cursor} if event.cursor else plain


def _data_to_json(data: Any, session: Session) -> Any:
    match data:
        case Message():
            parts = msgspec.to_builtins(data.parts)
            return {"role": data.role, "author_name": data.author_name, "text": data.text, "parts": parts}
        case Pending():
            return msgspec.to_builtins(summarize_request(session, data))
        case WaitingData():
            return {"kind": "message", "agent": data.agent}
        case ToolData():
            return {**msgspec.structs.asdict(data), "call": str(data.call)}
        case _:
            return msgspec.to_builtins(data, str_keys=True)
