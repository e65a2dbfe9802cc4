"""Short functions that build facts for the core's tests, with a clock that counts."""

from itertools import count

from legato.core.digests import digest_arguments
from legato.core.facts import (
    AnyFact,
    ApprovalChecked,
    Call,
    CallPaused,
    CallRef,
    CallReturned,
    CallStarted,
    Decided,
    HandedOff,
    MessageReceived,
    ModelReplied,
    Opened,
    OutputText,
    ReplyItem,
)
from legato.core.limits import Limits
from legato.core.state import State, fold
from legato.core.workflow_graph import AgentRules, HandoffEdge, ToolRules, WorkflowGraph, make_handoff_tool_name

_clock = count(1_000)

ARGS = '{"x": 1}'


def opening(**more: object) -> Opened:
    return Opened(at=next(_clock), ledger_id="aaaabbbbccccdddd", workflow="w", **more)


def message(text: str = "hi", key: str = "") -> MessageReceived:
    return MessageReceived(at=next(_clock), content=text, key=key)


def reply(agent: str, upto: int, *items: ReplyItem | str, **more: object) -> ModelReplied:
    spoken = tuple(OutputText(item) if isinstance(item, str) else item for item in items)
    return ModelReplied(at=next(_clock), agent=agent, context_digest="f", upto=upto, items=spoken, **more)


def call(tool: str = "t", arguments: str = ARGS) -> Call:
    return Call(tool, arguments)


def handoff_call(target: str) -> Call:
    return Call(make_handoff_tool_name(target), "{}")


def approval_check(position: int, index: int = 0, needed: bool = True, arguments: str = ARGS) -> ApprovalChecked:
    return ApprovalChecked(at=next(_clock), call=CallRef(position, index), needed=needed, digest=digest_arguments(arguments))


def decision(position: int, index: int = 0, verdict: str = "approve", kind: str = "approval", **more: object) -> Decided:
    more.setdefault("digest", digest_arguments(ARGS))
    return Decided(at=next(_clock), kind=kind, verdict=verdict, call=CallRef(position, index), **more)


def start(position: int, index: int = 0, attempt: int = 1, epoch: int = 1, digest: str = "") -> CallStarted:
    return CallStarted(at=next(_clock), call=CallRef(position, index), attempt=attempt, epoch=epoch, digest=digest)


def output(position: int, index: int = 0, attempt: int = 1, output: str = "out", **more: object) -> CallReturned:
    return CallReturned(at=next(_clock), call=CallRef(position, index), attempt=attempt, output=output, **more)


def pause(position: int, index: int = 0, attempt: int = 1, session: str = "s/key", length: int = 4, **more: object) -> CallPaused:
    call = CallRef(position, index)
    return CallPaused(at=next(_clock), call=call, attempt=attempt, session=session, length=length, **more)


def handoff_taken(position: int, index: int, source: str, target: str) -> HandedOff:
    return HandedOff(at=next(_clock), call=CallRef(position, index), source=source, target=target)


def fold_facts(*facts: AnyFact) -> State:
    return fold(facts, "s")


def make_graph(*tools: ToolRules, **more: object) -> WorkflowGraph:
    """Return a graph of two agents, a and b, that may hand over to each other; a has the tools."""
    edges = {name: HandoffEdge("a" if name == "b" else "b", name, make_handoff_tool_name(name)) for name in ("a", "b")}
    agents = {
        "a": AgentRules("a", {tool.name: tool for tool in tools}, {edges["b"].tool: edges["b"]}),
        "b": AgentRules("b", {}, {edges["a"].tool: edges["a"]}),
    }
    more.setdefault("limits", Limits())
    return WorkflowGraph("w", agents, "a", **more)
