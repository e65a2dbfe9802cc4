"""Function tools of clients, in both APIs with OpenAI's SDK: they are offered to agents, called and answered."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import openai
import pytest

from legato import Agent, HandoffBuilder, Workflow
from legato.core.facts import Decided, Image, MessageReceived, Text
from legato.stores import SQLiteStore
from legato.testing import ScriptedModel, call, handoff
from tests.server.openai.openai_client import make_approval, make_client
from tests.server.workflows import RefundDesk, load_session, make_chat, make_refund_desk, run_server

PARAMETERS = {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"], "additionalProperties": False}
PAGE: dict[str, Any] = {"type": "function", "name": "open_page", "description": "Opens a page.", "parameters": PARAMETERS, "strict": True}
CLOCK: dict[str, Any] = {"type": "function", "name": "clock", "parameters": None, "strict": False}
OPEN_SCRIPT = [call("open_page", url="x"), "Opened."]


def to_chat_tool(tool: dict[str, Any]) -> dict[str, Any]:
    """The same tool as Chat Completions has it."""
    return {"type": "function", "function": {name: value for name, value in tool.items() if name != "type" and value is not None}}


def make_handoff_workflow() -> Workflow:
    """Triage hands over at once; the desk opens two pages, one after the other."""
    model = ScriptedModel(
        by_agent={
            "triage": [["One moment.", handoff("desk")], "Hello again."],
            "desk": [["I look.", call("open_page", url="x"), call("clock")], call("open_page", url="y"), "Both are open."],
        }
    )
    return HandoffBuilder("pages", [Agent("triage", model=model), Agent("desk", model=model)]).build()


def make_output(item: Any, output: Any = "a page") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": item.call_id, "output": output}


def find_calls(response: Any) -> list[Any]:
    return [item for item in response.output if item.type == "function_call"]


def tool_message(call: Any, content: Any = "a page") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call.id, "content": content}


def to_chat_history(message: Any) -> list[dict[str, Any]]:
    """Its calls, as a client sends them back."""
    calls = [(each.id, each.function) for each in message.tool_calls]
    return [{"id": id, "type": "function", "function": {"name": each.name, "arguments": each.arguments}} for id, each in calls]


# -- Responses ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_client_call_ends_response_until_output_arrives(stream: bool) -> None:
    workflow = make_handoff_workflow()

    def respond(**more: Any) -> Any:
        if not stream:
            return client.responses.create(model="pages", tools=[PAGE, CLOCK], **more)
        with client.responses.stream(model="pages", tools=[PAGE, CLOCK], **more) as events:
            return events.get_final_response()

    with run_server(workflow) as server:
        client = make_client(server)
        first = respond(input="Open both")
        assert [item.type for item in first.output] == ["message", "mcp_call", "message", "function_call", "function_call"]
        assert [(item.name, item.arguments) for item in find_calls(first)] == [("open_page", '{"url": "x"}'), ("clock", "{}")]
        second = respond(previous_response_id=first.id, input=[make_output(item) for item in find_calls(first)])
        assert [item.type for item in second.output] == ["function_call"]
        third = respond(previous_response_id=second.id, input=[make_output(find_calls(second)[0])])
        assert (third.output_text, third.status) == ("Both are open.", "completed")
        assert [item.type for item in third.output] == ["message"]
        assert third.tool_choice == "auto"
        assert [(tool.name, tool.description, tool.parameters) for tool in third.tools] == [
            ("open_page", "Opens a page.", PARAMETERS),
            ("clock", None, {"type": "object", "properties": {}}),
        ]
        again = client.responses.retrieve(third.id)
        assert (again.tools, again.text, again.tool_choice, again.output_text) == (third.tools, third.text, "auto", "Both are open.")


def test_client_calls_are_streamed_in_steps() -> None:
    with run_server(make_chat(OPEN_SCRIPT)) as server:
        events = list(make_client(server).responses.create(model="chat", input="Open x", tools=[PAGE], stream=True))
    kinds = [event.type for event in events if "function_call" in event.type or "output_item" in event.type]
    assert kinds == [
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
    ]
    assert events[-1].type == "response.completed"


def test_history_by_value_finds_its_conversation() -> None:
    history: list[Any] = [{"role": "user", "content": "Open both"}]
    with run_server(make_handoff_workflow()) as server:
        client, conversations = make_client(server), set()
        for _ in range(3):
            response = client.responses.create(model="pages", tools=[PAGE, CLOCK], input=history)
            conversations.add(response.conversation.id)
            history += [item.to_dict() for item in response.output]
            history += [make_output(item) for item in find_calls(response)]
        assert (response.output_text, len(conversations)) == ("Both are open.", 1)


def test_call_output_may_contain_images() -> None:
    with run_server(make_chat(OPEN_SCRIPT)) as server:
        client = make_client(server)
        (waits,) = find_calls(first := client.responses.create(model="chat", input="Open x", tools=[PAGE]))
        parts = [{"type": "input_text", "text": "a page"}, {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}]
        done = client.responses.create(model="chat", previous_response_id=first.id, input=[make_output(waits, parts)])
        assert done.output_text == "Opened."
        facts = load_session(server, server.registry.workflows["chat"], done.conversation.id).facts
    (answered,) = [fact for fact in facts if isinstance(fact, Decided)]
    assert [type(part) for part in answered.output] == [Text, Image]


def test_call_output_is_recorded_once() -> None:
    with run_server(make_chat(OPEN_SCRIPT)) as server:
        client = make_client(server)
        (waits,) = find_calls(first := client.responses.create(model="chat", input="Open x", tools=[PAGE]))
        with pytest.raises(openai.BadRequestError, match="two answers to the same call or request"):
            client.responses.create(model="chat", previous_response_id=first.id, input=[make_output(waits), make_output(waits, "no")])
        client.responses.create(model="chat", previous_response_id=first.id, input=[make_output(waits)])
        for output in ("a page", "another"):
            with pytest.raises(openai.ConflictError, match="not pending"):
                client.responses.create(model="chat", previous_response_id=first.id, input=[make_output(waits, output)])


def test_unknown_call_id_is_refused() -> None:
    with run_server(make_chat(OPEN_SCRIPT)) as server:
        client = make_client(server)
        told = {"type": "function_call_output", "call_id": "call_x", "output": "a page"}
        with pytest.raises(openai.BadRequestError, match="needs the conversation of the request"):
            client.responses.create(model="chat", input=[told])
        first = client.responses.create(model="chat", input="Open x", tools=[PAGE])
        with pytest.raises(openai.ConflictError, match="is not the id of a request"):
            client.responses.create(model="chat", previous_response_id=first.id, input=[told])


def test_wrong_arguments_never_reach_the_client() -> None:
    with run_server(make_chat([call("open_page", url=7), *OPEN_SCRIPT])) as server:
        response = make_client(server).responses.create(model="chat", input="Open x", tools=[PAGE])
    assert [(item.type, item.arguments) for item in response.output] == [("function_call", '{"url": "x"}')]


def test_another_server_takes_the_output(tmp_path: Path) -> None:
    workflow = make_chat([], model=ScriptedModel(by_agent={"ada": OPEN_SCRIPT}))
    with run_server(workflow, store=SQLiteStore(tmp_path / "s.db")) as server:
        (waits,) = find_calls(make_client(server).responses.create(model="chat", input="Open x", tools=[PAGE]))
    with run_server(workflow, store=SQLiteStore(tmp_path / "s.db")) as server:
        done = make_client(server).responses.create(model="chat", input=[make_output(waits)], tools=[PAGE])
    assert done.output_text == "Opened."


def test_two_clients_have_their_own_tools() -> None:
    workflow = make_chat([call("open_page", url="x"), call("clock"), "It is noon."])
    with run_server(workflow) as server:
        one, other = make_client(server), make_client(server)
        (page,) = find_calls(one.responses.create(model="chat", conversation="c", input="Open x", tools=[PAGE]))
        (again,) = find_calls(other.responses.create(model="chat", conversation="c", input="What time is it?", tools=[CLOCK]))
        assert again.call_id == page.call_id
        (clock,) = find_calls(other.responses.create(model="chat", conversation="c", input=[make_output(page)], tools=[CLOCK]))
        done = one.responses.create(model="chat", conversation="c", input=[make_output(clock, "noon")])
        assert (done.output_text, done.tools) == ("It is noon.", [])


def test_a_superseded_call_takes_no_output() -> None:
    model = ScriptedModel([call("open_page", url="x"), "Very well."])
    workflow = HandoffBuilder("chat", [Agent("ada", model=model)]).with_messages("supersede").build()
    with run_server(workflow) as server:
        client = make_client(server)
        (page,) = find_calls(client.responses.create(model="chat", conversation="c", input="Open x", tools=[PAGE]))
        assert client.responses.create(model="chat", conversation="c", input="Never mind", tools=[PAGE]).output_text == "Very well."
        with pytest.raises(openai.ConflictError, match="superseded"):
            client.responses.create(model="chat", conversation="c", input=[make_output(page)], tools=[PAGE])


def test_client_tool_name_clash_is_refused() -> None:
    with run_server(RefundDesk().workflow) as server:
        for name in ("look_up", "ask_bank"):
            with pytest.raises(openai.BadRequestError, match=f"already has a tool or handoff named '{name}'") as refused:
                make_client(server).responses.create(model="desk", input="Hi", tools=[{**PAGE, "name": name}])
            assert refused.value.param == "tools"
        assert server.registry.store._ledgers == {}


@pytest.mark.parametrize(
    ("choice", "offered", "required"),
    [
        ("auto", ["open_page", "clock"], False),
        ("none", [], False),
        ("required", ["open_page", "clock"], True),
        ({"type": "function", "name": "clock"}, ["clock"], True),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "clock"}]}, ["clock"], False),
        ({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "clock"}]}, ["clock"], True),
    ],
)
def test_tool_choice_is_respected(choice: Any, offered: list[str], required: bool) -> None:
    workflow = make_chat(["Hello.", call("clock"), call("clock")])
    with run_server(workflow) as server:
        response = make_client(server).responses.create(model="chat", input="Hi", tools=[PAGE, CLOCK], tool_choice=choice)
        said = load_session(server, workflow, response.conversation.id).facts[1]
    assert isinstance(said, MessageReceived)
    options = said.options
    assert [tool.name for tool in options.tools] == offered if options else offered == []
    assert bool(options and options.required) is required
    assert [item.type for item in response.output] == (["function_call"] if required else ["message"])


def test_missing_required_call_is_an_error() -> None:
    with run_server(make_chat(["No."] * 5)) as server:
        client = make_client(server)
        with pytest.raises(openai.InternalServerError, match="calls none of these tools") as failed:
            client.responses.create(model="chat", conversation="c", input="Hi", tools=[PAGE], tool_choice="required")
        assert failed.value.code == "output_not_accepted"


# -- Chat Completions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_chat_output_finds_session_by_call_id(stream: bool) -> None:
    messages: list[Any] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Open both"}]
    workflow, tools = make_handoff_workflow(), [to_chat_tool(PAGE), to_chat_tool(CLOCK)]
    with run_server(workflow) as server:
        client, finishes, sessions = make_client(server), [], set()
        for _ in range(3):
            if stream:
                with client.chat.completions.stream(model="pages", messages=messages, tools=tools) as events:
                    completion = events.get_final_completion()
            else:
                completion = client.chat.completions.create(model="pages", messages=messages, tools=tools)
            choice = completion.choices[0]
            finishes.append((choice.finish_reason, [each.function.arguments for each in choice.message.tool_calls or ()]))
            sessions.add(completion.id.rpartition("_")[2])
            messages.append({"role": "assistant", "content": choice.message.content})
            if choice.message.tool_calls:
                messages[-1]["tool_calls"] = to_chat_history(choice.message)
                messages += [tool_message(each) for each in choice.message.tool_calls]
        assert finishes == [("tool_calls", ['{"url": "x"}', "{}"]), ("tool_calls", ['{"url": "y"}']), ("stop", [])]
        assert choice.message.content == "Both are open."
        assert len(sessions) == 1
        (session,) = server.registry.store._ledgers
        assert [str(message) for message in load_session(server, workflow, session).messages if message.role == "user"] == [
            "user: Open both"
        ]


def test_call_without_text_has_no_content() -> None:
    with run_server(make_chat(OPEN_SCRIPT)) as server:
        choice = (
            make_client(server)
            .chat.completions.create(model="chat", messages=[{"role": "user", "content": "Open x"}], tools=[to_chat_tool(PAGE)])
            .choices[0]
        )
    assert (choice.message.content, choice.message.refusal, len(choice.message.tool_calls)) == (None, None, 1)


def test_message_after_outputs_is_recorded_too() -> None:
    workflow = make_chat(OPEN_SCRIPT)
    with run_server(workflow) as server:
        client, asked = make_client(server), [{"role": "user", "content": "Open x"}]
        first = client.chat.completions.create(model="chat", messages=asked, tools=[to_chat_tool(PAGE)])
        told = [tool_message(first.choices[0].message.tool_calls[0]), {"role": "user", "content": "Quick!"}]
        assistant = {"role": "assistant", "tool_calls": to_chat_history(first.choices[0].message)}
        done = client.chat.completions.create(model="chat", messages=[*asked, assistant, *told], tools=[to_chat_tool(PAGE)])
        assert done.choices[0].message.content == "Opened."
        (session,) = server.registry.store._ledgers
        assert [str(each) for each in load_session(server, workflow, session).messages] == ["user: Open x", "user: Quick!", "ada: Opened."]


def test_chat_output_is_recorded_in_named_session() -> None:
    with run_server(make_chat(OPEN_SCRIPT), make_chat(OPEN_SCRIPT, "other")) as server:
        client, here = make_client(server), {"extra_headers": {"Legato-Session": "c"}}
        first = client.chat.completions.create(
            model="chat", messages=[{"role": "user", "content": "Hi"}], tools=[to_chat_tool(PAGE)], **here
        )
        told = [tool_message(first.choices[0].message.tool_calls[0])]
        for elsewhere in ({"model": "chat", "extra_headers": {"Legato-Session": "d"}}, {"model": "other"}):
            with pytest.raises(openai.BadRequestError):
                client.chat.completions.create(messages=told, **elsewhere)
        assert client.chat.completions.create(model="chat", messages=told, **here).choices[0].message.content == "Opened."


def test_repeated_output_without_key_is_refused() -> None:
    with run_server(make_chat(OPEN_SCRIPT)) as server:
        client, key = make_client(server), {"extra_headers": {"Idempotency-Key": "k"}}
        first = client.chat.completions.create(model="chat", messages=[{"role": "user", "content": "Hi"}], tools=[to_chat_tool(PAGE)])
        told = [tool_message(first.choices[0].message.tool_calls[0])]
        done = [client.chat.completions.create(model="chat", messages=told, **key) for _ in range(2)]
        assert done[0].choices == done[1].choices
        with pytest.raises(openai.ConflictError, match="not pending"):
            client.chat.completions.create(model="chat", messages=told)


def test_earlier_calls_become_part_of_transcript() -> None:
    workflow = make_chat(["Hello."])
    made = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    history = [
        {"role": "user", "content": "Open x"},
        {"role": "assistant", "content": None, "tool_calls": [made]},
        {"role": "tool", "tool_call_id": "c", "content": "a page"},
        {"role": "assistant", "content": "Opened."},
        {"role": "user", "content": "Thanks"},
    ]
    with run_server(workflow) as server:
        make_client(server).chat.completions.create(model="chat", messages=history)
        (session,) = server.registry.store._ledgers
        told = load_session(server, workflow, session).messages[0].text
    assert "assistant: [calls f({})]\ntool: a page\nassistant: Opened." in told


def test_next_chat_request_continues_its_session() -> None:
    """The outputs in its history identify the session."""
    workflow = make_chat([*OPEN_SCRIPT, "You are welcome."])
    with run_server(workflow) as server:
        messages: list[Any] = [{"role": "user", "content": "Open x"}]
        client = make_client(server)
        made = client.chat.completions.create(model="chat", messages=messages, tools=[to_chat_tool(PAGE)]).choices[0].message
        messages += [{"role": "assistant", "tool_calls": to_chat_history(made)}, tool_message(made.tool_calls[0])]
        client.chat.completions.create(model="chat", messages=messages)
        messages += [{"role": "assistant", "content": "Invented."}, {"role": "user", "content": "Thanks"}]
        done = client.chat.completions.create(model="chat", messages=messages)
        (session,) = server.registry.store._ledgers
        told = [str(each) for each in load_session(server, workflow, session).messages]
    assert done.choices[0].message.content == "You are welcome."
    assert told == ["user: Open x", "ada: Opened.", "user: Thanks", "ada: You are welcome."]


def test_history_without_ids_continues_in_fork() -> None:
    workflow = make_chat([*OPEN_SCRIPT, "Two.", "Three."])
    with run_server(workflow) as server:
        client = make_client(server)
        history: list[Any] = [{"role": "user", "content": "Open x"}]
        (waits,) = find_calls(client.responses.create(model="chat", input=history, tools=[PAGE]))
        history += [waits.to_dict(), make_output(waits)]
        for words in ("Opened.", "Two."):
            assert client.responses.create(model="chat", input=history).output_text == words
            history += [{"role": "assistant", "content": words}, {"role": "user", "content": f"after {words}"}]
        third = client.responses.create(model="chat", input=history)
        first, branch = [load_session(server, workflow, id).messages for id in server.registry.store._ledgers]
    assert [each.text for each in first] == ["Open x", "Opened.", "after Opened.", "Two."]
    assert third.output_text == "Three."
    assert [each.text for each in branch[:2]] == ["Open x", "Opened."]
    assert branch[2].text.endswith("user: after Opened.\nassistant: Two.\nAnd now the user says:\nafter Two.")


def test_history_of_deleted_session_becomes_transcript() -> None:
    workflow = make_chat([*OPEN_SCRIPT, "You are welcome."])
    with run_server(workflow, make_chat(["Hello."], "other")) as server:
        messages: list[Any] = [{"role": "user", "content": "Open x"}]
        client = make_client(server)
        made = client.chat.completions.create(model="chat", messages=messages, tools=[to_chat_tool(PAGE)]).choices[0].message
        messages += [{"role": "assistant", "tool_calls": to_chat_history(made)}, tool_message(made.tool_calls[0])]
        client.chat.completions.create(model="chat", messages=messages)
        history = [*messages, {"role": "assistant", "content": "Opened."}, {"role": "user", "content": "Thanks"}]
        assert client.chat.completions.create(model="other", messages=history).choices[0].message.content == "Hello."
        (session,) = [id for id in server.registry.store._ledgers if id.startswith("chat")]
        asyncio.run(server.registry.store.delete(session))
        assert client.chat.completions.create(model="chat", messages=history).choices[0].message.content == "You are welcome."
        with pytest.raises(openai.BadRequestError, match="has no such item"):
            client.chat.completions.create(model="chat", messages=messages)
        (session,) = [id for id in server.registry.store._ledgers if id.startswith("chat")]
        assert "tool: a page" in load_session(server, workflow, session).messages[0].text


# -- approvals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "param"),
    [
        ({"tools": [CLOCK]}, "tools"),
        ({"tools": [PAGE], "tool_choice": "required"}, "tools"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format"),
    ],
)
def test_approval_cannot_change_run_options(other: dict[str, Any], param: str) -> None:
    desk = make_refund_desk()
    with run_server(desk.workflow) as server:
        client = make_client(server)
        asked = client.responses.create(model="desk", input="Refund 7", tools=[PAGE])
        given = {"model": "desk", "previous_response_id": asked.id, "input": [make_approval(asked.output[-1])]}
        with pytest.raises(openai.BadRequestError, match="with other tools or another format") as refused:
            client.responses.create(**given, **other)
        assert refused.value.param == param
        assert desk.paid == []
        paid = client.responses.create(**given, tools=[PAGE])
    assert (paid.output_text, desk.paid, [tool.name for tool in paid.tools]) == ("It is paid.", ["7"], ["open_page"])


def test_approval_works_without_repeating_tools() -> None:
    desk = make_refund_desk()
    with run_server(desk.workflow) as server:
        client = make_client(server)
        asked = client.responses.create(model="desk", input="Refund 7", tools=[PAGE])
        paid = client.responses.create(model="desk", previous_response_id=asked.id, input=[make_approval(asked.output[-1])])
    assert (paid.output_text, [tool.name for tool in paid.tools]) == ("It is paid.", ["open_page"])
