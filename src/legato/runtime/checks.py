"""Verdicts of user code: guardrails, approval functions, output types, termination conditions and summarisers.

Every verdict is recorded as a fact once, and the code is not called again for it.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from legato.core import texts_for_model
from legato.core.digests import digest_arguments
from legato.core.facts import AnyFact, ApprovalChecked, Compacted, GuardrailJudged, ModelReplied, RunOptions, TerminationJudged
from legato.core.groups import CallState, extract_refusal, extract_reply_text, to_message
from legato.core.history_policies import Summarised
from legato.core.messages import render_content
from legato.core.planner import CheckCall, CheckInput, CheckOutput, CheckTermination, SummariseHistory
from legato.core.state import State
from legato.core.view import select_groups
from legato.errors import BadInput
from legato.runtime.clock import now_ms
from legato.runtime.definition import AgentDefinition, WorkflowDefinition, call_user_code
from legato.runtime.ledger import EffectOutcome, Ledger
from legato.runtime.tool_calls import find_call_and_agent, is_client_call, make_tool_context, make_wrong_arguments_output
from legato.runtime.transcript import list_accepted_messages
from legato.runtime.turn_contexts import RunDefinitionsCache
from legato.tools import BadArguments, ToolCall, parse_output
from legato.tools.client_tools import get_arguments


class CheckRunner:
    """The performer of the effects that call user code about the conversation."""

    def __init__(self, definition: WorkflowDefinition, ledger: Ledger, context: Any, run_definitions: RunDefinitionsCache) -> None:
        self._definition = definition
        self._run_definitions = run_definitions
        self._ledger = ledger
        self._context = context

    async def check_input(self, effect: CheckInput) -> EffectOutcome:
        """Check a message with the agent's input guardrails."""
        state = self._ledger.state
        group = next((group for group in (*state.unchecked_messages, *state.new_messages) if group.position == effect.position), None)
        if group is None:
            return EffectOutcome()
        known_length = self._ledger.confirmed_length
        reason, guardrail = await self._find_objection(effect.agent, "input", render_content(group.content))
        fact = GuardrailJudged(
            at=now_ms(), kind="input", position=effect.position, stop=bool(reason), reason=reason, guardrail=guardrail, agent=effect.agent
        )
        return EffectOutcome((fact,), known_length=known_length)

    async def check_call(self, effect: CheckCall) -> EffectOutcome:
        """Check a call with the tool guardrails and the approval function."""
        state, known_length = self._ledger.state, self._ledger.confirmed_length
        call, agent = find_call_and_agent(self._definition, state, effect.call)
        tool = None if is_client_call(self._definition, state, call) else agent.tools[call.call.tool]
        try:
            values = tool.validate(call.arguments) if tool is not None else await self._validate_client_arguments(state, call)
        except BadArguments as error:
            return EffectOutcome((make_wrong_arguments_output(call, error),), known_length=known_length)
        tool_call = ToolCall(str(call.ref), call.call.tool, values)
        verdict = GuardrailJudged(at=now_ms(), kind="tool", position=call.ref.position, index=call.ref.index)
        facts: list[AnyFact] = []
        if agent.guardrails_on("tool") and not call.guardrails_passed:
            reason, guardrail = await self._find_objection(agent.name, "tool", tool_call)
            facts.append(replace(verdict, at=now_ms(), stop=bool(reason), reason=reason, guardrail=guardrail))
            if reason:
                return EffectOutcome(tuple(facts), known_length=known_length)
        needs_approval = tool.needs_approval if tool is not None else False
        if not isinstance(needs_approval, bool):
            context = make_tool_context(self._ledger, self._context, agent.name, call, 1, values)
            needs_approval = bool(await call_user_code(needs_approval, context, values, tool_call))
        facts.append(ApprovalChecked(at=now_ms(), call=call.ref, needed=needs_approval, digest=digest_arguments(call.arguments)))
        return EffectOutcome(tuple(facts), known_length=known_length)

    async def _validate_client_arguments(self, state: State, call: CallState) -> dict[str, object]:
        """Return the arguments of a call of a client's tool; `BadArguments` if they do not fit the tool's schema."""
        definitions = await self._run_definitions.read(state.options_of_reply(call.ref.position))
        spec = definitions.find_tool(call.call.tool)
        assert spec is not None, "the options of a run name the tools that their definitions have"
        return get_arguments(spec).validate(spec.name, call.arguments)

    async def check_output(self, effect: CheckOutput) -> EffectOutcome:
        """Check a reply against its output type, and with the agent's output guardrails."""
        reply = self._ledger.state.last_reply
        if reply is None or reply.fact is None or reply.position != effect.position:
            return EffectOutcome()
        agent, known_length, options = self._definition.agents[reply.agent], self._ledger.confirmed_length, reply.options
        value: Any = extract_reply_text(reply.fact)
        reason, guardrail = "", ""
        if reply.calls:  # the run ends at a reply with calls: with the output of its tools, or with the text beside the calls
            answer_from_state = self._definition.answer_from_state
            value = answer_from_state(self._ledger.state) if answer_from_state is not None else value or None
        elif options.required:
            reason, guardrail = texts_for_model.required_call_missing([tool.name for tool in options.tools]), "tool_choice"
        else:
            try:
                value = await self._parse_reply(agent, reply.fact, options)
            except ValueError as error:
                reason, guardrail = str(error), "output_type"
        if not reason and value is not None:
            reason, guardrail = await self._find_objection(reply.agent, "output", value)
        fact = GuardrailJudged(at=now_ms(), kind="output", position=effect.position, stop=bool(reason), reason=reason, guardrail=guardrail)
        return EffectOutcome((fact,), known_length=known_length)

    async def _parse_reply(self, agent: AgentDefinition, reply: ModelReplied, options: RunOptions) -> Any:
        """Return the value of a reply; `ValueError` if it does not fit the output type of its agent or the schema of its client."""
        if agent.output_type is not None:
            return agent.output_type.parse(extract_reply_text(reply))
        if options.typed and not extract_refusal(reply):  # a refusal of the model is no invalid output
            return parse_output((await self._run_definitions.read(options)).output, extract_reply_text(reply))
        return extract_reply_text(reply)

    async def check_termination(self, effect: CheckTermination) -> EffectOutcome:
        """Check the termination condition."""
        assert self._definition.termination_condition is not None
        known_length = self._ledger.confirmed_length
        ended = bool(await call_user_code(self._definition.termination_condition, list_accepted_messages(self._ledger.state)))
        fact = TerminationJudged(at=now_ms(), position=effect.position, stop=ended)
        return EffectOutcome((fact,), known_length=known_length)

    async def summarise_history(self, effect: SummariseHistory) -> EffectOutcome:
        """Summarise what an agent has seen up to a position."""
        state, known_length = self._ledger.state, self._ledger.confirmed_length
        history = self._definition.agents[effect.agent].history  # this effect is planned only for this policy
        if history.summarise is None:
            raise BadInput(f"agent {effect.agent!r} has no summariser", do="write history=summarised(tokens, by=function)")
        groups = select_groups(state, history.policy, effect.agent)
        previous = state.summaries.get(effect.agent) if isinstance(history.policy, Summarised) else None
        lines = [previous.summary] if previous else []
        lines += [str(to_message(entry)) for group in groups if group.position <= effect.upto for entry in group.entries]
        summary = await call_user_code(history.summarise, "\n".join(lines))
        if not isinstance(summary, str) or not summary.strip():
            raise BadInput(f"the summariser of agent {effect.agent!r} gave no summary", found=repr(summary)[:80], do="return text from it")
        fact = Compacted(at=now_ms(), agent=effect.agent, upto=effect.upto, summary=summary)
        return EffectOutcome((fact,), known_length=known_length)

    async def _find_objection(self, agent: str, on: str, subject: Any) -> tuple[str, str]:
        """Return the first objection of the agent's guardrails and the guardrail's name; empty strings if all let it pass."""
        for guardrail in self._definition.agents[agent].guardrails_on(on):
            if reason := await guardrail.judge(self._context, subject):
                return reason, guardrail.name
        return "", ""
