"""Small ledgers for the core's tests: facts are made by hand, with a clock that counts."""

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
    Item,
    MessageReceived,
    ModelReplied,
    Opened,
    Words,
)
from legato.core.state import State, fold
from legato.core.workflow_graph import AgentRules, Edge, Graph, Limits, ToolRules, handoff_tool_name

_clock = count(1_000)

ARGS = '{"x": 1}'


def opened(**more: object) -> Opened:
    return Opened(at=next(_clock), ledger="aaaabbbbccccdddd", workflow="w", **more)


def said(text: str = "hi", key: str = "") -> MessageReceived:
    return MessageReceived(at=next(_clock), content=text, key=key)


def answered(agent: str, upto: int, *items: Item | str, **more: object) -> ModelReplied:
    spoken = tuple(Words(item) if isinstance(item, str) else item for item in items)
    return ModelReplied(at=next(_clock), agent=agent, frame="f", upto=upto, items=spoken, **more)


def call(tool: str = "t", arguments: str = ARGS) -> Call:
    return Call(tool, arguments)


def handoff(target: str) -> Call:
    return Call(handoff_tool_name(target), "{}")


def gated(position: int, index: int = 0, needed: bool = True, arguments: str = ARGS) -> ApprovalChecked:
    return ApprovalChecked(at=next(_clock), call=CallRef(position, index), needed=needed, digest=digest_arguments(arguments))


def decided(position: int, index: int = 0, verdict: str = "approve", kind: str = "approval", **more: object) -> Decided:
    more.setdefault("digest", digest_arguments(ARGS))
    return Decided(at=next(_clock), kind=kind, verdict=verdict, call=CallRef(position, index), **more)


def started(position: int, index: int = 0, attempt: int = 1, epoch: int = 1, digest: str = "") -> CallStarted:
    return CallStarted(at=next(_clock), call=CallRef(position, index), attempt=attempt, epoch=epoch, digest=digest)


def returned(position: int, index: int = 0, attempt: int = 1, output: str = "out", **more: object) -> CallReturned:
    return CallReturned(at=next(_clock), call=CallRef(position, index), attempt=attempt, output=output, **more)


def paused(position: int, index: int = 0, attempt: int = 1, session: str = "s/key", length: int = 4, **more: object) -> CallPaused:
    call = CallRef(position, index)
    return CallPaused(at=next(_clock), call=call, attempt=attempt, session=session, length=length, **more)


def handed_off(position: int, index: int, source: str, target: str) -> HandedOff:
    return HandedOff(at=next(_clock), call=CallRef(position, index), source=source, target=target)


def folded(*facts: AnyFact) -> State:
    return fold(facts, "s")


def graph(*tools: ToolRules, **more: object) -> Graph:
    """Two agents, a and b, who may hand over to each other; a has the tools."""
    edges = {name: Edge("a" if name == "b" else "b", name, handoff_tool_name(name)) for name in ("a", "b")}
    agents = {
        "a": AgentRules("a", {tool.name: tool for tool in tools}, {edges["b"].tool: edges["b"]}),
        "b": AgentRules("b", {}, {edges["a"].tool: edges["a"]}),
    }
    more.setdefault("limits", Limits())
    return Graph("w", agents, "a", **more)
