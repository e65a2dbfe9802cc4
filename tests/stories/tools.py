"""Stories of tools: good, bad and strange."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from legato import Agent, HandoffBuilder, ToolContext, Workflow, tool
from legato.core.facts import Call, CallReturned, Decided, Words
from legato.core.view import Request
from legato.models import Reply
from legato.testing import ScriptedModel, call, handoff
from legato.testing.story import Story, Told, World
from tests.stories.checking import nth_call, outputs
from tests.stories.telling import done, story

STORIES: dict[str, Story] = {}

# -- 25: a tool raises, returns too much, returns what is not JSON -----------------------------------------------------

LARGE = 300_000


class Opaque:
    """Something that is not JSON."""


def strange_desk(world: World) -> Workflow:
    @tool
    async def burst(ctx: ToolContext[Any]) -> str:
        world.did(ctx, "burst")
        raise LookupError("no such order")

    @tool(idempotent=True)
    async def large(ctx: ToolContext[Any]) -> str:
        world.did(ctx, "large")
        return "x" * LARGE

    @tool(idempotent=True)
    async def opaque(ctx: ToolContext[Any]) -> object:
        world.did(ctx, "opaque")
        return {"it": Opaque()}

    @tool(idempotent=True)
    async def nothing(ctx: ToolContext[Any]) -> None:
        world.did(ctx, "nothing")

    @tool
    async def fine(ctx: ToolContext[Any]) -> str:
        return done(world, ctx, "fine")

    tools = [burst, large, opaque, nothing, fine]
    model = ScriptedModel(by_agent={"clerk": [[call(each.name) for each in tools], "I see."]})
    return HandoffBuilder("strange", [Agent("clerk", model=model, tools=tools)]).build()


async def each_was_answered(told: Told, requests: list[Request]) -> None:
    burst, large, opaque, nothing, fine = outputs(requests[1])
    lost = told.world.times("burst") and "LookupError" not in burst
    assert burst == "LookupError: no such order" or (lost and burst == "burst")
    assert large.startswith("x" * 1000)
    assert len(large) < LARGE
    assert str(LARGE) in large
    assert "Opaque" in opaque
    assert nothing == "(no output)"
    assert fine == "fine"
    assert told.world.times("fine") == told.world.times("burst") == 1
    (whole,) = [fact for fact in told.session.facts if isinstance(fact, CallReturned) and fact.full]
    assert await told.session.store.content(told.session.id, whole.full) == b"x" * LARGE


STORIES["a tool raises, another returns 300 KB, others no JSON and nothing: each is answered, siblings keep their outputs"] = story(
    strange_desk, ["Go"], each_was_answered
)

# -- 26: calls that cannot run -----------------------------------------------------------------------------------------


def mistaken(world: World) -> Workflow:
    @tool
    async def refund(order: str, cents: int, ctx: ToolContext[Any]) -> str:
        return done(world, ctx, f"refunded {cents} on {order}")

    wrong = [
        call("refnud", order="7", cents=1),
        Call("refund", '{"order": "7", "cents": '),
        call("refund", order="7", cents="a lot"),
        call("refund", order="7"),
        call("refund", order="7", cents=1, tip=5),
        Call("refund", "[1, 2]"),
    ]
    model = ScriptedModel(by_agent={"refunds": [wrong, call("refund", order="7", cents=250), "Refunded."]})
    return HandoffBuilder("desk", [Agent("refunds", model=model, tools=[refund])]).build()


def told_precisely(told: Told, requests: list[Request]) -> None:
    name, broken, type_, missing, extra, shape = outputs(requests[1])
    assert "no tool named 'refnud'" in name
    assert "refund" in name.replace("refnud", "")
    assert "JSON" in broken
    assert "cents" in type_
    assert "cents" in missing
    assert "tip" in extra
    assert shape
    assert outputs(requests[2])[-1] == "refunded 250 on 7"
    assert [deed for _, deed in told.world.deeds] == ["refunded 250 on 7"]


STORIES["an unknown tool, broken JSON, wrong types, missing and extra arguments: the model is told precisely, and tries again"] = story(
    mistaken, ["Refund 2.50 on order 7"], told_precisely
)


def cut_short(world: World) -> Workflow:
    @tool
    async def write(text: str, ctx: ToolContext[Any]) -> str:
        return done(world, ctx, f"wrote {text}")

    def reply(seen: Request) -> Any:
        if seen.turn == 0:
            items = (Words("Writing."), Call("write", '{"text": "whole"}'), Call("write", '{"text": "half"}'))
            return Reply(items=items, finish="length")
        return call("write", text="rest") if seen.turn == 1 else "Written."

    return HandoffBuilder("write", [Agent("writer", model=ScriptedModel(reply), tools=[write])]).build()


def half_was_not_run(told: Told, requests: list[Request]) -> None:
    whole, half = outputs(requests[1])
    assert whole == "wrote whole"
    assert "cut off" in half
    assert told.world.times("wrote half") == 0
    assert told.world.times("wrote whole") == told.world.times("wrote rest") == 1


STORIES["a reply cut short in the middle of a call: that call is never run, even if what is left of it looks whole"] = story(
    cut_short, ["Write"], half_was_not_run
)

# -- more --------------------------------------------------------------------------------------------------------------


def sync_desk(world: World) -> Workflow:
    @tool
    def add(a: int, b: int, ctx: ToolContext[Any]) -> int:
        world.did(ctx, str(a + b))
        return a + b

    @tool
    def explode(ctx: ToolContext[Any]) -> int:
        world.did(ctx, "integer division or modulo by zero")
        return 1 // 0

    @tool
    def leave(ctx: ToolContext[Any]) -> str:
        world.did(ctx, "SystemExit")
        raise SystemExit(3)

    batch = [call("add", a=1, b=2), call("explode"), call("leave"), call("add", a=3, b=4)]
    model = ScriptedModel(by_agent={"calculator": [batch, "3 and 7."]})
    return HandoffBuilder("sums", [Agent("calculator", model=model, tools=[add, explode, leave])]).build()


def threads_are_fine(told: Told, requests: list[Request]) -> None:
    three, explosion, leaving, seven = outputs(requests[1])
    assert (three, seven) == ("3", "7")
    assert "modulo by zero" in explosion
    assert "SystemExit" in leaving
    assert [told.world.times(sum_) for sum_ in ("3", "7")] == [1, 1]


STORIES["sync tools run beside each other; one that raises, and one that tries to end the process, harm nobody"] = story(
    sync_desk, ["Add"], threads_are_fine
)


def idempotent_desk(world: World) -> Workflow:
    @tool(idempotent=True)
    async def put(value: str, ctx: ToolContext[Any]) -> str:
        return done(world, ctx, f"put {value} by {ctx.idempotency_key}")

    @tool
    async def add(value: str, ctx: ToolContext[Any]) -> str:
        return done(world, ctx, f"added {value}")

    model = ScriptedModel(by_agent={"clerk": [[call("put", value="a"), call("add", value="b")], "Stored."]})
    return HandoffBuilder("store", [Agent("clerk", model=model, tools=[put, add])]).build()


def one_key_per_call(told: Told, requests: list[Request]) -> None:
    puts = {(key, deed) for key, deed in told.world.deeds if deed.startswith("put")}
    assert len(puts) == 1  # however often it was started
    ((key, deed),) = puts
    assert deed == f"put a by {key}"
    assert outputs(requests[1]) == [deed, "added b"]
    assert told.world.times("added b") == 1
    facts = told.session.facts
    decisions = [fact for fact in facts if isinstance(fact, Decided) and fact.call]
    assert not any(fact.kind == "outcome" and nth_call(facts, fact.call) == 0 for fact in decisions)


STORIES["an idempotent tool may be started again, always with the same key; another one never is, unasked"] = story(
    idempotent_desk, ["Store"], one_key_per_call
)


def alone_desk(world: World) -> Workflow:
    running: list[str] = []

    def beside(name: str) -> str:
        return ",".join(sorted(set(running) - {name})) or "nobody"

    async def work(name: str, ctx: ToolContext[Any]) -> str:
        running.append(name)
        try:
            for _ in range(5):
                await asyncio.sleep(0)
            with_whom = beside(name)
        finally:
            running.remove(name)
        return done(world, ctx, f"{name} beside {with_whom}")

    @tool
    async def left(ctx: ToolContext[Any]) -> str:
        return await work("left", ctx)

    @tool(alone=True)
    async def lonely(ctx: ToolContext[Any]) -> str:
        return await work("lonely", ctx)

    @tool
    async def right(ctx: ToolContext[Any]) -> str:
        return await work("right", ctx)

    model = ScriptedModel(by_agent={"a": [[call("left"), call("lonely"), call("right")], "Done."]})
    return HandoffBuilder("alone", [Agent("a", model=model, tools=[left, lonely, right])]).build()


def ran_alone(told: Told, requests: list[Request]) -> None:
    assert "lonely beside nobody" in outputs(requests[1])
    assert len(outputs(requests[1])) == len(told.world.deeds) == 3


STORIES["a tool that asks to run alone runs beside nobody, and its siblings run before and after it"] = story(alone_desk, ["Go"], ran_alone)


def agent_as_tool(world: World) -> Workflow:
    @tool(idempotent=True)  # an agent that works as a tool has nobody to ask about a lost outcome
    async def measure(what: str, ctx: ToolContext[Any]) -> str:
        return done(world, ctx, f"{what} is 3 m long")

    helper = Agent(
        "surveyor",
        model=ScriptedModel(by_agent={"surveyor": [call("measure", what="the wall"), "The wall is three metres long."]}),
        tools=[measure],
        description="Measures things.",
    )
    script = {"builder": [call("ask_surveyor", task="How long is the wall?"), handoff("painter")], "painter": ["Three metres of paint."]}
    model = ScriptedModel(by_agent=script)
    builder = Agent("builder", model=model, tools=[helper.as_tool()])
    return HandoffBuilder("house", [builder, Agent("painter", model=model)]).build()


async def helper_answered(told: Told, requests: list[Request]) -> None:
    assert outputs(requests[1]) == ["The wall is three metres long."]
    assert outputs(requests[2])[0] == "The wall is three metres long."
    assert len(set(told.world.deeds)) == 1
    store, mine = told.session.store, told.session.id
    (name,) = [info.ledger for info in await store.list() if info.ledger.startswith(f"{mine}/")]
    inner = await store.read(name)
    assert sum(type(fact).__name__ == "MessageReceived" for fact in inner) == 1  # the task was delivered once, in however many lives
    assert json.dumps([message.text for message in requests[2].messages]).count("How long is the wall?") == 0


STORIES["an agent as a tool of another works in a conversation of its own and returns its reply"] = story(
    agent_as_tool, ["Paint the wall"], helper_answered
)
