"""A story, told over a wire, and what every request in it is held to."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from legato.core.view import Request
from legato.stores.contract import Store
from legato.testing.story import Story, World
from legato.wire.names import wire_name
from legato.workflow import Workflow
from tests.wire.stories.raw import Reader
from tests.wire.stories.seen import seen
from tests.wire.stories.traffic import Provider, Sent
from tests.wire.stories.wired import Wire
from tests.wire.stories.wires import Kind


@dataclass(frozen=True)
class Travelled:
    """A story that was told over a wire: what its models were asked, with the number of each request, and all that went over HTTP."""

    kind: Kind
    asked: list[tuple[Request, int]]
    traffic: list[Sent]


async def tell(story: Story, provider: Provider, kind: Kind, model: Any, stream: bool, store: Store) -> Travelled:
    """Tell a story, which is held to its own checks."""
    provider.forget()
    wire = Wire(provider, kind, model, stream)

    def build(store: Store, world: World) -> Workflow:
        return wire.over(story.build(store, world))

    await replace(story, build=build).tell(store, stream)
    return Travelled(kind, wire.asked, provider.traffic())


def check(told: Travelled) -> None:
    """Every request: nothing was refused, each message is there once and in order (C1, C2), each call has one output (C3), no id of the
    provider's is sent but where it confirmed to hold what the request begins with (C4)."""
    assert [sent for sent in told.traffic if sent.status != 200] == []
    raw = Reader(told.traffic)
    assert sorted(number for _, number in told.asked) == list(raw.asked)
    for request, number in told.asked:
        lines = seen(request, told.kind.manner)
        assert raw.heard(number) == lines
        assert raw.held(number) == lines[: len(raw.held(number))]
        assert raw.unpaired(number) == []
        assert raw.unproven(number) == []
        frame = request.frame
        assert raw.tools(number) == [(wire_name(tool.name), json.loads(tool.parameters)) for tool in frame.tools]
        assert raw.instructions(number).startswith(frame.instructions)
        if told.kind.manner.aside:
            assert all(text in raw.instructions(number) for text in frame.messages)
