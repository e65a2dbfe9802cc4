"""Asking user code for verdicts. May know: guardrails, typed outputs, the termination condition, summarisers. Decides: nothing.

Every verdict is a fact, recorded once and never asked for again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from legato.core import wording
from legato.core.facts import AnyFact, Compacted, Judged
from legato.core.groups import message_of, refusal_of, spoken
from legato.core.history import Summarised
from legato.core.messages import text_of
from legato.core.owed import JudgeInput, JudgeOutput, JudgeTermination, Summarise
from legato.core.state import State
from legato.core.view import visible
from legato.drive.clients import ClientDefinitions
from legato.drive.clock import now_ms
from legato.drive.conversation import accepted_messages
from legato.drive.definition import Definition, called
from legato.drive.ledger import Ledger
from legato.drive.outcome import Outcome
from legato.errors import BadInput
from legato.tools import parse_output


class Judge:
    """Performs the effects that ask user code about the conversation."""

    def __init__(self, definition: Definition, ledger: Ledger, context: Any, clients: ClientDefinitions) -> None:
        self._definition = definition
        self._clients = clients
        self._ledger = ledger
        self._context = context

    async def input(self, effect: JudgeInput) -> Outcome:
        """What the agent's input guardrails say of a message."""
        state = self._ledger.state
        group = next((group for group in (*state.waiting, *state.tail) if group.position == effect.position), None)
        if group is None:
            return Outcome()
        known = self._ledger.recorded
        words, by = await self._objection(effect.agent, "input", text_of(group.content))
        fact = Judged(
            at=now_ms(), kind="input", position=effect.position, stop=bool(words), words=words, by=by, agent=effect.agent
        )
        return Outcome(partial(_input_if_open, fact, known))

    async def output(self, effect: JudgeOutput) -> Outcome:
        """Whether a reply fits its type and passes the agent's output guardrails."""
        reply = self._ledger.state.reply
        if reply is None or reply.fact is None or reply.position != effect.position:
            return Outcome()
        agent, known, options = self._definition.agents[reply.agent], self._ledger.recorded, reply.options
        asked = await self._clients.definitions(options)
        value: Any = spoken(reply.fact)
        words, by = "", ""
        if reply.calls:  # the run ends here: with what its tools returned, or with the words beside the calls
            answer_of = self._definition.answer_of
            value = answer_of(self._ledger.state) if answer_of is not None else value or None
        elif options.required:
            words, by = wording.no_call([tool.name for tool in options.tools]), "tool_choice"
        elif agent.output is not None or options.typed:
            try:
                if agent.output is not None:
                    value = agent.output.parse(value)
                elif not refusal_of(reply.fact):  # a model may decline, which is no wrong answer
                    value = parse_output(asked.output, value)
            except ValueError as error:
                words, by = str(error), "output_type"
        if not words and value is not None:
            words, by = await self._objection(reply.agent, "output", value)
        fact = Judged(at=now_ms(), kind="output", position=effect.position, stop=bool(words), words=words, by=by)
        return Outcome(partial(_if_newest, fact, known))

    async def termination(self, effect: JudgeTermination) -> Outcome:
        """Whether the conversation has come to its end."""
        assert self._definition.termination is not None
        known = self._ledger.recorded
        ended = bool(await called(self._definition.termination, accepted_messages(self._ledger.state)))
        fact = Judged(at=now_ms(), kind="termination", position=effect.position, stop=ended)
        return Outcome(partial(_if_newest, fact, known))

    async def summarise(self, effect: Summarise) -> Outcome:
        """A summary of what an agent has seen up to a position."""
        state, known = self._ledger.state, self._ledger.recorded
        history = self._definition.agents[effect.agent].history  # owed only where this is the policy in force
        if history.summarise is None:
            raise BadInput(f"agent {effect.agent!r} has no summariser", do="write history=summarised(tokens, by=function)")
        groups = visible(state, history.spec, effect.agent)
        before = state.summaries.get(effect.agent) if isinstance(history.spec, Summarised) else None
        lines = [before.summary] if before else []
        lines += [str(message_of(entry)) for group in groups if group.position <= effect.upto for entry in group.entries]
        summary = await called(history.summarise, "\n".join(lines))
        if not isinstance(summary, str) or not summary.strip():
            raise BadInput(
                f"the summariser of agent {effect.agent!r} gave no summary", found=repr(summary)[:80], do="return text from it"
            )
        fact = Compacted(at=now_ms(), agent=effect.agent, upto=effect.upto, summary=summary)
        return Outcome(partial(_if_further, fact, known))

    async def _objection(self, agent: str, on: str, what: Any) -> tuple[str, str]:
        for guardrail in self._definition.agents[agent].guards(on):
            if words := await guardrail.judge(self._context, what):
                return words, guardrail.name
        return "", ""


def _erased_since(known: int, state: State) -> bool:
    """Whether words were erased since so many facts were known: what was made from those may hold what is gone, and is made anew."""
    return state.redacted_at >= known


def _input_if_open(fact: Judged, known: int, state: State) -> Iterator[AnyFact]:
    if not _erased_since(known, state) and any(
        group.position == fact.position and group.judged != fact.agent for group in (*state.waiting, *state.unseen)
    ):
        yield fact


def _if_newest(fact: Judged, known: int, state: State) -> Iterator[AnyFact]:
    if _erased_since(known, state):
        return
    judged = state.output_checked if fact.kind == "output" else state.termination_judged
    if state.reply is not None and state.reply.position == fact.position and state.reply.complete and not judged:
        yield fact


def _if_further(fact: Compacted, known: int, state: State) -> Iterator[AnyFact]:
    before = state.summaries.get(fact.agent)
    if not _erased_since(known, state) and (before is None or fact.upto > before.upto):
        yield fact
