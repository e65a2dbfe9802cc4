"""A story, told over a wire, and what every request in it is held to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from legato.core.history import Everything
from legato.core.view import Request
from legato.stores.contract import Store
from legato.testing.story import Story, World
from legato.wire.names import wire_name
from legato.workflow import Workflow
from tests.wire.stories.caching import misses
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

    @cached_property
    def raw(self) -> Reader:
        """What went over HTTP, read by somebody else."""
        return Reader(self.traffic)

    @property
    def in_a_row(self) -> Iterator[tuple[tuple[Request, int], tuple[Request, int]]]:
        """Each request of a frame, and the next one of that frame in the same session."""
        latest: dict[tuple[str, str], tuple[Request, int]] = {}
        for request, number in self.asked:
            frame = request.session, request.frame_digest
            if frame in latest:
                yield latest[frame], (request, number)
            latest[frame] = request, number


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
    raw = told.raw
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


def check_cache(told: Travelled) -> None:
    """From one request of a frame to the next, a provider's prompt cache can hit."""
    raw = told.raw
    for (earlier, before), (later, after) in told.in_a_row:
        assert misses(raw.asked[before], raw.asked[after]) == []
        if _goes_on(earlier, later):
            # All of the earlier request is shared, and so is what the model thought about it.
            thought = [("thought", "")] if told.kind.thinks else []
            lines = [*raw.heard(before, thoughts=True), *thought]
            assert raw.heard(after, thoughts=True)[: len(lines)] == lines


def _goes_on(earlier: Request, later: Request) -> bool:
    """Whether a request begins with all that an earlier one had, and with the reply to it."""
    groups = later.groups[: len(earlier.groups) + 1]
    reply = groups[-1].fact
    return (
        isinstance(earlier.frame.history, Everything)
        and [group.position for group in groups[:-1]] == [group.position for group in earlier.groups]
        and reply is not None
        and (reply.upto, reply.agent) == (earlier.upto, earlier.agent)
    )
