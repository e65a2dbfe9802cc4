"""Each row of the table of names in docs/migrate/agent-framework.md is run: by the test or sample that is named here, or by one below."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from legato.compat import MeansNothingHere
from legato.compat import agent_framework as af
from legato.compat.gaps import explain
from legato.emulator import serve
from legato.emulator.fake_models import ScriptedCall, ScriptRule
from legato.emulator.server import Emulator
from legato.errors import BuildError
from legato.stores import SQLiteStore
from tests.compat.agent_framework.desk import desk

HERE = Path(__file__).parent
PAGE = HERE.parents[2] / "docs/migrate/agent-framework.md"
RUN_BY = {
    "`Agent`, `ChatAgent`, `client.as_agent(...)`": "test_an_agent_is_made_in_each_way",
    "`OpenAIChatClient`, `OpenAIChatCompletionClient`": "test_clients_pass_their_options_to_their_api",
    "`OpenAIResponsesClient`": "test_clients_pass_their_options_to_their_api",
    "`AzureOpenAIResponsesClient(project_endpoint=": "test_credential_is_asked_for_a_project_token",
    "`client.get_web_search_tool()`": "test_hosted_tools_go_to_the_provider_unchanged",
    "`default_options={...}`": "test_response_format_sets_the_output_type",
    "`tool(approval_mode=": "test_words_in_annotations_describe_arguments",
    "`function_invocation_kwargs=`": "test_run_arguments_reach_an_agents_tools",
    "`Message`, `ChatMessage`, `Content`": "test_messages_and_contents_read_as_theirs_do",
    "`ChatOptions`, `OpenAIChatOptions`": "test_annotation_types_work_at_run_time",
    "function middleware": "test_function_middleware_sees_call_result_and_context",
    "chat middleware": "test_chat_middleware_sees_requests_and_replies",
    "agent middleware": "test_agent_middleware_wraps_a_run",
    "`ContextProvider`": "test_a_provider_adds_instructions_and_messages",
    "`HistoryProvider`s": "test_a_history_provider_is_accepted_and_never_asked",
    "`HandoffBuilder`": "samples/handoff_mesh.py",
    "`enable_return_to_previous(False)`": "samples/handoff_return_to_start.py",
    "`with_checkpointing(storage)`": "samples/handoff_checkpoint_resume.py",
    "`InMemoryCheckpointStorage()`": "test_any_legato_store_can_hold_checkpoints",
    "`workflow.run(message)`": "test_checkpoints_are_read_only",
    "`workflow.run(responses={id: ...})`": "test_answers_are_used_once",
    "`workflow.run(checkpoint_id=...)`": "samples/handoff_time_travel.py",
    "`storage.list_checkpoints(...)`": "test_a_checkpoint_tells_what_was_pending_there",
    "`request_info` with `HandoffAgentUserRequest`": "test_users_turn_takes_text_messages_and_lists",
    "`request_info` with a `function_approval_request`": "samples/handoff_with_tool_approval.py",
    "`HandoffAgentUserRequest.terminate()`": "test_terminate_asks_nothing_more_and_records_nothing",
    "events `output`, `handoff_sent`": "test_run_emits_events_and_a_final_transcript",
    "`workflow.as_agent()`": "samples/handoff_as_agent.py",
    "`agent.as_tool()`": "test_an_agent_is_a_tool_of_another",
    "`resolve_agent_id(agent)`": "samples/handoff_autonomous.py",
}


def test_every_page_row_has_a_test() -> None:
    """A test or a sample runs every row of the page."""
    table = PAGE.read_text(encoding="utf-8").split("\n## Names\n")[1].strip().split("\n\n")[0]
    rows = [line.removeprefix("| ") for line in table.splitlines()[2:]]
    written = "".join(path.read_text(encoding="utf-8") for path in HERE.glob("test_*.py"))
    for row in rows:
        # the longest that fits: `Agent` begins other rows as well
        by = max((name for name in RUN_BY if row.startswith(name)), key=len, default="")
        assert by, f"nothing runs the row {row!r}"
        assert (HERE / RUN_BY[by]).exists() if "/" in RUN_BY[by] else f"def {RUN_BY[by]}(" in written
    assert len(rows) == len(RUN_BY)


async def test_an_agent_is_made_in_each_way(emulator: Emulator) -> None:
    client = af.OpenAIResponsesClient("gpt-5.1")
    for agent in (af.Agent(client, "You greet.", name="a"), af.ChatAgent(chat_client=client, name="a"), client.as_agent(name="a")):
        async with agent:
            answer = await agent.run("Bye")
        assert (answer.text, answer.finish_reason, answer.agent_id) == ("Goodbye!", "stop", "a")
        assert answer.usage_details is not None
        assert answer.usage_details["total_token_count"] > 0
    assert emulator.exchanges[0].request_body["instructions"] == "You greet."


async def test_hosted_tools_go_to_the_provider_unchanged(emulator: Emulator) -> None:
    client = af.OpenAIResponsesClient("gpt-5.1")
    tools = [
        client.get_web_search_tool(user_location={"city": "Lisbon"}, search_context_size="low"),
        client.get_file_search_tool(vector_store_ids=["vs_1"], max_num_results=3),
        client.get_code_interpreter_tool(file_ids=["file_1"]),
        client.get_image_generation_tool(size="auto"),
    ]
    await client.as_agent(name="a", tools=tools).run("Bye")
    assert emulator.exchanges[-1].request_body["tools"] == [
        {"type": "web_search", "user_location": {"type": "approximate", "city": "Lisbon"}, "search_context_size": "low"},
        {"type": "file_search", "vector_store_ids": ["vs_1"], "max_num_results": 3},
        {"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file_1"]}},
        {"type": "image_generation", "size": "auto"},
    ]


async def test_run_arguments_reach_an_agents_tools() -> None:
    seen: list[Any] = []

    @af.tool
    def sign(text: str, ctx: af.FunctionInvocationContext, **kwargs: Any) -> str:
        """Sign a text."""
        seen.append((dict(ctx.arguments), ctx.kwargs["user"], ctx.session.session_id, kwargs["user"]))
        return "signed"

    with serve(fake_model=[ScriptRule(after_tool="sign", say="Done."), ScriptRule(say=ScriptedCall("sign", {"text": "Hi"}))]) as emulator:
        client = af.OpenAIResponsesClient("gpt-5.1", base_url=emulator.openai_url, api_key="any")
        agent = client.as_agent(name="a", tools=[sign])
        session = agent.create_session(session_id="letters")
        await agent.run("Sign", session=session, function_invocation_kwargs={"user": "ada"})
        assert "ada" not in str([exchange.request_body for exchange in emulator.exchanges])
    assert seen == [({"text": "Hi"}, "ada", "letters", "ada")]


async def test_a_provider_adds_instructions_and_messages(emulator: Emulator) -> None:
    class Customer(af.ContextProvider):
        async def before_run(self, *, agent: Any, session: Any, context: af.SessionContext, state: dict[str, Any]) -> None:
            context.extend_instructions(self.source_id, "The customer is called Ada.")
            context.extend_messages(self, [af.Message("user", ["I live in Lisbon."])])

    client = af.OpenAIResponsesClient("gpt-5.1")
    await client.as_agent(name="a", instructions="You greet.", context_providers=[Customer("customer")]).run("Bye")
    body = emulator.exchanges[-1].request_body
    assert body["instructions"] == "You greet.\n\nThe customer is called Ada."
    assert [item["content"] for item in body["input"]] == ["I live in Lisbon.", "Bye"]


async def test_a_history_provider_is_accepted_and_never_asked(emulator: Emulator) -> None:
    class Mine(af.HistoryProvider):
        """It only has a name of its own."""

    explain.cache_clear()
    client = af.OpenAIResponsesClient("gpt-5.1")
    for provider in (Mine(), af.InMemoryHistoryProvider(), af.FileHistoryProvider("folder")):
        with pytest.warns(MeansNothingHere, match=f"{type(provider).__name__} means nothing here: the ledger owns the history"):
            agent = client.as_agent(name="a", context_providers=[provider])
        session = agent.create_session()
        for _ in range(2):
            await agent.run("Bye", session=session)
        assert len([item for item in emulator.exchanges[-1].request_body["input"] if item.get("role")]) == 3


@pytest.mark.parametrize("method", ["get_messages", "save_messages", "before_run", "after_run"])
@pytest.mark.parametrize("base", [af.HistoryProvider, af.InMemoryHistoryProvider], ids=["history", "in memory"])
def test_overridden_history_provider_is_refused(base: Any, method: str) -> None:
    async def redact(self: Any, *given: Any, **named: Any) -> list[Any]:
        return []

    provider = type("Redacting", (base,), {method: redact})("history")
    with pytest.raises(BuildError, match=f"Redacting has its own {method}, which would not be called"):
        af.OpenAIResponsesClient("gpt-5.1").as_agent(name="a", context_providers=[provider])


def test_provider_with_old_methods_is_refused() -> None:
    class Redacting(af.ContextProvider):
        async def invoking(self, messages: Any, **_: Any) -> Any:
            return None

    with pytest.raises(BuildError, match="before_run and after_run"):
        af.OpenAIResponsesClient("gpt-5.1").as_agent(name="a", context_providers=[Redacting("mine")])


@pytest.mark.usefixtures("emulator")
async def test_any_legato_store_can_hold_checkpoints(tmp_path: Path) -> None:
    storage = af.CheckpointStorage(SQLiteStore(tmp_path / "mine.sqlite"))
    await desk(storage).run("Pay me 5")
    (checkpoint,) = await storage.list_checkpoints(workflow_name="desk")
    assert len(checkpoint.pending_request_info_events) == 1
    await storage.close()
    assert (tmp_path / "mine.sqlite").exists()


@pytest.mark.usefixtures("emulator")
async def test_run_emits_events_and_a_final_transcript() -> None:
    workflow = desk(af.InMemoryCheckpointStorage())
    result = await workflow.run("Pay me 5", include_status_events=True)
    told = [(event.type, event.executor_id) for event in result]
    assert told[:4] == [("started", None), ("status", None), ("output", "triage"), ("handoff_sent", "triage")]
    assert [event.type for event in result][-2:] == ["request_info", "status"]
    (sent,) = (event.data for event in result if event.type == "handoff_sent")
    assert (sent.source, sent.target) == ("triage", "payer")
    (asked,) = result.get_request_info_events()
    (turn,) = (await workflow.run(responses={asked.request_id: True})).get_request_info_events()
    *_, messages = (await workflow.run(responses={turn.request_id: "Bye"})).get_outputs()
    assert [message.text for message in messages] == ["Pay me 5", "One moment.", "The tool said: paid 5.0.", "Bye", "Goodbye!"]


async def test_an_agent_is_a_tool_of_another() -> None:
    script = [
        ScriptRule(instructions="You know", say="42"),
        ScriptRule(after_tool="ask_sage", say="The sage says so."),
        ScriptRule(say=ScriptedCall("ask_sage", {"task": "What is it?"})),
    ]
    with serve(fake_model=script) as emulator:
        client = af.OpenAIResponsesClient("gpt-5.1", base_url=emulator.openai_url, api_key="any")
        sage = client.as_agent(name="sage", instructions="You know.")
        answer = await client.as_agent(name="clerk", instructions="You ask.", tools=[sage.as_tool(name="ask_sage")]).run("What?")
        assert answer.text == "The sage says so."
        assert emulator.exchanges[-1].request_body["input"][-1]["output"] == "42"


@pytest.mark.usefixtures("emulator")
async def test_older_spellings_still_work() -> None:
    client = af.OpenAIResponsesClient(model_id="gpt-5.1")
    agent, other = client.create_agent(name="a", instructions="You greet."), client.create_agent(name="b")
    thread = agent.get_new_thread()
    assert isinstance(thread, af.AgentThread)
    assert "".join([update.text async for update in agent.run_stream("Bye", thread=thread)]) == "Goodbye!"
    workflow = af.HandoffBuilder(participants=[other, agent]).set_coordinator("a").build()
    assert workflow.start_executor_id == "a"
    events = [event async for event in workflow.run_stream(af.ChatMessage(role="user", text="Bye"))]
    (turn,) = [event for event in events if event.type == "request_info"]
    again = [event.type async for event in workflow.send_responses_streaming({turn.request_id: "Bye"})]
    assert "output" in again
    (turn,) = (await workflow.run(session_id=workflow.session_id)).get_request_info_events()
    assert (await workflow.send_responses({turn.request_id: "Bye"})).get_outputs()[-1].text == "Goodbye!"
