"""What else speaks to the sessions that are served, each by the rules of its own protocol. Decides: which of them there are."""

from __future__ import annotations

from starlette.routing import Route

from legato.server import agui, openai
from legato.server.serving import Serving


def protocols(serving: Serving) -> list[Route]:
    """Their routes, behind the same access checks and limits as everything else."""
    return [*openai.routes(serving), *agui.routes(serving)]
