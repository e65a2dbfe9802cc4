"""Answers to pending requests from people and programs, which see digests in place of secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from legato.core.pending_requests import Pending
from legato.errors import BadInput
from legato.inspection.secret_masks import restore_secrets
from legato.runtime.session import Session


async def record_answer(
    session: Session,
    request: Pending | str,
    verdict: str,
    *,
    message: str = "",
    arguments: Mapping[str, Any] | None = None,
    value: Any = None,
    always: bool = False,
) -> None:
    """Record an answer; raise `NotPending` if the request is no longer pending. A digest in edited arguments becomes its secret again."""
    match verdict:
        case "approve":
            await session.approve(request, always=always)
        case "reject":
            await session.reject(request, message)
        case "answer":
            await session.answer(request, value)
        case "edit":
            pending = request if isinstance(request, Pending) else await _find_pending(session, request)
            edited = arguments or {}
            await session.edit(pending or request, restore_secrets(session, pending, edited) if pending is not None else edited)
        case other:
            raise BadInput("this is not a verdict", expected="approve, reject, answer or edit", found=repr(other)[:80])


async def _find_pending(session: Session, id: str) -> Pending | None:
    return next((each for each in (await session.refresh()).pending if each.id == id), None)
