"""Invalid arguments of public functions: each is refused by a `LegatoError` that says what is wrong, and nothing is written."""

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
    return Agent("clerk", model=ScriptedModel(lambda request: "ok"), **more)


def desk():
    model = ScriptedModel(lambda request: call("pay") if request.messages[-1].role == "user" else "ok")
    return HandoffBuilder("w", [Agent("clerk", model=model, tools=[pay])]).build()


async def await_if_possible(misuse):
    """Return the result of a call, awaited if it can be."""
    return await asyncio.wait_for(misuse, 60) if inspect.isawaitable(misuse) else misuse


SESSION_MISUSES = {
    "a key that is a list": lambda session, request: session.run("x", key=["a"]),
    "a key that is a number": lambda session, request: session.run("x", key=5),
    "a key that is half a character": lambda session, request: session.run("x", key=SURROGATE),
    "no message": lambda session, request: session.run(None),
    "words that are a generator of numbers": lambda session, request: session.run(each for each in [1]),
    "words in a list in a list": lambda session, request: session.run([["a"]]),
    "text that is a number": lambda session, request: session.run(Text(5)),
    "a message without parts": lambda session, request: session.run(Message(parts=5)),
    "a picture of nothing": lambda session, request: session.run([image(None)]),
    "a picture that is a bytearray": lambda session, request: session.run([image(bytearray(b"a"))]),
    "a picture at half a character": lambda session, request: session.run([image(SURROGATE)]),
    "a picture whose digest is a list": lambda session, request: session.run(Image(digest=["a"])),
    "a document without a type": lambda session, request: session.run([file(b"a", media_type=None)]),
    "a document whose name is a number": lambda session, request: session.run(File(name=5, url="https://x")),
    "an approval with a list as its key": lambda session, request: session.approve(request, key=["a"]),
    "an approval of nothing": lambda session, request: session.approve(None),
    "an approval of a list": lambda session, request: session.approve(["a"]),
    "a rejection in no words": lambda session, request: session.reject(request, 5),
    "a set of arguments": lambda session, request: session.edit(request, {1, 2}),
    "a list of arguments": lambda session, request: session.edit(request, [1]),
    "an argument that is half a character": lambda session, request: session.edit(request, {"a": SURROGATE}),
    "an argument that is not a number": lambda session, request: session.edit(request, {"a": float("nan")}),
    "a result of what waits for approval": lambda session, request: session.answer(request, 1),
    "a reason to cancel that is a number": lambda session, request: session.cancel(5),
    "a standing approval of a list": lambda session, request: session.revoke(["a"], "b"),
    "a standing approval of a number": lambda session, request: session.revoke("a", 5),
    "the reply named x": lambda session, request: session.seen("x"),
    "the reply of no number": lambda session, request: session.seen(None),
    "the reply number 0.0": lambda session, request: session.seen(0.0),
    "a fork named by a number": lambda session, request: session.fork(id=5),
    "a fork at 1.0": lambda session, request: session.fork(at=1.0),
    "a fork at True": lambda session, request: session.fork(at=True),
    "a fork before the beginning": lambda session, request: session.fork(at=-1),
    "a signature by text": lambda session, request: session.to_string(sign_with="k"),
    "a signature by nothing": lambda session, request: session.to_string(sign_with=b""),
    "a context written down by a number": lambda session, request: session.to_string(serialize_context=5),
    "another session by a number": lambda session, request: session.workflow.run("x", session_id=5),
    "another session by half a character": lambda session, request: session.workflow.session(SURROGATE).refresh(),
    "another session without a name": lambda session, request: session.workflow.session("").refresh(),
    "another session in a store that is text": lambda session, request: session.workflow.session("z", store="x").refresh(),
    "another session in a store that is a class": lambda session, request: session.workflow.session("z", store=MemoryStore).refresh(),
}


@pytest.mark.parametrize("misuse", SESSION_MISUSES.values(), ids=SESSION_MISUSES)
async def test_session_refuses_invalid_argument_unchanged(misuse):
    session = desk().session("s")
    await session.run("Hi")
    facts = session.facts
    with pytest.raises((BadInput, NotPending)):
        await await_if_possible(misuse(session, session.pending[0]))
    assert (await session.refresh()).facts == facts
    assert session.status == "pending"


def unsign(text):
    return text.partition("\n")[0]


LOAD_MISUSES = {
    "a key that is text": (BadInput, lambda workflow, text: workflow.load(text, verify_with="k")),
    "a key without a byte": (BadInput, lambda workflow, text: workflow.load(text, verify_with=b"")),
    "bytes": (BadInput, lambda workflow, text: workflow.load(b"abc")),
    "nothing": (BadInput, lambda workflow, text: workflow.load(None)),
    "a name that is a number": (BadInput, lambda workflow, text: workflow.load(text, id=5, store=MemoryStore())),
    "a store that is text": (BadInput, lambda workflow, text: workflow.load(text, store="x").refresh()),
    "a reader of the context that is a number": (BadInput, lambda workflow, text: workflow.load(text, deserialize_context=5)),
    "no signature": (CodecError, lambda workflow, text: workflow.load(unsign(text), verify_with=b"k")),
    "a signature that is not ASCII": (CodecError, lambda workflow, text: workflow.load(f"{unsign(text)}\n\u00e9", verify_with=b"k")),
    "a signature of half a character": (CodecError, lambda workflow, text: workflow.load(unsign(text) + "\n\ud800", verify_with=b"k")),
    "half a character, signed": (CodecError, lambda workflow, text: workflow.load(f"{SURROGATE}\nabc", verify_with=b"k")),
    "half a character": (CodecError, lambda workflow, text: workflow.load(f"{SURROGATE}\nabc")),
    "half a character in the words": (CodecError, lambda workflow, text: workflow.load(text.replace("Hi", SURROGATE))),
    "an escaped half of a character in the words": (CodecError, lambda workflow, text: workflow.load(text.replace("Hi", "\\ud800"))),
    "a list": (CodecError, lambda workflow, text: workflow.load("[1]")),
    "brackets without end": (CodecError, lambda workflow, text: workflow.load("[" * 100_000)),
    "a number without end": (CodecError, lambda workflow, text: workflow.load(f'{{"legato": {"9" * 5000}}}')),
}  # fmt: skip


@pytest.mark.parametrize(("error", "misuse"), LOAD_MISUSES.values(), ids=LOAD_MISUSES)
async def test_load_refuses_invalid_argument(error, misuse):
    workflow = desk()
    session = workflow.session("s", context={"user": 7})
    await session.run("Hi")
    text = await session.to_string(sign_with=b"k", serialize_context=dict)
    with pytest.raises(error):
        await await_if_possible(misuse(workflow, text))


CONTEXTS = {"half a character": SURROGATE, "an object": object(), "a set of lists": [{(1, 2): object()}]}


@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS)
async def test_context_that_is_no_json_is_refused(context):
    session = desk().session("s", context=5)
    await session.run("Hi")
    with pytest.raises(BadInput, match="not JSON"):
        await session.to_string(serialize_context=lambda _: context)


def builder():
    return HandoffBuilder("w", [clerk(), Agent("other", model=ScriptedModel(lambda request: "ok"))])


DEFINITION_MISUSES = {
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
    "a summary by None": lambda: history.summarised(5, by=None),
    "the last x turns": lambda: history.last("x"),
    "a choice by None": lambda: history.custom(None),
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


@pytest.mark.parametrize("misuse", DEFINITION_MISUSES.values(), ids=DEFINITION_MISUSES)
def test_definition_refuses_invalid_argument(misuse):
    with pytest.raises((BadInput, BuildError)):
        misuse()


@guardrail("input")
def object_with_surrogate(context, text):
    return SURROGATE


INVALID_RESULTS = {
    "a workflow named by half a character": lambda: HandoffBuilder(SURROGATE, [clerk()]).build(),
    "a guardrail that objects with half a character": lambda: HandoffBuilder("w", [clerk(guardrails=[object_with_surrogate])]).build(),
    "instructions with half a character": lambda: HandoffBuilder("w", [clerk(instructions=SURROGATE)]).build(),
}


@pytest.mark.parametrize("build", INVALID_RESULTS.values(), ids=INVALID_RESULTS)
async def test_invalid_results_of_user_code_are_refused(build):
    with pytest.raises(BadInput):
        await build().session("s").run("Hi")


STORE_MISUSES = {
    "no path": lambda folder: SQLiteStore(None),
    "a path that is empty": lambda folder: SQLiteStore(""),
    "a durability in a list": lambda folder: SQLiteStore(folder / "s.db", durability=["full"]),
    "another durability": lambda folder: SQLiteStore(folder / "s.db", durability="none"),
    "a path with a zero byte": lambda folder: list_and_close(SQLiteStore("a\0b")),
    "the path of a folder": lambda folder: list_and_close(SQLiteStore(folder)),
    "a list of x ledgers": lambda folder: list_and_close(SQLiteStore(folder / "s.db"), "x"),
}


async def list_and_close(store, *limit):
    try:
        return await store.list(*limit)
    finally:
        await store.close()


@pytest.mark.parametrize("misuse", STORE_MISUSES.values(), ids=STORE_MISUSES)
async def test_store_refuses_invalid_argument(misuse, tmp_path):
    with pytest.raises(LegatoError):
        await await_if_possible(misuse(tmp_path))


async def test_single_autonomous_agent_needs_no_list():
    model = ScriptedModel(by_agent={"clerk": ["one", "two"]})
    workflow = HandoffBuilder("w", [Agent("clerk", model=model)]).with_autonomous_mode("clerk", turn_limits={"clerk": 1}).build()
    assert (await workflow.session("s").run("Go")).text == "two"


async def test_agent_as_tool_works_with_longest_session_id():
    helper = Agent("helper", model=ScriptedModel(["helped"]))
    model = ScriptedModel(by_agent={"clerk": [call("ask_helper", task="help"), "done"]})
    session = HandoffBuilder("w", [Agent("clerk", model=model, tools=[helper.as_tool()])]).build().session("x" * 400)
    assert (await session.run("Go")).text == "done"
    assert (await session.seen()).messages[-1].text == "helped"
