"""Answers to what a conversation asks. May know: the state and the definition. Decides: which answers count, and what is recorded of them.

Whoever answers may be late, mistaken, or one of several. So an answer is judged by what is asked at the position at which it is recorded;
and a delivery that comes again, by what it would have recorded when it came first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from legato.core.argument_checks import text
from legato.core.facts import AnyFact, Content, Decided, RunOptions, Standing
from legato.core.pending_requests import Pending, Verdict
from legato.core.planner import find_request, plan
from legato.core.run_options import check_options
from legato.core.state import State
from legato.core.workflow_graph import Graph
from legato.errors import BadInput, LegatoError, NotPending
from legato.runtime.clock import now_ms
from legato.runtime.ledger import fold_in_slices
from legato.tools import BadArguments

if TYPE_CHECKING:
    from legato.runtime.definition import Definition


class Given(Struct, frozen=True):
    """An answer, as it was given."""

    request: Pending | str
    verdict: Verdict
    key: str
    words: str = ""
    arguments: str = ""
    output: Content = ""
    always: bool = False
    options: RunOptions | None = None
    """The client's options of the run from here on; None: the same as before."""

    @property
    def id(self) -> str:
        """Of what it answers."""
        return self.request.id if isinstance(self.request, Pending) else self.request

    def decided(self, state: State, definition: Definition) -> Decided:
        """What is recorded of it in this state; `NotPending` if that does not ask for it."""
        asked = self._asked(state, definition)
        if self.verdict not in asked.verdicts:
            raise NotPending(
                f"{asked.id!r} asks for {asked.kind}: it cannot be answered with {self.verdict!r}",
                expected=" or ".join(asked.verdicts),
                do="nothing was changed",
            )
        options = self._options(state, asked, definition.graph)
        if self.verdict == "edit":
            _check_edit(asked, self.arguments, definition)
        return Decided(
            at=now_ms(),
            kind=asked.kind,
            verdict=self.verdict,
            call=asked.call,
            limit=asked.limit,
            digest=asked.digest,
            words=self.words,
            arguments=self.arguments,
            output=self.output,
            standing=Standing(asked.agent, asked.tool) if self.always and asked.call else None,
            key=self.key,
            options=options,
        )

    def _options(self, state: State, asked: Pending, graph: Graph) -> RunOptions | None:
        """The client's options of the run from here on, if they change."""
        now = state.run_options
        if self.options is None:  # a call that had to come has come: what follows may be an answer
            return replace(now, required=False) if now.required and asked.for_client else None
        if self.options == now:
            return None
        check_options(graph, self.options)
        return self.options

    def _asked(self, state: State, definition: Definition) -> Pending:
        found = find_request(state, definition.graph, self.id)
        if found is None:
            asked = plan(state, definition.graph).requests
            raise NotPending(
                f"{self.id!r} is not pending in session {state.session!r}: answered already, overtaken, or never asked here",
                found=f"pending: {', '.join(each.id for each in asked) or 'nothing'}",
                do="nothing was changed; look at what is pending now",
            )
        if isinstance(self.request, Pending) and self.request.digest != found.digest:
            raise NotPending(
                f"the answer to {self.id!r} was given for other arguments",
                expected=f"digest {found.digest}",
                found=f"digest {self.request.digest}",
                do="nothing was changed; look again at what is pending",
            )
        return found


def as_json(arguments: Mapping[str, Any]) -> str:
    """Arguments that somebody wrote in place of a model's."""
    try:
        return json.dumps(arguments, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"these arguments are not JSON: {error}", do="give a dict of plain values") from None


def _check_edit(asked: Pending, arguments: str, definition: Definition) -> None:
    agent = definition.agents.get(asked.agent)
    tool = agent.tools.get(asked.tool) if agent else None
    try:
        if tool is not None:
            tool.validate(arguments)
    except BadArguments as error:
        raise BadInput(f"{asked.tool!r} cannot run with these arguments: {error}", do="nothing was changed") from None


def checked_key(key: str | None) -> str:
    """A sender's name for a delivery; empty if it has none."""
    if key is not None:
        text("the key of a delivery", key)
    return key or ""


async def check_same_answer(state: State, given: Given, definition: Definition) -> None:
    """Refuse an answer whose key was used for something else."""
    before = await fold_in_slices(state.facts[: state.keys[given.key]], state.session)
    try:
        decided = given.decided(before, definition)
    except LegatoError:  # what it answers was not asked then
        decided = None
    check_same_delivery(state, given.key, decided)


def check_same_delivery(state: State, key: str, again: AnyFact | None) -> None:
    """Refuse a key that was used for something else than `again`: what this delivery would have recorded then, if anything."""
    position = state.keys[key]
    recorded = state.facts[position]
    if position in state.erasures.facts:
        return  # nobody can tell any more what it was
    if again is None or replace(again, at=recorded.at) != recorded:
        raise BadInput(
            f"the key {key!r} was used before for something else",
            found=f"{type(recorded).__name__} at position {position}",
            do="use a new key for each new message or answer; nothing was changed",
        )
