"""Wrong arguments to what users call: each is refused by an error of Legato's that says what is wrong, and nothing is written."""

import asyncio
import inspect

import pytest

from legato import Agent, File, HandoffBuilder, Image, Limits, Message, Text, file, guardrail, history, image, tool
from legato.errors import BadInput, BuildError, CodecError, LegatoError, NotPending
from legato.stores import MemoryStore, SQLiteStore
from legato.testing import ScriptedModel, call

SURROGATE = "\ud800"


@tool(needs_approval=True)
async def pay() -> str:
    return "paid"


def clerk(**more):
    return Agent("clerk", model=ScriptedModel(lambda seen: "ok"), **more)


def desk():
    model = ScriptedModel(lambda seen: call("pay") if seen.messages[-1].role == "user" else "ok")
    return HandoffBuilder("w", [Agent("clerk", model=model, tools=[pay])]).build()


async def settled(given):
    """What a call gives, awaited if it can be."""
    return await asyncio.wait_for(given, 60) if inspect.isawaitable(given) else given


TO_A_SESSION = {
    "a key that is a list": lambda session, asked: session.run("x", key=["a"]),
    "a key that is a number": lambda session, asked: session.run("x", key=5),
    "a key that is half a character": lambda session, asked: session.run("x", key=SURROGATE),
    "nothing to say": lambda session, asked: session.run(None),
    "words that are a generator of numbers": lambda session, asked: session.run(each for each in [1]),
    "words in a list in a list": lambda session, asked: session.run([["a"]]),
    "text that is a number": lambda session, asked: session.run(Text(5)),
    "a message without parts": lambda session, asked: session.run(Message(parts=5)),
    "a picture of nothing": lambda session, asked: session.run([image(None)]),
    "a picture that is a bytearray": lambda session, asked: session.run([image(bytearray(b"a"))]),
    "a picture at half a character": lambda session, asked: session.run([image(SURROGATE)]),
    "a picture whose digest is a list": lambda session, asked: session.run(Image(digest=["a"])),
    "a document without a type": lambda session, asked: session.run([file(b"a", media_type=None)]),
    "a document whose name is a number": lambda session, asked: session.run(File(name=5, url="https://x")),
    "an approval with a list as its key": lambda session, asked: session.approve(asked, key=["a"]),
    "an approval of nothing": lambda session, asked: session.approve(None),
    "an approval of a list": lambda session, asked: session.approve(["a"]),
    "a rejection in no words": lambda session, asked: session.reject(asked, 5),
    "a set of arguments": lambda session, asked: session.edit(asked, {1, 2}),
    "a list of arguments": lambda session, asked: session.edit(asked, [1]),
    "an argument that is half a character": lambda session, asked: session.edit(asked, {"a": SURROGATE}),
    "an argument that is not a number": lambda session, asked: session.edit(asked, {"a": float("nan")}),
    "a result of what waits for approval": lambda session, asked: session.answer(asked, 1),
    "a reason to cancel that is a number": lambda session, asked: session.cancel(5),
    "a standing approval of a list": lambda session, asked: session.revoke(["a"], "b"),
    "a standing approval of a number": lambda session, asked: session.revoke("a", 5),
    "the reply named x": lambda session, asked: session.seen("x"),
    "the reply of no number": lambda session, asked: session.seen(None),
    "the reply number 0.0": lambda session, asked: session.seen(0.0),
    "a fork named by a number": lambda session, asked: session.fork(id=5),
    "a fork at 1.0": lambda session, asked: session.fork(at=1.0),
    "a fork at True": lambda session, asked: session.fork(at=True),
    "a fork before the beginning": lambda session, asked: session.fork(at=-1),
    "a signature by text": lambda session, asked: session.to_string(sign_with="k"),
    "a signature by nothing": lambda session, asked: session.to_string(sign_with=b""),
    "a context written down by a number": lambda session, asked: session.to_string(serialize_context=5),
    "another session by a number": lambda session, asked: session.workflow.run("x", session_id=5),
    "another session by half a character": lambda session, asked: session.workflow.session(SURROGATE).refresh(),
    "another session without a name": lambda session, asked: session.workflow.session("").refresh(),
    "another session in a store that is text": lambda session, asked: session.workflow.session("z", store="x").refresh(),
    "another session in a store that is a class": lambda session, asked: session.workflow.session("z", store=MemoryStore).refresh(),
}


@pytest.mark.parametrize("given", TO_A_SESSION.values(), ids=TO_A_SESSION)
async def test_a_session_refuses_it_and_stays_as_it_was(given):
    session = desk().session("s")
    await session.run("Hi")
    facts = session.facts
    with pytest.raises((BadInput, NotPending)):
        await settled(given(session, session.pending[0]))
    assert (await session.refresh()).facts == facts
    assert session.status == "pending"


def unsigned(text):
    return text.partition("\n")[0]


TO_LOAD = {
    "a key that is text": (BadInput, lambda workflow, text: workflow.load(text, verify_with="k")),
    "a key without a byte": (BadInput, lambda workflow, text: workflow.load(text, verify_with=b"")),
    "bytes": (BadInput, lambda workflow, text: workflow.load(b"abc")),
    "nothing": (BadInput, lambda workflow, text: workflow.load(None)),
    "a name that is a number": (BadInput, lambda workflow, text: workflow.load(text, id=5, store=MemoryStore())),
    "a store that is text": (BadInput, lambda workflow, text: workflow.load(text, store="x").refresh()),
    "a reader of the context that is a number": (BadInput, lambda workflow, text: workflow.load(text, deserialize_context=5)),
    "no signature": (CodecError, lambda workflow, text: workflow.load(unsigned(text), verify_with=b"k")),
    "a signature that is not ASCII": (CodecError, lambda workflow, text: workflow.load(f"{unsigned(text)}\n\u00e9", verify_with=b"k")),
    "a signature of half a character": (CodecError, lambda workflow, text: workflow.load(unsigned(text) + "\n\ud800", verify_with=b"k")),
    "half a character, signed": (CodecError, lambda workflow, text: workflow.load(f"{SURROGATE}\nabc", verify_with=b"k")),
    "half a character": (CodecError, lambda workflow, text: workflow.load(f"{SURROGATE}\nabc")),
    "half a character in the words": (CodecError, lambda workflow, text: workflow.load(text.replace("Hi", SURROGATE))),
    "an escaped half of a character in the words": (CodecError, lambda workflow, text: workflow.load(text.replace("Hi", "\\ud800"))),
    "a list": (CodecError, lambda workflow, text: workflow.load("[1]")),
    "brackets without end": (CodecError, lambda workflow, text: workflow.load("[" * 100_000)),
    "a number without end": (CodecError, lambda workflow, text: workflow.load(f'{{"legato": {"9" * 5000}}}')),
}  # fmt: skip


@pytest.mark.parametrize(("error", "given"), TO_LOAD.values(), ids=TO_LOAD)
async def test_load_refuses_it_by_one_clear_error(error, given):
    workflow = desk()
    session = workflow.session("s", context={"user": 7})
    await session.run("Hi")
    text = await session.to_string(sign_with=b"k", serialize_context=dict)
    with pytest.raises(error):
        await settled(given(workflow, text))


CONTEXTS = {"half a character": SURROGATE, "an object": object(), "a set of lists": [{(1, 2): object()}]}


@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS)
async def test_a_context_that_is_written_down_as_what_is_no_json_is_refused(context):
    session = desk().session("s", context=5)
    await session.run("Hi")
    with pytest.raises(BadInput, match="not JSON"):
        await session.to_string(serialize_context=lambda _: context)


def builder():
    return HandoffBuilder("w", [clerk(), Agent("other", model=ScriptedModel(lambda seen: "ok"))])


DEFINITIONS = {
    "retries that are text": lambda: clerk(output_retries="x", output_type=int),
    "no guardrails, written None": lambda: clerk(guardrails=None),
    "a guardrail that is a plain function": lambda: clerk(guardrails=[lambda context, text: None]),
    "a guardrail of nothing": lambda: guardrail("input")(None),
    "a guardrail on something else": lambda: guardrail("inputs"),
    "a context provider that is a number": lambda: clerk(context_providers=[5]),
    "no context providers, written None": lambda: clerk(context_providers=None),
    "middleware that is a function": lambda: clerk(middleware=[len]),
    "a description that is a number": lambda: clerk(description=5),
    "a tool that is nothing": lambda: clerk(tools=[None]),
    "tools that are one function": lambda: clerk(tools=len),
    "a tool described by a number": lambda: clerk(tools=[tool(description=5)(lambda: "x")]),
    "a name for an agent as a tool that is a number": lambda: clerk().as_tool(name=5),
    "a description of an agent as a tool that is an object": lambda: clerk(tools=[clerk().as_tool(description=object())]),
    "instructions that are a number": lambda: clerk(instructions=5),
    "a history that is a number": lambda: clerk(history=5),
    "an output type that is empty text": lambda: HandoffBuilder("w", [clerk(output_type="")]).build(),
    "an output type that is a dict": lambda: HandoffBuilder("w", [clerk(output_type={"a": 1})]).build(),
    "an output type that is half a character": lambda: HandoffBuilder("w", [clerk(output_type=SURROGATE)]).build(),
    "a model that is text": lambda: HandoffBuilder("w", [Agent("a", model="gpt")]).build(),
    "a model that is a class": lambda: HandoffBuilder("w", [Agent("a", model=ScriptedModel)]).build(),
    "a limit that is text": lambda: Limits(turns="x"),
    "a limit below 0": lambda: Limits(turns=-1),
    "a limit that is not a number": lambda: Limits(seconds=float("nan")),
    "a summary above x tokens": lambda: history.summarised("x", by=len),
    "a summary by nobody": lambda: history.summarised(5, by=None),
    "the last x turns": lambda: history.last("x"),
    "a choice by nobody": lambda: history.custom(None),
    "participants that are a number": lambda: HandoffBuilder(participants=5),
    "a participant that is text": lambda: HandoffBuilder(participants=["a"]),
    "a workflow named by a number": lambda: HandoffBuilder(name=5),
    "a termination condition that is a number": lambda: HandoffBuilder(termination_condition=5),
    "prompts that are text": lambda: builder().with_autonomous_mode(prompts="go on"),
    "a prompt that is a number": lambda: builder().with_autonomous_mode(prompts={"clerk": 5}),
    "a prompt without words": lambda: builder().with_autonomous_mode(prompts={"clerk": " "}),
    "turn limits that are a number": lambda: builder().with_autonomous_mode(turn_limits=5),
    "a turn limit that is text": lambda: builder().with_autonomous_mode(turn_limits={"clerk": "x"}),
    "autonomous agents that are a number": lambda: builder().with_autonomous_mode(5),
    "a handoff to itself": lambda: builder().add_handoff("clerk", "clerk").build(),
    "a handoff to None": lambda: builder().add_handoff("clerk", None),
    "a handoff from None": lambda: builder().add_handoff(None, "clerk"),
    "a handoff described by an object": lambda: builder().add_handoff("clerk", "other", description=object()),
    "a handoff with a number for a history": lambda: builder().add_handoff("clerk", "other", history=5),
    "a handoff whose input is of the type ''": lambda: builder().add_handoff("clerk", "other", input_type="").build(),
    "a start agent that is a number": lambda: builder().with_start_agent(5),
    "a store that is a class": lambda: builder().with_checkpointing(MemoryStore),
    "limits that are a number": lambda: builder().with_limits(5),
    "limits of a tool that are a number": lambda: Agent("clerk").as_tool(limits=5),
    "messages in another mode": lambda: builder().with_messages("drop"),
    "messages in a list of modes": lambda: builder().with_messages(["queue"]),
    "no tools in parallel": lambda: builder().with_parallel_tools(0),
    "half an attempt": lambda: builder().with_model_attempts(0.5),
}


@pytest.mark.parametrize("given", DEFINITIONS.values(), ids=DEFINITIONS)
def test_a_definition_refuses_it_before_anything_runs(given):
    with pytest.raises((BadInput, BuildError)):
        given()


@guardrail("input")
def unspeakable(context, text):
    return SURROGATE


AT_WORK = {
    "a workflow named by half a character": lambda: HandoffBuilder(SURROGATE, [clerk()]).build(),
    "a guardrail that objects with half a character": lambda: HandoffBuilder("w", [clerk(guardrails=[unspeakable])]).build(),
    "instructions with half a character": lambda: HandoffBuilder("w", [clerk(instructions=SURROGATE)]).build(),
}


@pytest.mark.parametrize("made", AT_WORK.values(), ids=AT_WORK)
async def test_what_only_shows_at_work_is_refused_then(made):
    with pytest.raises(BadInput):
        await made().session("s").run("Hi")


STORES = {
    "no path": lambda folder: SQLiteStore(None),
    "a path that is empty": lambda folder: SQLiteStore(""),
    "a durability in a list": lambda folder: SQLiteStore(folder / "s.db", durability=["full"]),
    "another durability": lambda folder: SQLiteStore(folder / "s.db", durability="none"),
    "a path with a zero byte": lambda folder: listed(SQLiteStore("a\0b")),
    "the path of a folder": lambda folder: listed(SQLiteStore(folder)),
    "a list of x ledgers": lambda folder: listed(SQLiteStore(folder / "s.db"), "x"),
}


async def listed(store, *limit):
    try:
        return await store.list(*limit)
    finally:
        await store.close()


@pytest.mark.parametrize("given", STORES.values(), ids=STORES)
async def test_a_store_refuses_it(given, tmp_path):
    with pytest.raises(LegatoError):
        await settled(given(tmp_path))


async def test_one_autonomous_agent_may_be_named_without_a_list():
    model = ScriptedModel(by_agent={"clerk": ["one", "two"]})
    workflow = HandoffBuilder("w", [Agent("clerk", model=model)]).with_autonomous_mode("clerk", turn_limits={"clerk": 1}).build()
    assert (await workflow.session("s").run("Go")).text == "two"


async def test_an_agent_as_a_tool_works_in_a_session_whose_id_is_as_long_as_may_be():
    helper = Agent("helper", model=ScriptedModel(["helped"]))
    model = ScriptedModel(by_agent={"clerk": [call("ask_helper", task="help"), "done"]})
    session = HandoffBuilder("w", [Agent("clerk", model=model, tools=[helper.as_tool()])]).build().session("x" * 400)
    assert (await session.run("Go")).text == "done"
    assert (await session.seen()).messages[-1].text == "helped"
