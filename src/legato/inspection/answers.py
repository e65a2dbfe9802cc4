"""Answers to pending requests, from people and programs that see digests in place of secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from legato.core.pending_requests import Pending
from legato.errors import BadInput
from legato.inspection.hiding import unhidden
from legato.runtime.session import Session


async def give_answer(
    session: Session,
    request: Pending | str,
    verdict: str,
    *,
    words: str = "",
    arguments: Mapping[str, Any] | None = None,
    value: Any = None,
    always: bool = False,
) -> None:
    """Record an answer; `NotPending` if the request is no longer pending. A digest in edited arguments becomes its secret again."""
    match verdict:
        case "approve":
            await session.approve(request, always=always)
        case "reject":
            await session.reject(request, words)
        case "answer":
            await session.answer(request, value)
        case "edit":
            asked = request if isinstance(request, Pending) else await _pending(session, request)
            given = arguments or {}
            await session.edit(asked or request, unhidden(session, asked, given) if asked is not None else given)
        case other:
            raise BadInput("there is no such decision", expected="approve, reject, answer or edit", found=repr(other)[:80])


async def _pending(session: Session, id: str) -> Pending | None:
    return next((each for each in (await session.refresh()).pending if each.id == id), None)
