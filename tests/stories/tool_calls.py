"""Stories of tools: good, bad and strange."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from legato import Agent, HandoffBuilder, ToolContext, Workflow, tool
from legato.core.facts import Call, CallReturned, Decided, OutputText
from legato.core.view import ModelRequest
from legato.models import ModelReply
from legato.testing import ScriptedModel, call, handoff
from legato.testing.story import Story, StoryResult, World
from tests.stories.conversation_checks import find_call_number, list_outputs
from tests.stories.story_builder import do_deed, make_story

STORIES: dict[str, Story] = {}

# -- 25: a tool raises, returns too much, returns what is not JSON -----------------------------------------------------

LARGE_OUTPUT_CHARS = 300_000


class Opaque:
    """A value that is not JSON."""


def build_strange_desk(world: World) -> Workflow:
    @tool
    async def burst(ctx: ToolContext[Any]) -> str:
        world.record_effect(ctx, "burst")
        raise LookupError("no such order")

    @tool(idempotent=True)
    async def large(ctx: ToolContext[Any]) -> str:
        world.record_effect(ctx, "large")
        return "x" * LARGE_OUTPUT_CHARS

    @tool(idempotent=True)
    async def opaque(ctx: ToolContext[Any]) -> object:
        world.record_effect(ctx, "opaque")
        return {"it": Opaque()}

    @tool(idempotent=True)
    async def nothing(ctx: ToolContext[Any]) -> None:
        world.record_effect(ctx, "nothing")

    @tool
    async def fine(ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, "fine")

    tools = [burst, large, opaque, nothing, fine]
    model = ScriptedModel(by_agent={"clerk": [[call(each.name) for each in tools], "I see."]})
    return HandoffBuilder("strange", [Agent("clerk", model=model, tools=tools)]).build()


async def check_each_call_is_answered(result: StoryResult, requests: list[ModelRequest]) -> None:
    burst, large, opaque, nothing, fine = list_outputs(requests[1])
    lost = result.world.count("burst") and "LookupError" not in burst
    assert burst == "LookupError: no such order" or (lost and burst == "burst")
    assert large.startswith("x" * 1000)
    assert len(large) < LARGE_OUTPUT_CHARS
    assert str(LARGE_OUTPUT_CHARS) in large
    assert "Opaque" in opaque
    assert nothing == "(no output)"
    assert fine == "fine"
    assert result.world.count("fine") == result.world.count("burst") == 1
    (whole,) = [fact for fact in result.session.facts if isinstance(fact, CallReturned) and fact.full_output_digest]
    assert await result.session.store.content(result.session.id, whole.full_output_digest) == b"x" * LARGE_OUTPUT_CHARS


STORIES["a tool raises, another returns 300 KB, others no JSON and nothing: each is answered, siblings keep their outputs"] = make_story(
    build_strange_desk, ["Go"], check_each_call_is_answered
)

# -- 26: calls that cannot run -----------------------------------------------------------------------------------------


def build_mistaken(world: World) -> Workflow:
    @tool
    async def refund(order: str, cents: int, ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, f"refunded {cents} on {order}")

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


def check_errors_are_precise(result: StoryResult, requests: list[ModelRequest]) -> None:
    name, broken, type_, missing, extra, shape = list_outputs(requests[1])
    assert "no tool named 'refnud'" in name
    assert "refund" in name.replace("refnud", "")
    assert "JSON" in broken
    assert "cents" in type_
    assert "cents" in missing
    assert "tip" in extra
    assert shape
    assert list_outputs(requests[2])[-1] == "refunded 250 on 7"
    assert [deed for _, deed in result.world.effects] == ["refunded 250 on 7"]


STORIES["an unknown tool, broken JSON, wrong types, missing and extra arguments: the model is told precisely, and tries again"] = (
    make_story(build_mistaken, ["Refund 2.50 on order 7"], check_errors_are_precise)
)


def build_cut_off(world: World) -> Workflow:
    @tool
    async def write(text: str, ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, f"wrote {text}")

    def reply(seen: ModelRequest) -> Any:
        if seen.reply_count == 0:
            items = (OutputText("Writing."), Call("write", '{"text": "whole"}'), Call("write", '{"text": "half"}'))
            return ModelReply(items=items, finish="length")
        return call("write", text="rest") if seen.reply_count == 1 else "Written."

    return HandoffBuilder("write", [Agent("writer", model=ScriptedModel(reply), tools=[write])]).build()


def check_half_call_is_not_run(result: StoryResult, requests: list[ModelRequest]) -> None:
    whole, half = list_outputs(requests[1])
    assert whole == "wrote whole"
    assert "cut off" in half
    assert result.world.count("wrote half") == 0
    assert result.world.count("wrote whole") == result.world.count("wrote rest") == 1


STORIES["a reply cut short in the middle of a call: that call is never run, even if what is left of it looks whole"] = make_story(
    build_cut_off, ["Write"], check_half_call_is_not_run
)

# -- more --------------------------------------------------------------------------------------------------------------


def build_sync_desk(world: World) -> Workflow:
    @tool
    def add(a: int, b: int, ctx: ToolContext[Any]) -> int:
        world.record_effect(ctx, str(a + b))
        return a + b

    @tool
    def explode(ctx: ToolContext[Any]) -> int:
        world.record_effect(ctx, "integer division or modulo by zero")
        return 1 // 0

    @tool
    def leave(ctx: ToolContext[Any]) -> str:
        world.record_effect(ctx, "SystemExit")
        raise SystemExit(3)

    batch = [call("add", a=1, b=2), call("explode"), call("leave"), call("add", a=3, b=4)]
    model = ScriptedModel(by_agent={"calculator": [batch, "3 and 7."]})
    return HandoffBuilder("sums", [Agent("calculator", model=model, tools=[add, explode, leave])]).build()


def check_sync_tools_are_isolated(result: StoryResult, requests: list[ModelRequest]) -> None:
    three, explosion, leaving, seven = list_outputs(requests[1])
    assert (three, seven) == ("3", "7")
    assert "modulo by zero" in explosion
    assert "SystemExit" in leaving
    assert [result.world.count(sum_) for sum_ in ("3", "7")] == [1, 1]


STORIES["sync tools run beside each other; one that raises, and one that tries to end the process, harm nobody"] = make_story(
    build_sync_desk, ["Add"], check_sync_tools_are_isolated
)


def build_idempotent_desk(world: World) -> Workflow:
    @tool(idempotent=True)
    async def put(value: str, ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, f"put {value} by {ctx.idempotency_key}")

    @tool
    async def add(value: str, ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, f"added {value}")

    model = ScriptedModel(by_agent={"clerk": [[call("put", value="a"), call("add", value="b")], "Stored."]})
    return HandoffBuilder("store", [Agent("clerk", model=model, tools=[put, add])]).build()


def check_one_key_per_call(result: StoryResult, requests: list[ModelRequest]) -> None:
    puts = {(key, deed) for key, deed in result.world.effects if deed.startswith("put")}
    assert len(puts) == 1  # for any number of starts
    ((key, deed),) = puts
    assert deed == f"put a by {key}"
    assert list_outputs(requests[1]) == [deed, "added b"]
    assert result.world.count("added b") == 1
    facts = result.session.facts
    decisions = [fact for fact in facts if isinstance(fact, Decided) and fact.call]
    assert not any(fact.kind == "outcome" and find_call_number(facts, fact.call) == 0 for fact in decisions)


STORIES["an idempotent tool may be started again, always with the same key; another one never is, unasked"] = make_story(
    build_idempotent_desk, ["Store"], check_one_key_per_call
)


def build_alone_desk(world: World) -> Workflow:
    running: list[str] = []

    def list_others(name: str) -> str:
        return ",".join(sorted(set(running) - {name})) or "nobody"

    async def work(name: str, ctx: ToolContext[Any]) -> str:
        running.append(name)
        try:
            for _ in range(5):
                await asyncio.sleep(0)
            others = list_others(name)
        finally:
            running.remove(name)
        return do_deed(world, ctx, f"{name} beside {others}")

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


def check_tool_ran_alone(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert "lonely beside nobody" in list_outputs(requests[1])
    assert len(list_outputs(requests[1])) == len(result.world.effects) == 3


STORIES["a tool that asks to run alone runs beside nobody, and its siblings run before and after it"] = make_story(
    build_alone_desk, ["Go"], check_tool_ran_alone
)


def build_agent_as_tool(world: World) -> Workflow:
    @tool(idempotent=True)  # so that a lost outcome needs no person's answer
    async def measure(what: str, ctx: ToolContext[Any]) -> str:
        return do_deed(world, ctx, f"{what} is 3 m long")

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


async def check_helper_answers(result: StoryResult, requests: list[ModelRequest]) -> None:
    assert list_outputs(requests[1]) == ["The wall is three metres long."]
    assert list_outputs(requests[2])[0] == "The wall is three metres long."
    assert len(set(result.world.effects)) == 1
    store, mine = result.session.store, result.session.id
    (name,) = [info.ledger for info in await store.list() if info.ledger.startswith(f"{mine}/")]
    inner = await store.read(name)
    assert sum(type(fact).__name__ == "MessageReceived" for fact in inner) == 1  # the task was delivered once, in however many lives
    assert json.dumps([message.text for message in requests[2].messages]).count("How long is the wall?") == 0


STORIES["an agent as a tool of another works in a conversation of its own and returns its reply"] = make_story(
    build_agent_as_tool, ["Paint the wall"], check_helper_answers
)
