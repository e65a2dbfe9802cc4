"""Asks user code for verdicts: guardrails, approval functions, output types, the termination condition, summarisers.

Every verdict is a fact, recorded once and never asked for again.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from legato.core import messages_to_model
from legato.core.digests import digest_arguments
from legato.core.facts import AnyFact, ApprovalChecked, Compacted, GuardrailJudged, ModelReplied, RunOptions
from legato.core.groups import CallState, message_of, refusal_of, spoken
from legato.core.history_policies import Summarised
from legato.core.messages import text_of
from legato.core.planner import Admit, JudgeInput, JudgeOutput, JudgeTermination, Summarise
from legato.core.state import State
from legato.core.view import visible
from legato.errors import BadInput
from legato.runtime.claims import call_and_agent, is_client_call, tool_context, wrong_arguments
from legato.runtime.clock import now_ms
from legato.runtime.definition import AgentDefinition, Definition, called
from legato.runtime.ledger import Ledger
from legato.runtime.outcomes import Outcome
from legato.runtime.transcript import accepted_messages
from legato.runtime.turn_contexts import ClientDefinitions
from legato.tools import BadArguments, ToolCall, parse_output
from legato.tools.client import arguments_of


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
        fact = GuardrailJudged(
            at=now_ms(), kind="input", position=effect.position, stop=bool(words), words=words, by=by, agent=effect.agent
        )
        return Outcome((fact,), known=known)

    async def call(self, effect: Admit) -> Outcome:
        """What tool guardrails and the approval function say of a call."""
        state, known = self._ledger.state, self._ledger.recorded
        call, agent = call_and_agent(self._definition, state, effect.call)
        own = None if is_client_call(self._definition, state, call) else agent.tools[call.call.tool]
        try:
            values = own.validate(call.arguments) if own is not None else await self._client_arguments(state, call)
        except BadArguments as error:
            return Outcome((wrong_arguments(call, error),), known=known)
        seen = ToolCall(str(call.ref), call.call.tool, values)
        verdict = GuardrailJudged(at=now_ms(), kind="tool", position=call.ref.position, index=call.ref.index)
        facts: list[AnyFact] = []
        if agent.guards("tool") and not call.guarded:
            words, by = await self._objection(agent.name, "tool", seen)
            facts.append(replace(verdict, at=now_ms(), stop=bool(words), words=words, by=by))
            if words:
                return Outcome(tuple(facts), known=known)
        needed = own.needs_approval if own is not None else False
        if not isinstance(needed, bool):
            needed = bool(await called(needed, tool_context(self._ledger, self._context, agent.name, call, 1, values), values, seen))
        facts.append(ApprovalChecked(at=now_ms(), call=call.ref, needed=needed, digest=digest_arguments(call.arguments)))
        return Outcome(tuple(facts), known=known)

    async def _client_arguments(self, state: State, call: CallState) -> dict[str, object]:
        """The arguments of a client's tool as its schema has them; `BadArguments` if they do not fit it."""
        definitions = await self._clients.definitions(state.options_of(call.ref.position))
        spec = definitions.tool(call.call.tool)
        assert spec is not None, "the options of a run name the tools that their definitions have"
        return arguments_of(spec).validate(spec.name, call.arguments)

    async def output(self, effect: JudgeOutput) -> Outcome:
        """Whether a reply fits its type and passes the agent's output guardrails."""
        reply = self._ledger.state.reply
        if reply is None or reply.fact is None or reply.position != effect.position:
            return Outcome()
        agent, known, options = self._definition.agents[reply.agent], self._ledger.recorded, reply.options
        value: Any = spoken(reply.fact)
        words, by = "", ""
        if reply.calls:  # the run ends here: with what its tools returned, or with the words beside the calls
            answer_of = self._definition.answer_of
            value = answer_of(self._ledger.state) if answer_of is not None else value or None
        elif options.required:
            words, by = messages_to_model.no_call([tool.name for tool in options.tools]), "tool_choice"
        else:
            try:
                value = await self._parsed(agent, reply.fact, options)
            except ValueError as error:
                words, by = str(error), "output_type"
        if not words and value is not None:
            words, by = await self._objection(reply.agent, "output", value)
        fact = GuardrailJudged(at=now_ms(), kind="output", position=effect.position, stop=bool(words), words=words, by=by)
        return Outcome((fact,), known=known)

    async def _parsed(self, agent: AgentDefinition, reply: ModelReplied, options: RunOptions) -> Any:
        """The value of a reply; `ValueError` if it does not fit the output type of its agent, or the one that its client asked for."""
        if agent.output is not None:
            return agent.output.parse(spoken(reply))
        if options.typed and not refusal_of(reply):  # a model may decline, which is no wrong answer
            return parse_output((await self._clients.definitions(options)).output, spoken(reply))
        return spoken(reply)

    async def termination(self, effect: JudgeTermination) -> Outcome:
        """Whether the conversation has come to its end."""
        assert self._definition.termination is not None
        known = self._ledger.recorded
        ended = bool(await called(self._definition.termination, accepted_messages(self._ledger.state)))
        fact = GuardrailJudged(at=now_ms(), kind="termination", position=effect.position, stop=ended)
        return Outcome((fact,), known=known)

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
            raise BadInput(f"the summariser of agent {effect.agent!r} gave no summary", found=repr(summary)[:80], do="return text from it")
        fact = Compacted(at=now_ms(), agent=effect.agent, upto=effect.upto, summary=summary)
        return Outcome((fact,), known=known)

    async def _objection(self, agent: str, on: str, what: Any) -> tuple[str, str]:
        for guardrail in self._definition.agents[agent].guards(on):
            if words := await guardrail.judge(self._context, what):
                return words, guardrail.name
        return "", ""
