"""Random ledgers: the plan is played with dice in the place of models, tools, user code and people. No event loop, no store."""

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
    Refusal,
    RunOptions,
    Standing,
    Usage,
    Words,
)
from legato.core.pending_requests import Pending
from legato.core.planner import (
    Admit,
    Bookkeeping,
    CallModel,
    ChildStatus,
    GiveUp,
    HandOver,
    JudgeInput,
    JudgeOutput,
    JudgeTermination,
    RunTool,
    Summarise,
    Work,
    fact_of,
    judges_input,
    plan,
    status,
)
from legato.core.redaction import Erasing, has_words
from legato.core.state import fold
from legato.core.workflow_graph import AgentRules, Edge, Graph, Limits, ToolRules, handoff_tool_name

TOOLS = {
    tool.name: tool
    for tool in (
        ToolRules("open"),
        ToolRules("gated", admission=True),
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


def random_graph(dice: Random) -> Graph:
    """Two agents who may hand over to each other, and whatever else a definition may say."""

    def agent(name: str, other: str) -> AgentRules:
        edge = Edge(name, other, handoff_tool_name(other), needs_approval=dice.random() < 0.2)
        return AgentRules(
            name,
            TOOLS,
            {edge.tool: edge},
            judges_input=dice.random() < 0.8,
            judges_output=dice.random() < 0.4,
            output_retries=dice.randrange(2),
            autonomous=dice.random() < 0.3,
            prompt="go on",
            prompt_limit=2,
            summarise_above=dice.choice((0, 0, 20)),
            keep_turns=1,
        )

    limits = {"turns": 4, "handoffs": 2, "same_edge": 1, "tool_calls": 3, "tokens": 150, "seconds": 0.2, "tool_rounds": 1}
    return Graph(
        "w",
        {"a": agent("a", "b"), "b": agent("b", "a")},
        "a",
        Limits(**{name: value for name, value in limits.items() if dice.random() < 0.3}),
        judges_termination=dice.random() < 0.4,
        supersede=dice.random() < 0.4,
        start_over=dice.random() < 0.4,
        parallel_tools=dice.choice((1, 16)),
    )


class World:
    """One conversation in the making."""

    def __init__(self, dice: Random, graph: Graph) -> None:
        self.dice = dice
        self.graph = graph
        self.state = fold((), "s")
        self.at = 1_000
        self.epoch = 1
        self.hanging: list[CallReturned] = []  # what will be known of attempts whose calls were answered as timed out

    def put(self, fact: AnyFact) -> None:
        self.state.apply(fact)
        self.at += self.dice.randrange(40)

    def say(self) -> None:
        words = "hm " * self.dice.randrange(1, 12)
        options = self.dice.choice(OPTIONS)
        self.put(MessageReceived(at=self.at, content=words, guarded=judges_input(self.state, self.graph), options=options))

    def step(self) -> None:
        """One more thing happens."""
        dice, chance = self.dice, self.dice.random()
        waiting = [call for call in self.state.batch if call.paused]
        awake = {RunTool(call.ref, len(call.attempts) + 1) for call in waiting if dice.random() < 0.5}
        missing = {call.ref for call in waiting if dice.random() < 0.1}
        now = plan(self.state, self.graph, self.epoch, ChildStatus(frozenset(awake), frozenset(missing)))
        if chance < 0.07 or not (now.effects or now.requests):
            self.say()
        elif chance < 0.10:
            self.epoch += 1  # the driver died, and another came
        elif chance < 0.13 and status(self.state, self.graph) in ("running", "pending", "failed"):
            self.put(Cancelled(at=self.at))
        elif chance < 0.15:
            origin = Origin("parent", self.state.length, dice.choice(("fork", "copy", "move")))
            self.put(Opened(at=self.at, ledger=f"fork{self.state.length:04}", workflow="w", origin=origin))
        elif chance < 0.18 and self.hanging:
            self.late()
        elif chance < 0.21:
            self.erase()
        elif now.requests and (not now.effects or dice.random() < 0.3):
            self.decide(dice.choice(now.requests))
        else:
            self.perform(dice.choice(now.effects))

    def late(self) -> None:
        fact = self.hanging.pop()
        call = self.state.call(fact.call)
        if call is not None and call.output is not None and not call.attempts[fact.attempt - 1].known:
            self.put(fact)

    def erase(self) -> None:
        """Somebody has words erased: whatever stands there, and whatever is going on."""
        facts = self.state.facts
        worded = [position for position, fact in enumerate(facts) if has_words(fact)]
        if not worded:
            return
        chosen = self.dice.sample(worded, min(len(worded), self.dice.choice((1, 1, 2, 5))))
        erased = Erasing(frozenset(chosen), b"key", self.at, "asked for").erased(facts, len(facts), {})
        after = [erased.replaced.get(position, fact) for position, fact in enumerate(facts)]
        self.state = fold([*after, *erased.added], "s")

    def decide(self, asked: Pending) -> None:
        verdict = self.dice.choice(VERDICTS[asked.kind])
        always = asked.kind == "approval" and verdict == "approve" and self.dice.random() < 0.3
        self.put(
            Decided(
                at=self.at,
                kind=asked.kind,
                verdict=verdict,
                call=asked.call,
                limit=asked.limit,
                digest=asked.digest,
                arguments='{"edited": 1}' if verdict == "edit" else "",
                output="a person says so" if verdict == "answer" else "",
                standing=Standing(asked.agent, asked.tool) if always else None,
                options=self.dice.choice(OPTIONS),
            )
        )

    def perform(self, effect: Work | Bookkeeping) -> None:
        dice, state = self.dice, self.state
        match effect:
            case CallModel(agent=agent):
                if not state.waiting:  # no model is asked while a message is being judged
                    self.ask(agent)
            case RunTool(call=ref, attempt=attempt):
                call = state.call(ref)
                assert call is not None
                if not call.running:
                    epoch = max(self.epoch, state.epoch)
                    self.put(CallStarted(at=self.at, call=ref, attempt=attempt, epoch=epoch, digest=digest_arguments(call.arguments)))
                elif call.call.tool == "safe" and dice.random() < 0.5:
                    self.pause(ref, attempt)
                else:
                    outcome = dice.choice(("ok", "ok", "error", "timeout"))
                    took = dice.randrange(80)
                    self.put(CallReturned(at=self.at, call=ref, attempt=attempt, output="out", status=outcome, took=took))
                    if outcome == "timeout":
                        self.hanging.append(CallReturned(at=self.at + 500, call=ref, attempt=attempt, output="late", late=True, took=took))
            case Admit(call=ref):
                call = state.call(ref)
                assert call is not None
                if not call.guarded and dice.random() < 0.2:
                    self.put(
                        GuardrailJudged(
                            at=self.at, kind="tool", position=ref.position, index=ref.index, stop=dice.random() < 0.5, words="no"
                        )
                    )
                else:
                    self.put(ApprovalChecked(at=self.at, call=ref, needed=dice.random() < 0.8, digest=digest_arguments(call.arguments)))
            case GiveUp(call=ref):
                self.put(CallReturned(at=self.at, call=ref, status="superseded", output="given up"))
            case HandOver(call=ref):
                self.put(HandedOff(at=self.at, call=ref, source=state.active, target="b" if state.active == "a" else "a"))
            case JudgeInput(agent=agent, position=position):
                self.put(
                    GuardrailJudged(at=self.at, kind="input", position=position, stop=dice.random() < 0.3, words="no", by="g", agent=agent)
                )
            case JudgeOutput(position=position):
                self.put(GuardrailJudged(at=self.at, kind="output", position=position, stop=dice.random() < 0.5, words="bad"))
            case JudgeTermination(position=position):
                self.put(GuardrailJudged(at=self.at, kind="termination", position=position, stop=dice.random() < 0.2))
            case Summarise(agent=agent, upto=upto):
                self.put(Compacted(at=self.at, agent=agent, upto=upto, summary="in short", usage=Usage(3, 1)))
            case _:
                self.put(fact_of(effect, self.at))

    def pause(self, ref: CallRef, attempt: int) -> None:
        """A child session has used something, and cannot go on."""
        spent = Usage(self.dice.randrange(9), self.dice.randrange(9))
        self.put(ChildUsageReported(at=self.at, call=ref, agents=(("inner", spent),)))
        why = self.dice.choice(({}, {"error": "503"}, {"needed": Usage(7)}))
        self.put(CallPaused(at=self.at, call=ref, attempt=attempt, session="s/other", length=4, took=self.dice.randrange(80), **why))

    def ask(self, agent: str) -> None:
        """A model is asked; something may be said while it thinks."""
        dice, upto = self.dice, self.state.length - 1
        frame = self.state.frame or f"frame {self.state.length}"
        conversation = f"conv_{self.state.length}" if dice.random() < 0.15 else ""
        if conversation:
            self.put(ConversationClaimed(at=self.at, agent=agent, conversation=conversation, upto=upto))
        for _ in range(dice.choice((0, 0, 0, 0, 1, 2))):
            self.say()
        took = dice.randrange(60)
        if dice.random() < 0.12:
            final = dice.random() < 0.5
            self.put(
                ModelRequestFailed(at=self.at, agent=agent, frame=frame, upto=upto, error="503", final=final, usage=Usage(1), took=took)
            )
            return
        words = dice.choice((Words("w" * dice.randrange(1, 20)), Refusal("no")))
        tools = [*TOOLS, *self.graph.agents[agent].edges, "theirs", "nonsense"]
        calls = [Call(dice.choice(tools), '{"x": 1}') for _ in range(dice.choice((0, 0, 1, 2, 3)))]
        items = (words, *calls) if not calls or dice.random() < 0.5 else tuple(calls)
        finish = "length" if dice.random() < 0.05 else "stop"
        self.put(
            ModelReplied(
                at=self.at, agent=agent, frame=frame, upto=upto, items=items, usage=Usage(5, 2), took=took, finish=finish, base=conversation
            )
        )


def random_ledger(dice: Random, graph: Graph, length: int) -> list[AnyFact]:
    """So many facts, or a few more."""
    world = World(dice, graph)
    world.put(Opened(at=world.at, ledger="aaaabbbbccccdddd", workflow="w"))
    world.say()
    while world.state.length < length:
        world.step()
    return world.state.facts
