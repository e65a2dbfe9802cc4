"""Tools that clients run: between processes, in branches and copies, beside other clients, and where they go wrong (D3, D4, C2, S3)."""

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
from tests.stories.checking import outputs

PAGE = ClientTool("open_page", "Opens a page.", {"properties": {"url": {"type": "string"}}, "required": ["url"]})
LOGIN = ClientTool("log_in", parameters={"properties": {"name": {"type": "string"}, "word": {"type": "string", "format": "password"}}})


@pytest.fixture(params=["memory", "sqlite"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store that is given again for each process: the same object in memory, a new handle on the same file."""
    if request.param == "memory":
        store = MemoryStore()
        yield lambda: store  # type: ignore[misc]
    else:
        yield lambda: SQLiteStore(tmp_path / "clients.db")  # type: ignore[misc]


def desk(*replies: object, store: Store | None = None, **options: object) -> Workflow:
    """One agent who opens a page, and then says what these replies are."""
    model = ScriptedModel(by_agent={"desk": list(replies) or [call("open_page", url="x"), "Opened."]})
    return HandoffBuilder("browsing", [Agent("desk", model=model, **options)]).build()  # type: ignore[arg-type]


async def test_another_process_takes_the_output_of_the_call(stores) -> None:
    first = stores()
    asked = await desk().session("s", store=first).run("Open x", tools=[PAGE])
    assert [(each.tool, each.kind, each.for_client) for each in asked.pending] == [("open_page", "result", True)]
    session = desk().session("s", store=stores())
    await session.answer(asked.pending[0].id, "a page")
    assert (await session.resume()).text == "Opened."
    seen = await session.seen()
    assert outputs(seen) == ["a page"]
    assert [spec.name for spec in seen.frame.tools] == ["open_page"]
    assert not any(isinstance(fact, CallStarted) for fact in session.facts)
    await first.close()
    await session.store.close()


async def test_the_output_of_a_call_counts_once(stores) -> None:
    session = desk().session("s", store=stores())
    (request,) = (await session.run("Open x", tools=[PAGE])).pending
    other = desk().session("s", store=stores())
    await session.answer(request, "a page")
    before = (await other.refresh()).facts
    with pytest.raises(NotPending, match="not pending"):
        await other.answer(request, "another page")
    assert (await other.refresh()).facts == before
    await session.store.close()
    await other.store.close()


async def test_an_output_with_a_key_is_recorded_once(stores) -> None:
    session = desk().session("s", store=stores())
    (request,) = (await session.run("Open x", tools=[PAGE])).pending
    for _ in range(2):
        await session.answer(request, "a page", key="k", tools=[LOGIN])
    with pytest.raises(BadInput, match="used before for something else"):
        await session.answer(request, "a page", key="k", tools=[])
    assert sum(isinstance(fact, Decided) for fact in session.facts) == 1
    await session.store.close()


async def test_wrong_arguments_are_told_to_the_model_again_and_again() -> None:
    session = desk(call("open_page", url=7), call("open_page"), call("open_page", url="x"), "Opened.").session()
    (request,) = (await session.run("Open x", tools=[PAGE])).pending
    assert request.arguments == {"url": "x"}
    told = [fact.output for fact in session.facts if isinstance(fact, CallReturned)]
    assert [str(words).splitlines()[1] for words in told] == ["  - url: 7 is not of type 'string'", "  - 'url' is a required property"]


async def test_tools_end_with_the_run_they_came_with() -> None:
    session = desk("Hello.", call("open_page", url="x"), "I cannot.").session()
    await session.run("Hi", tools=[PAGE])
    assert (await session.run("Open x")).text == "I cannot."
    assert outputs(await session.seen()) == ["Not run: there is no tool named 'open_page' for you. Tools you can call: none."]


async def test_a_client_without_tools_does_not_take_them_from_a_call() -> None:
    session = desk(call("open_page", url="x"), "Opened.").session()
    (request,) = (await session.run("Open x", tools=[PAGE])).pending
    await session.say("Are you there?")  # another client, which has no tools
    assert [each.id for each in session.pending] == [request.id]
    await session.answer(request, "a page")
    assert (await session.resume()).text == "Opened."
    assert (await session.seen()).frame.tools == ()


async def test_an_answer_brings_the_tools_of_what_follows() -> None:
    session = desk(call("open_page", url="x"), call("log_in", name="me"), "In.").session()
    (request,) = (await session.run("Open x", tools=[PAGE])).pending
    await session.answer(request, "a form", tools=[LOGIN])
    (request,) = (await session.resume()).pending
    assert request.tool == "log_in"
    assert [spec.name for spec in (await session.seen()).frame.tools] == ["log_in"]


async def test_a_message_that_supersedes_takes_the_call_back() -> None:
    model = ScriptedModel(by_agent={"desk": [call("open_page", url="x"), "Very well."]})
    workflow = HandoffBuilder("browsing", [Agent("desk", model=model)]).with_messages("supersede").build()
    session = workflow.session()
    (request,) = (await session.run("Open x", tools=[PAGE])).pending
    assert (await session.run("Never mind", tools=[PAGE])).text == "Very well."
    with pytest.raises(NotPending, match="overtaken"):
        await session.answer(request, "a page")
    assert outputs(await session.seen()) == ["'open_page' was not carried out: the user sent a new message first."]


async def test_a_cancel_takes_the_call_back() -> None:
    session = desk().session()
    (request,) = (await session.run("Open x", tools=[PAGE])).pending
    await session.cancel()
    with pytest.raises(NotPending):
        await session.answer(request, "a page")


async def test_a_fork_asks_its_client_anew() -> None:
    session = desk(call("open_page", url="x"), "Opened.", "Opened too.").session()
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
async def test_a_copy_brings_the_definitions_along(move: bool) -> None:
    session = desk().session("s")
    await session.run("Open x", tools=[PAGE])
    workflow = desk(call("open_page", url="x"), call("log_in", name="me"), "In.")
    copy = await workflow.load(await session.to_string(), move=move).refresh()
    await copy.answer(copy.pending[0], "a page", tools=[PAGE, LOGIN])
    assert [each.tool for each in (await copy.resume()).pending] == ["log_in"]
    assert [spec.name for spec in (await copy.seen(0)).frame.tools] == ["open_page"]


async def test_erasing_the_message_keeps_the_tools_it_offered() -> None:
    session = desk().session()
    (request,) = (await session.run("Open x", tools=[PAGE])).pending
    await session.redact(session.messages[0])
    await session.answer(request, "a page")
    assert (await session.resume()).text == "Opened."
    assert [spec.name for spec in (await session.seen()).frame.tools] == ["open_page"]


async def test_tool_guardrails_judge_calls_of_clients_too() -> None:
    @guardrail("tool")
    def no_x(context: object, told: object) -> str | None:
        return "not x" if told.arguments == {"url": "x"} else None  # type: ignore[attr-defined]

    session = desk(call("open_page", url="x"), "I may not.", guardrails=[no_x]).session()
    assert (await session.run("Open x", tools=[PAGE])).text == "I may not."
    assert outputs(await session.seen()) == ["Not run: not x"]


async def test_an_agent_as_a_tool_has_no_tools_of_the_client() -> None:
    helper = Agent("helper", model=ScriptedModel(by_agent={"helper": [call("open_page", url="x"), "I cannot."]}))
    session = desk(call("ask_helper", task="Open x"), "It cannot.", tools=[helper.as_tool()]).session()
    assert (await session.run("Open x", tools=[PAGE])).text == "It cannot."
    (child,) = await session.store.children(session.id)
    assert not any(getattr(fact, "options", None) for fact in await session.store.read(child.ledger))


async def test_an_answer_gives_an_agent_as_a_tool_no_tools() -> None:
    """The request is the helper's, and the tools that come with its answer are not."""

    @tool(deferred=True)
    def ask_bank(order: str) -> str:
        """Ask the bank."""
        raise AssertionError("its result comes from elsewhere")

    helper = Agent("helper", model=ScriptedModel(by_agent={"helper": [call("ask_bank", order="7"), "It is paid."]}), tools=[ask_bank])
    session = desk(call("ask_helper", task="Is it paid?"), "Yes.", tools=[helper.as_tool()]).session()
    (request,) = (await session.run("Is it paid?", tools=[PAGE])).pending
    await session.answer(request, "paid", tools=[PAGE], output_schema={"type": "object"})
    assert (await session.resume()).text == "Yes."
    (child,) = await session.store.children(session.id)
    assert not any(getattr(fact, "options", None) for fact in await session.store.read(child.ledger))


async def test_passwords_for_a_client_are_shown_to_it_alone() -> None:
    session = desk(call("log_in", name="me", word="sesame")).session()
    (request,) = (await session.run("Log in", tools=[LOGIN])).pending
    assert request.arguments["word"] == "sesame"
    assert "sesame" not in request.prompt
    assert '"name": "me"' in request.prompt


async def test_a_required_call_is_asked_for_until_it_comes() -> None:
    session = desk("I would rather not.", call("open_page", url="x"), "Opened.").session()
    result = await session.run("Open x", tools=[PAGE], tool_required=True)
    assert [each.tool for each in result.pending] == ["open_page"]
    assert "one of them must be called: open_page" in (await session.seen()).messages[-1].text
    assert [message.text for message in session.messages] == ["Open x"]


async def test_a_required_call_is_required_once() -> None:
    session = desk().session()
    (request,) = (await session.run("Open x", tools=[PAGE], tool_required=True)).pending
    await session.answer(request, "a page")
    assert (await session.resume()).text == "Opened."
    assert [spec.name for spec in (await session.seen()).frame.tools] == ["open_page"]


async def test_a_required_call_stays_required_on_request() -> None:
    session = desk(call("open_page", url="x"), "Opened.", call("open_page", url="y")).session()
    (request,) = (await session.run("Open x", tools=[PAGE], tool_required=True)).pending
    await session.answer(request, "a page", tools=[PAGE], tool_required=True)
    assert [each.arguments for each in (await session.resume()).pending] == [{"url": "y"}]


async def test_an_answer_that_never_fits_becomes_a_question() -> None:
    session = desk("no", "no", "no", "no", output_retries=1).session()
    result = await session.run("Where?", output_schema={"type": "object"})
    assert (result.status, [each.limit for each in result.pending], result.text) == ("pending", ["output"], "")


async def test_a_refusal_is_no_wrong_answer() -> None:
    result = await desk([Refusal("I will not say.")]).session().run("Where?", output_schema={"type": "object"})
    assert (result.status, result.refusal, result.output) == ("waiting", "I will not say.", "I will not say.")


async def test_a_format_ends_with_its_run() -> None:
    session = desk('{"a": 1}', "As you like.").session()
    assert (await session.run("Typed", output_schema={"type": "object"})).output == {"a": 1}
    assert (await session.run("Plain")).output == "As you like."


async def test_words_that_are_yet_to_be_judged_are_not_streamed(stream: bool) -> None:
    shown = []
    async for event in desk("In Bonn.", '{"a": 1}').session().run("Typed", stream=stream, output_schema={"type": "object"}):
        shown.append(str(event.data))
    assert not any("Bonn" in each for each in shown)


async def test_names_of_the_agents_own_tools_are_refused() -> None:
    @tool
    def open_page(url: str) -> str:
        return url

    session = desk(tools=[open_page]).session()
    with pytest.raises(BadInput, match="has a tool or handoff named 'open_page' of its own"):
        await session.run("Open x", tools=[PAGE])
    assert (await session.refresh()).facts == []


async def test_an_output_type_of_the_agent_is_not_replaced() -> None:
    session = desk(output_type=int).session()
    with pytest.raises(BadInput, match="agent 'desk' has an output type of its own"):
        await session.run("Where?", output_schema={"type": "object"})


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("a b", {}, r'(?s)cannot be the name of a tool.*name it "look_up_order"'),
        ("handoff_to_b", {}, r'(?s)are handoffs.*name it "b"'),
        ("t", {"type": "string"}, "not those of an object"),
        ("t", {"properties": 7}, "the schema of client tool 't' is not valid: properties: 7 is not"),
        ("t", {"properties": {"a": {"type": "text"}}}, "is not valid: properties.a.type: 'text' is not"),
        ("t", {"x": {1, 2}}, "are no JSON schema"),
    ],
)
def test_tools_that_cannot_be_offered_are_refused(name: str, parameters: dict, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        ClientTool(name, parameters=parameters)


async def test_definitions_that_are_too_long_are_refused() -> None:
    wordy = [ClientTool(f"t{number}", "x" * 60_000) for number in range(9)]
    with pytest.raises(BadInput, match="says too much"):
        await desk().session().say("Hi", tools=wordy)


async def test_a_required_tool_must_be_offered() -> None:
    session = desk("Hello.").session()
    with pytest.raises(BadInput, match="tool_required=True needs tools"):
        await session.run("Hi", tool_required=True)
    assert (await session.refresh()).facts == []


async def test_a_model_class_is_told_its_schema() -> None:
    class Place(BaseModel):
        city: str

    with pytest.raises(BadInput, match=r"write Place\.model_json_schema\(\)"):
        await desk().session().say("Where?", output_schema=Place)  # type: ignore[arg-type]


async def test_what_is_no_client_tool_is_refused() -> None:
    for wrong in ([print], [PAGE, PAGE], "open_page"):
        with pytest.raises(BadInput):
            await desk().session().say("Hi", tools=wrong)  # type: ignore[arg-type]
