"""Playing of stories over provider formats, and the checks of all their requests."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import msgspec

from legato.core.history_policies import Everything
from legato.core.view import ModelRequest
from legato.providers.rules.identifiers import sanitize_tool_name
from legato.runtime.session import Session
from legato.stores.contract import Store
from legato.testing.story import Story, World
from legato.workflow.workflow import Workflow
from tests.providers.stories.expected_contents import expected_lines
from tests.providers.stories.prompt_cache_checks import find_cache_misses
from tests.providers.stories.recording_provider import RecordingProvider, SentRequest
from tests.providers.stories.scripts_over_http import StoryConnection
from tests.providers.stories.story_formats import StoryFormat
from tests.providers.stories.traffic_reader import TrafficReader, normalize_arguments


@dataclass(frozen=True)
class PlayedStory:
    """A played story: its model requests with their numbers, their failures, all HTTP requests, and the session."""

    format: StoryFormat
    requests: list[tuple[ModelRequest, int]]
    failures: list[str]
    traffic: list[SentRequest]
    session: Session

    @cached_property
    def reader(self) -> TrafficReader:
        """A reader of the HTTP requests, independent of Legato."""
        return TrafficReader(self.traffic)

    @property
    def consecutive_requests(self) -> Iterator[tuple[tuple[ModelRequest, int], tuple[ModelRequest, int]]]:
        """Each request, with the next request of the same turn context and session."""
        latest: dict[tuple[str, str], tuple[ModelRequest, int]] = {}
        for request, number in self.requests:
            context = request.session_id, request.context_digest
            if context in latest:
                yield latest[context], (request, number)
            latest[context] = request, number


async def play_story(story: Story, provider: RecordingProvider, format: StoryFormat, model: Any, stream: bool, store: Store) -> PlayedStory:
    """Play a story, which runs its own checks."""
    provider.clear()
    connection = StoryConnection(provider, format, model, stream)

    def build(store: Store, world: World) -> Workflow:
        return connection.connect_workflow(story.build(store, world))

    result = await replace(story, build=build).run(store, stream)
    return PlayedStory(format, connection.requests, connection.failures, provider.list_requests(), result.session)


def check_story(played: PlayedStory) -> None:
    """Check every request: it arrived and was not refused, it has each message once and in order (C1, C2), each call has one output (C3),
    and a provider's id is sent only if the provider confirmed to store what the request begins with (C4)."""
    assert not played.failures, f"requests without a reply: {'; '.join(played.failures)}"
    assert [request for request in played.traffic if request.status != 200] == []
    raw = played.reader
    assert sorted(number for _, number in played.requests) == list(raw.requests)
    for request, number in played.requests:
        lines = expected_lines(request, played.format.conventions)
        assert raw.read_contents(number) == lines
        assert raw.read_stored_contents(number) == lines[: len(raw.read_stored_contents(number))]
        assert raw.find_unpaired_calls(number) == []
        assert raw.find_unconfirmed_ids(number) == []
        context = request.turn_context
        assert raw.read_tools(number) == [(sanitize_tool_name(tool.name), json.loads(tool.parameters)) for tool in context.tools]
        assert raw.read_instructions(number).startswith(context.instructions)
        if played.format.conventions.messages_in_instructions:
            assert all(text in raw.read_instructions(number) for text in context.messages)


def check_prompt_cache(played: PlayedStory) -> None:
    """Check that the provider's prompt cache can hit between consecutive requests of a turn context."""
    raw = played.reader
    for (earlier, before), (later, after) in played.consecutive_requests:
        assert find_cache_misses(raw.requests[before], raw.requests[after]) == []
        if _is_continuation(earlier, later):
            # The later request shares all of the earlier one, and the reasoning of its reply.
            thought = [("thought", "")] if played.format.thinks else []
            lines = [*raw.read_contents(before, with_reasoning=True), *thought]
            assert raw.read_contents(after, with_reasoning=True)[: len(lines)] == lines


VOLATILE_MEMBERS = (
    *("at", "took", "call_id", "item_id", "encrypted", "response_id", "request_id", "held", "base", "conversation"),
    *("usage", "agents", "needed", "retry_at"),
)
"""The members of facts that differ between runs: times, the provider's ids and ciphertexts, and the tokens that its ids count as."""


def count_recorded_facts(played: PlayedStory) -> Counter[str]:
    """Count the facts without their volatile members. Parallel tools end in any order."""
    facts = [json.dumps(_drop_volatile_members(msgspec.to_builtins(fact)), sort_keys=True) for fact in played.session.facts]
    return Counter(fact.replace(played.session.state.ledger_id, "this ledger") for fact in facts)


def _drop_volatile_members(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _drop_volatile_members(each, name) for name, each in value.items() if name not in VOLATILE_MEMBERS}
    if isinstance(value, list | tuple):
        return [_drop_volatile_members(each) for each in value]
    return normalize_arguments(value) if name == "arguments" else value


def _is_continuation(earlier: ModelRequest, later: ModelRequest) -> bool:
    """Return True if a request begins with all groups of an earlier one, and the reply to it."""
    groups = later.groups[: len(earlier.groups) + 1]
    reply = groups[-1].fact
    return (
        isinstance(earlier.turn_context.history, Everything)
        and [group.position for group in groups[:-1]] == [group.position for group in earlier.groups]
        and reply is not None
        and (reply.upto, reply.agent) == (earlier.upto, earlier.agent)
    )
