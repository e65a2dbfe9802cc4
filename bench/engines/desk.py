"""The desk of the measurements: in every turn the model calls three parallel tools, then answers in about a hundred tokens, at once."""

from __future__ import annotations

from typing import Any

from bench.workloads import INSTRUCTIONS, OUTPUT, REPLY
from legato import Agent, HandoffBuilder, tool
from legato.core.groups import OutputEntry
from legato.core.view import ModelRequest
from legato.models.model import Emit, ModelReply
from legato.testing import call
from legato.testing.scripted_models import make_reply


@tool
async def find_order(key: str) -> str:
    """Find an order."""
    return OUTPUT


@tool
async def find_customer(key: str) -> str:
    """Find a customer."""
    return OUTPUT


@tool
async def find_parcel(key: str) -> str:
    """Find a parcel."""
    return OUTPUT


TOOLS = [find_order, find_customer, find_parcel]
CALLS: Any = [REPLY, *(call(each.name, key="order-4711") for each in TOOLS)]


class InstantModel:
    """A model without latency and state: it answers after outputs, and calls tools otherwise."""

    name = "at once"

    async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        last = list(request.groups[-1].entries)[-1]
        return make_reply(REPLY if isinstance(last, OutputEntry) else CALLS, request)


desk = HandoffBuilder("desk", [Agent("ann", model=InstantModel(), instructions=INSTRUCTIONS, tools=TOOLS)]).build()
