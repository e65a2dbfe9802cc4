"""Client tools: between processes, in branches and copies, beside other clients, and their errors (D3, D4, C2, S3)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from legato import Agent, ClientTool, HandoffBuilder, Workflow, guardrail, tool
from legato.core.facts import CallReturned, CallStarted, Decided, Refusal
from legato.errors import BadInput, NotPending
from legato.stores import MemoryStore, SQLiteStore, Store
from legato.testing import ScriptedModel, call
from tests.stories.conversation_checks import list_outputs

PAGE = ClientTool("open_page", "Opens a page.", {"properties": {"url": {"type": "string"}}, "required": ["url"]})
LOGIN = ClientTool("log_in", parameters={"properties": {"name": {"type": "string"}, "word": {"type": "string", "format": "password"}}})


@pytest.fixture(params=["memory", "sqlite"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A function that opens the store for another process: the same object in memory, a new handle on the same file."""
    if request.param == "memory":
        store = MemoryStore()
        yield lambda: store  # type: ignore[misc]
    else:
        yield lambda: SQLiteStore(tmp_path / "clients.db")  # type: ignore[misc]


def build_desk(*replies: object, store: Store | None = None, **options: object) -> Workflow:
    """Return a workflow of one agent, with these replies."""
    model = ScriptedModel(by_agent={"desk": list(replies) or [call("open_page", url="x"), "Opened."]})
    return HandoffBuilder("browsing", [Agent("desk", model=model, **options)]).build()  # type: ignore[arg-type]


async def test_another_process_accepts_the_output(open_store) -> None:
    first = open_store()
    result = await build_desk().session("s", store=first).run("Open x", tools=[PAGE])
    assert [(each.tool, each.kind, each.for_client) for each in result.pending] == [("open_page", "result", True)]
    session = build_desk().session("s", store=open_store())
    await session.answer(result.pending[0].id, "a page")
    assert (await session.resume()).text == "Opened."
    seen = await session.seen()
    assert list_outputs(seen) == ["a page"]
    assert [spec.name for spec in seen.turn_context.tools] == ["open_page"]
    assert not any(isinstance(fact, CallStarted) for fact in session.facts)
    await first.close()
    await session.store.close()


async def test_the_output_of_a_call_counts_once(open_store) -> None:
    session = build_desk().session("s", store=open_store())
    (request,) = (await session.run("Open x", tools=[PAGE])).pending
    other = build_desk().session("s", store=open_store())
    await session.answer(request, "a page")
    before = (await other.refresh()).facts
    with pytest.raises(NotPending, match="not pending"):
        await other.answer(request, "another page")
    assert (await other.refresh()).facts == before
    await session.store.close()
    await other.store.close()


async def test_an_output_with_a_key_is_recorded_once(open_store) -> None:
    session = build_desk().session("s", store=open_store())
    (request,) = (await session.run("Open x", tools=[PAGE])).pending
    for _ in range(2):
        await session.answer(request, "a page", key="k", tools=[LOGIN])
    with pytest.raises(BadInput, match="used before for something else"):
        await session.answer(request, "a page", key="k", tools=[])
    assert sum(isinstance(fact, Decided) for fact in session.facts) == 1
    await session.store.close()


async def test_wrong_arguments_are_answered_to_the_model() -> None:
    session = build_desk(call("open_page", url=7), call("open_page"), call("open_page", url="x"), "Opened.").session()
    (request,) = (await session.run("Open x", tools=[PAGE])).pending
    assert request.arguments == {"url": "x"}
    outputs = [fact.output for fact in session.facts if isinstance(fact, CallReturned)]
    assert [str(output).splitlines()[1] for output in outputs] == ["  - url: 7 is not of type 'string'", "  - 'url' is a required property"]


async def test_tools_end_with_their_run() -> None:
    session = build_desk("Hello.", call("open_page", url="x"), "I cannot.").session()
    await session.run("Hi", tools=[PAGE])
    assert (await session.run("Open x")).text == "I cannot."
    assert list_outputs(await session.seen()) == ["Not run: there is no tool named 'open_page' for you. Tools you can call: none."]


async def test_message_without_tools_keeps_a_pending_call() -> None:
    session = build_desk(call("open_page", url="x"), "Opened.").session()
    (request,) = (await session.run("Open x", tools=[PAGE])).pending
    await session.say("Are you there?")  # another client, without tools
    assert [each.id for each in session.pending] == [request.id]
    await session.answer(request, "a page")
    assert (await session.resume()).text == "Opened."
    assert (await session.seen()).turn_context.tools == ()


async def test_answer_may_bring_other_tools() -> None:
    session = build_desk(call("open_page", url="x"), call("log_in", name="me"), "In.").session()
    (request,) = (await session.run("Open x", tools=[PAGE])).pending
    await session.answer(request, "a form", tools=[LOGIN])
    (request,) = (await session.resume()).pending
    assert request.tool == "log_in"
    assert [spec.name for spec in (await session.seen()).turn_context.tools] == ["log_in"]


async def test_superseding_message_withdraws_the_call() -> None:
    model = ScriptedModel(by_agent={"desk": [call("open_page", url="x"), "Very well."]})
    workflow = HandoffBuilder("browsing", [Agent("desk", model=model)]).with_messages("supersede").build()
    session = workflow.session()
    (request,) = (await session.run("Open x", tools=[PAGE])).pending
    assert (await session.run("Never mind", tools=[PAGE])).text == "Very well."
    with pytest.raises(NotPending, match="superseded"):
        await session.answer(request, "a page")
    assert list_outputs(await session.seen()) == ["'open_page' was not carried out: the user sent a new message first."]


async def test_cancel_withdraws_the_call() -> None:
    session = build_desk().session()
    (request,) = (await session.run("Open x", tools=[PAGE])).pending
    await session.cancel()
    with pytest.raises(NotPending):
        await session.answer(request, "a page")


async def test_fork_requests_the_result_again() -> None:
    session = build_desk(call("open_page", url="x"), "Opened.", "Opened too.").session()
    (request,) = (await session.run("Open x", tools=[PAGE])).pending
    branch = await session.fork()
    (again,) = branch.pending
    assert (again.tool, again.id == request.id) == ("open_page", False)
    with pytest.raises(NotPending):
        await branch.answer(request, "a page")
    await branch.answer(again, "a page")
    assert (await branch.resume()).text == "Opened."
    assert [each.id for each in (await session.refresh()).pending] == [request.id]


@pytest.mark.parametrize("move", [False, True])
async def test_copy_includes_the_definitions(move: bool) -> None:
    session = build_desk().session("s")
    await session.run("Open x", tools=[PAGE])
    workflow = build_desk(call("open_page", url="x"), call("log_in", name="me"), "In.")
    copy = await workflow.load(await session.to_string(), move=move).refresh()
    await copy.answer(copy.pending[0], "a page", tools=[PAGE, LOGIN])
    assert [each.tool for each in (await copy.resume()).pending] == ["log_in"]
    assert [spec.name for spec in (await copy.seen(0)).turn_context.tools] == ["open_page"]


async def test_redacted_message_keeps_its_tools() -> None:
    session = build_desk().session()
    (request,) = (await session.run("Open x", tools=[PAGE])).pending
    await session.redact(session.messages[0])
    await session.answer(request, "a page")
    assert (await session.resume()).text == "Opened."
    assert [spec.name for spec in (await session.seen()).turn_context.tools] == ["open_page"]


async def test_tool_guardrails_check_client_calls_too() -> None:
    @guardrail("tool")
    def no_x(context: object, call: object) -> str | None:
        return "not x" if call.arguments == {"url": "x"} else None  # type: ignore[attr-defined]

    session = build_desk(call("open_page", url="x"), "I may not.", guardrails=[no_x]).session()
    assert (await session.run("Open x", tools=[PAGE])).text == "I may not."
    assert list_outputs(await session.seen()) == ["Not run: not x"]


async def test_child_session_has_no_client_tools() -> None:
    helper = Agent("helper", model=ScriptedModel(by_agent={"helper": [call("open_page", url="x"), "I cannot."]}))
    session = build_desk(call("ask_helper", task="Open x"), "It cannot.", tools=[helper.as_tool()]).session()
    assert (await session.run("Open x", tools=[PAGE])).text == "It cannot."
    (child,) = await session.store.children(session.id)
    assert not any(getattr(fact, "options", None) for fact in await session.store.read(child.ledger))


async def test_answer_gives_a_child_session_no_tools() -> None:
    """The request belongs to the child session; the tools that come with its answer do not."""

    @tool(deferred=True)
    def ask_bank(order: str) -> str:
        """Ask the bank."""
        raise AssertionError("its result is supplied from outside")

    helper = Agent("helper", model=ScriptedModel(by_agent={"helper": [call("ask_bank", order="7"), "It is paid."]}), tools=[ask_bank])
    session = build_desk(call("ask_helper", task="Is it paid?"), "Yes.", tools=[helper.as_tool()]).session()
    (request,) = (await session.run("Is it paid?", tools=[PAGE])).pending
    await session.answer(request, "paid", tools=[PAGE], output_schema={"type": "object"})
    assert (await session.resume()).text == "Yes."
    (child,) = await session.store.children(session.id)
    assert not any(getattr(fact, "options", None) for fact in await session.store.read(child.ledger))


async def test_secrets_are_visible_to_the_client_only() -> None:
    session = build_desk(call("log_in", name="me", word="sesame")).session()
    (request,) = (await session.run("Log in", tools=[LOGIN])).pending
    assert request.arguments["word"] == "sesame"
    assert "sesame" not in request.prompt
    assert '"name": "me"' in request.prompt


async def test_required_call_is_requested_until_made() -> None:
    session = build_desk("I would rather not.", call("open_page", url="x"), "Opened.").session()
    result = await session.run("Open x", tools=[PAGE], tool_required=True)
    assert [each.tool for each in result.pending] == ["open_page"]
    assert "one of them must be called: open_page" in (await session.seen()).messages[-1].text
    assert [message.text for message in session.messages] == ["Open x"]


async def test_a_required_call_is_required_once() -> None:
    session = build_desk().session()
    (request,) = (await session.run("Open x", tools=[PAGE], tool_required=True)).pending
    await session.answer(request, "a page")
    assert (await session.resume()).text == "Opened."
    assert [spec.name for spec in (await session.seen()).turn_context.tools] == ["open_page"]


async def test_a_required_call_stays_required_on_request() -> None:
    session = build_desk(call("open_page", url="x"), "Opened.", call("open_page", url="y")).session()
    (request,) = (await session.run("Open x", tools=[PAGE], tool_required=True)).pending
    await session.answer(request, "a page", tools=[PAGE], tool_required=True)
    assert [each.arguments for each in (await session.resume()).pending] == [{"url": "y"}]


async def test_an_answer_that_never_fits_becomes_a_question() -> None:
    session = build_desk("no", "no", "no", "no", output_retries=1).session()
    result = await session.run("Where?", output_schema={"type": "object"})
    assert (result.status, [each.limit for each in result.pending], result.text) == ("pending", ["output"], "")


async def test_a_refusal_is_no_wrong_answer() -> None:
    result = await build_desk([Refusal("I will not say.")]).session().run("Where?", output_schema={"type": "object"})
    assert (result.status, result.refusal, result.output) == ("waiting", "I will not say.", "I will not say.")


async def test_a_format_ends_with_its_run() -> None:
    session = build_desk('{"a": 1}', "As you like.").session()
    assert (await session.run("Typed", output_schema={"type": "object"})).output == {"a": 1}
    assert (await session.run("Plain")).output == "As you like."


async def test_unchecked_text_is_not_streamed(stream: bool) -> None:
    streamed = []
    async for event in build_desk("In Bonn.", '{"a": 1}').session().run("Typed", stream=stream, output_schema={"type": "object"}):
        streamed.append(str(event.data))
    assert not any("Bonn" in each for each in streamed)


async def test_names_of_the_agents_own_tools_are_refused() -> None:
    @tool
    def open_page(url: str) -> str:
        return url

    session = build_desk(tools=[open_page]).session()
    with pytest.raises(BadInput, match="has a tool or handoff named 'open_page' of its own"):
        await session.run("Open x", tools=[PAGE])
    assert (await session.refresh()).facts == []


async def test_agents_output_type_is_not_replaced() -> None:
    session = build_desk(output_type=int).session()
    with pytest.raises(BadInput, match="agent 'desk' has an output type of its own"):
        await session.run("Where?", output_schema={"type": "object"})


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("a b", {}, r'(?s)cannot be the name of a tool.*name it "look_up_order"'),
        ("handoff_to_b", {}, r'(?s)are handoffs.*name it "b"'),
        ("t", {"type": "string"}, "not that of an object"),
        ("t", {"properties": 7}, "the schema of client tool 't' is not valid: properties: 7 is not"),
        ("t", {"properties": {"a": {"type": "text"}}}, "is not valid: properties.a.type: 'text' is not"),
        ("t", {"x": {1, 2}}, "cannot be encoded as JSON"),
    ],
)
def test_tools_that_cannot_be_offered_are_refused(name: str, parameters: dict, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        ClientTool(name, parameters=parameters)


async def test_definitions_that_are_too_long_are_refused() -> None:
    wordy = [ClientTool(f"t{number}", "x" * 60_000) for number in range(9)]
    with pytest.raises(BadInput, match="are too large"):
        await build_desk().session().say("Hi", tools=wordy)


async def test_a_required_tool_must_be_offered() -> None:
    session = build_desk("Hello.").session()
    with pytest.raises(BadInput, match="tool_required=True needs tools"):
        await session.run("Hi", tool_required=True)
    assert (await session.refresh()).facts == []


async def test_a_model_class_is_told_its_schema() -> None:
    class Place(BaseModel):
        city: str

    with pytest.raises(BadInput, match=r"write Place\.model_json_schema\(\)"):
        await build_desk().session().say("Where?", output_schema=Place)  # type: ignore[arg-type]


async def test_values_that_are_no_tools_are_refused() -> None:
    for wrong in ([print], [PAGE, PAGE], "open_page"):
        with pytest.raises(BadInput):
            await build_desk().session().say("Hi", tools=wrong)  # type: ignore[arg-type]
