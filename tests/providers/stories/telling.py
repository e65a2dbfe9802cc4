"""A story, told over a wire, and what every request in it is held to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import msgspec

from legato.core.history_policies import Everything
from legato.core.view import Request
from legato.providers.rules.names import wire_name
from legato.runtime.session import Session
from legato.stores.contract import Store
from legato.testing.story import Story, World
from legato.workflow.workflow import Workflow
from tests.providers.stories.caching import misses
from tests.providers.stories.raw import Reader, plain_arguments
from tests.providers.stories.seen import seen
from tests.providers.stories.traffic import Provider, Sent
from tests.providers.stories.wired import Wire
from tests.providers.stories.wires import Kind


@dataclass(frozen=True)
class Travelled:
    """A story that was told over a wire: what its models were asked, with the number of each request; how they failed; all that went over
    HTTP; and what was recorded."""

    kind: Kind
    asked: list[tuple[Request, int]]
    failed: list[str]
    traffic: list[Sent]
    session: Session

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

    told = await replace(story, build=build).tell(store, stream)
    return Travelled(kind, wire.asked, wire.failed, provider.traffic(), told.session)


def check(told: Travelled) -> None:
    """Every request: it arrived, nothing was refused, each message is there once and in order (C1, C2), each call has one output (C3), no
    id of the provider's is sent but where it confirmed to hold what the request begins with (C4)."""
    assert not told.failed, f"requests that never got their reply: {'; '.join(told.failed)}"
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


PASSING = (
    *("at", "took", "call_id", "item_id", "encrypted", "response_id", "request_id", "held", "base", "conversation"),
    *("usage", "agents", "needed", "retry_at"),
)
"""What differs from telling to telling: times, what the provider made up, and how many tokens its ids were counted as."""


def recorded(told: Travelled) -> Counter[str]:
    """The facts, without what passes. Parallel tools end in any order."""
    facts = [json.dumps(_lasting(msgspec.to_builtins(fact)), sort_keys=True) for fact in told.session.facts]
    return Counter(fact.replace(told.session.state.ledger, "this ledger") for fact in facts)


def _lasting(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _lasting(each, name) for name, each in value.items() if name not in PASSING}
    if isinstance(value, list | tuple):
        return [_lasting(each) for each in value]
    return plain_arguments(value) if name == "arguments" else value


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
