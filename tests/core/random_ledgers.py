"""Random ledgers: dice take the place of models, tools, user code and people. No event loop, no store."""

from random import Random

from legato.core.digests import digest_arguments
from legato.core.facts import (
    AnyFact,
    ApprovalChecked,
    Call,
    CallPaused,
    CallRef,
    CallReturned,
    CallStarted,
    Cancelled,
    ChildUsageReported,
    Compacted,
    ConversationClaimed,
    Decided,
    GuardrailJudged,
    HandedOff,
    MessageReceived,
    ModelReplied,
    ModelRequestFailed,
    OfferedTool,
    Opened,
    Origin,
    OutputText,
    Refusal,
    RunOptions,
    StandingApproval,
    TerminationJudged,
    Usage,
)
from legato.core.limits import Limits
from legato.core.pending_requests import Pending
from legato.core.planner import (
    AbandonCall,
    CheckCall,
    CheckInput,
    CheckOutput,
    CheckTermination,
    ChildSessionStatus,
    ExternalEffect,
    ImmediateEffect,
    RequestModel,
    RunTool,
    SummariseHistory,
    TakeHandoff,
    derive_status,
    make_fact,
    make_plan,
    needs_input_check,
)
from legato.core.redaction import PositionRedactor, has_text
from legato.core.state import fold
from legato.core.workflow_graph import AgentRules, HandoffEdge, ToolRules, WorkflowGraph, make_handoff_tool_name

TOOLS = {
    tool.name: tool
    for tool in (
        ToolRules("open"),
        ToolRules("gated", needs_check=True),
        ToolRules("safe", idempotent=True),
        ToolRules("alone", alone=True),
        ToolRules("later", deferred=True),
    )
}
OPTIONS = (
    None,
    None,
    RunOptions((OfferedTool("theirs"),), digest="d"),
    RunOptions((OfferedTool("theirs"), OfferedTool("open")), required=True, digest="e"),
    RunOptions(typed=True, digest="f"),
)
VERDICTS = {
    "approval": ("approve", "approve", "edit", "reject"),
    "outcome": ("approve", "answer", "reject"),
    "limit": ("approve", "approve", "reject"),
    "result": ("answer", "reject"),
}


def make_random_graph(dice: Random) -> WorkflowGraph:
    """Return a random definition of two agents that may hand over to each other."""

    def agent(name: str, other: str) -> AgentRules:
        edge = HandoffEdge(name, other, make_handoff_tool_name(other), needs_approval=dice.random() < 0.2)
        return AgentRules(
            name,
            TOOLS,
            {edge.tool: edge},
            has_input_guardrails=dice.random() < 0.8,
            checks_output=dice.random() < 0.4,
            output_retries=dice.randrange(2),
            autonomous=dice.random() < 0.3,
            prompt="go on",
            prompt_limit=2,
            summarise_above=dice.choice((0, 0, 20)),
            keep_turns=1,
        )

    limits = {"turns": 4, "handoffs": 2, "same_edge": 1, "tool_calls": 3, "tokens": 150, "seconds": 0.2, "tool_rounds": 1}
    return WorkflowGraph(
        "w",
        {"a": agent("a", "b"), "b": agent("b", "a")},
        "a",
        Limits(**{name: value for name, value in limits.items() if dice.random() < 0.3}),
        has_termination_condition=dice.random() < 0.4,
        supersedes_pending=dice.random() < 0.4,
        restarts_each_run=dice.random() < 0.4,
        max_parallel_tools=dice.choice((1, 16)),
    )


class RandomConversation:
    """A conversation that grows by random steps."""

    def __init__(self, dice: Random, graph: WorkflowGraph) -> None:
        self.dice = dice
        self.graph = graph
        self.state = fold((), "s")
        self.at = 1_000
        self.epoch = 1
        self.late_outputs: list[CallReturned] = []  # outcomes that arrive after their calls timed out

    def record(self, fact: AnyFact) -> None:
        self.state.apply(fact)
        self.at += self.dice.randrange(40)

    def send_message(self) -> None:
        words = "hm " * self.dice.randrange(1, 12)
        options = self.dice.choice(OPTIONS)
        self.record(
            MessageReceived(at=self.at, content=words, awaits_guardrails=needs_input_check(self.state, self.graph), options=options)
        )

    def step(self) -> None:
        """Record one more random fact, or several."""
        dice, chance = self.dice, self.dice.random()
        waiting = [call for call in self.state.batch if call.pause]
        resumable = {RunTool(call.ref, len(call.attempts) + 1) for call in waiting if dice.random() < 0.5}
        missing = {call.ref for call in waiting if dice.random() < 0.1}
        plan = make_plan(self.state, self.graph, self.epoch, ChildSessionStatus(frozenset(resumable), frozenset(missing)))
        if chance < 0.07 or not (plan.effects or plan.requests):
            self.send_message()
        elif chance < 0.10:
            self.epoch += 1  # the driver died, and another one took over
        elif chance < 0.13 and derive_status(self.state, self.graph) in ("running", "pending", "failed"):
            self.record(Cancelled(at=self.at))
        elif chance < 0.15:
            origin = Origin("parent", self.state.length, dice.choice(("fork", "copy", "move")))
            self.record(Opened(at=self.at, ledger_id=f"fork{self.state.length:04}", workflow="w", origin=origin))
        elif chance < 0.18 and self.late_outputs:
            self.record_late_output()
        elif chance < 0.21:
            self.redact()
        elif plan.requests and (not plan.effects or dice.random() < 0.3):
            self.decide(dice.choice(plan.requests))
        else:
            self.perform(dice.choice(plan.effects))

    def record_late_output(self) -> None:
        fact = self.late_outputs.pop()
        call = self.state.find_call(fact.call)
        if call is not None and call.output is not None and not call.attempts[fact.attempt - 1].outcome_known:
            self.record(fact)

    def redact(self) -> None:
        """Redact some facts, whatever is in progress."""
        facts = self.state.facts
        with_text = [position for position, fact in enumerate(facts) if has_text(fact)]
        if not with_text:
            return
        chosen = self.dice.sample(with_text, min(len(with_text), self.dice.choice((1, 1, 2, 5))))
        redaction = PositionRedactor(frozenset(chosen), b"key", self.at, "asked for").redact(facts, len(facts), {})
        after = [redaction.replacements.get(position, fact) for position, fact in enumerate(facts)]
        self.state = fold([*after, *redaction.appended_facts], "s")

    def decide(self, request: Pending) -> None:
        verdict = self.dice.choice(VERDICTS[request.kind])
        always = request.kind == "approval" and verdict == "approve" and self.dice.random() < 0.3
        self.record(
            Decided(
                at=self.at,
                kind=request.kind,
                verdict=verdict,
                call=request.call,
                limit=request.limit,
                digest=request.digest,
                arguments='{"edited": 1}' if verdict == "edit" else "",
                output="a person says so" if verdict == "answer" else "",
                standing=StandingApproval(request.agent, request.tool) if always else None,
                options=self.dice.choice(OPTIONS),
            )
        )

    def perform(self, effect: ExternalEffect | ImmediateEffect) -> None:
        dice, state = self.dice, self.state
        match effect:
            case RequestModel(agent=agent):
                if not state.unchecked_messages:  # no model is requested while a message is unchecked
                    self.request_model(agent)
            case RunTool(call=ref, attempt=attempt):
                call = state.find_call(ref)
                assert call is not None
                if not call.open_attempt:
                    epoch = max(self.epoch, state.epoch)
                    self.record(CallStarted(at=self.at, call=ref, attempt=attempt, epoch=epoch, digest=digest_arguments(call.arguments)))
                elif call.call.tool == "safe" and dice.random() < 0.5:
                    self.pause(ref, attempt)
                else:
                    outcome = dice.choice(("ok", "ok", "error", "timeout"))
                    duration_ms = dice.randrange(80)
                    self.record(CallReturned(at=self.at, call=ref, attempt=attempt, output="out", status=outcome, duration_ms=duration_ms))
                    if outcome == "timeout":
                        self.late_outputs.append(
                            CallReturned(at=self.at + 500, call=ref, attempt=attempt, output="late", late=True, duration_ms=duration_ms)
                        )
            case CheckCall(call=ref):
                call = state.find_call(ref)
                assert call is not None
                if not call.guardrails_passed and dice.random() < 0.2:
                    self.record(
                        GuardrailJudged(
                            at=self.at, kind="tool", position=ref.position, index=ref.index, stop=dice.random() < 0.5, reason="no"
                        )
                    )
                else:
                    self.record(ApprovalChecked(at=self.at, call=ref, needed=dice.random() < 0.8, digest=digest_arguments(call.arguments)))
            case AbandonCall(call=ref):
                self.record(CallReturned(at=self.at, call=ref, status="superseded", output="abandoned"))
            case TakeHandoff(call=ref):
                self.record(HandedOff(at=self.at, call=ref, source=state.active_agent, target="b" if state.active_agent == "a" else "a"))
            case CheckInput(agent=agent, position=position):
                self.record(
                    GuardrailJudged(
                        at=self.at, kind="input", position=position, stop=dice.random() < 0.3, reason="no", guardrail="g", agent=agent
                    )
                )
            case CheckOutput(position=position):
                self.record(GuardrailJudged(at=self.at, kind="output", position=position, stop=dice.random() < 0.5, reason="bad"))
            case CheckTermination(position=position):
                self.record(TerminationJudged(at=self.at, position=position, stop=dice.random() < 0.2))
            case SummariseHistory(agent=agent, upto=upto):
                self.record(Compacted(at=self.at, agent=agent, upto=upto, summary="in short", usage=Usage(3, 1)))
            case _:
                self.record(make_fact(effect, self.at))

    def pause(self, ref: CallRef, attempt: int) -> None:
        """Pause a call: its child session has reported usage and cannot continue."""
        call = self.state.find_call(ref)
        before = dict(call.child_usage.agents)["inner"] if call is not None and call.child_usage is not None else Usage()
        spent = before + Usage(self.dice.randrange(9), self.dice.randrange(9))
        self.record(ChildUsageReported(at=self.at, call=ref, agents=(("inner", spent),)))
        reason = self.dice.choice(({}, {"error": "503"}, {"needed": Usage(7)}))
        self.record(
            CallPaused(at=self.at, call=ref, attempt=attempt, session="s/other", length=4, duration_ms=self.dice.randrange(80), **reason)
        )

    def request_model(self, agent: str) -> None:
        """Request a model; messages may arrive meanwhile."""
        dice, upto = self.dice, self.state.length - 1
        context_digest = self.state.context_digest or f"context {self.state.length}"
        conversation = f"conv_{self.state.length}" if dice.random() < 0.15 else ""
        if conversation:
            self.record(ConversationClaimed(at=self.at, agent=agent, conversation=conversation, upto=upto))
        for _ in range(dice.choice((0, 0, 0, 0, 1, 2))):
            self.send_message()
        duration_ms = dice.randrange(60)
        if dice.random() < 0.12:
            final = dice.random() < 0.5
            self.record(
                ModelRequestFailed(
                    at=self.at,
                    agent=agent,
                    context_digest=context_digest,
                    upto=upto,
                    error="503",
                    final=final,
                    usage=Usage(1),
                    duration_ms=duration_ms,
                )
            )
            return
        words = dice.choice((OutputText("w" * dice.randrange(1, 20)), Refusal("no")))
        tools = [*TOOLS, *self.graph.agents[agent].edges, "theirs", "nonsense"]
        calls = [Call(dice.choice(tools), '{"x": 1}') for _ in range(dice.choice((0, 0, 1, 2, 3)))]
        items = (words, *calls) if not calls or dice.random() < 0.5 else tuple(calls)
        finish = "length" if dice.random() < 0.05 else "stop"
        self.record(
            ModelReplied(
                at=self.at,
                agent=agent,
                context_digest=context_digest,
                upto=upto,
                items=items,
                usage=Usage(5, 2),
                duration_ms=duration_ms,
                finish=finish,
                base=conversation,
            )
        )


def make_random_ledger(dice: Random, graph: WorkflowGraph, length: int) -> list[AnyFact]:
    """Return a ledger of at least this many facts."""
    world = RandomConversation(dice, graph)
    world.record(Opened(at=world.at, ledger_id="aaaabbbbccccdddd", workflow="w"))
    world.send_message()
    while world.state.length < length:
        world.step()
    return world.state.facts
