"""Function tools that clients send, over HTTP through OpenAI's own SDK: offered to agents, called, answered, in both APIs."""

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
from tests.server.openai.asking import approved, client_of
from tests.server.rooms import Refunds, chatting, refunding, served, session_of

PARAMETERS = {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"], "additionalProperties": False}
PAGE: dict[str, Any] = {"type": "function", "name": "open_page", "description": "Opens a page.", "parameters": PARAMETERS, "strict": True}
CLOCK: dict[str, Any] = {"type": "function", "name": "clock", "parameters": None, "strict": False}
OPENED = [call("open_page", url="x"), "Opened."]


def in_chat(tool: dict[str, Any]) -> dict[str, Any]:
    """The same tool as Chat Completions has it."""
    return {"type": "function", "function": {name: value for name, value in tool.items() if name != "type" and value is not None}}


def handing_over() -> Workflow:
    """Triage hands over at once; the desk opens two pages, one after the other."""
    model = ScriptedModel(
        by_agent={
            "triage": [["One moment.", handoff("desk")], "Hello again."],
            "desk": [["I look.", call("open_page", url="x"), call("clock")], call("open_page", url="y"), "Both are open."],
        }
    )
    return HandoffBuilder("pages", [Agent("triage", model=model), Agent("desk", model=model)]).build()


def output_of(item: Any, output: Any = "a page") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": item.call_id, "output": output}


def calls_in(response: Any) -> list[Any]:
    return [item for item in response.output if item.type == "function_call"]


def tool_message(call: Any, content: Any = "a page") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call.id, "content": content}


def written(message: Any) -> list[dict[str, Any]]:
    """Its calls, as a client sends them back."""
    calls = [(each.id, each.function) for each in message.tool_calls]
    return [{"id": id, "type": "function", "function": {"name": each.name, "arguments": each.arguments}} for id, each in calls]


# -- Responses ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_calls_end_the_response_and_outputs_go_on(stream: bool) -> None:
    workflow = handing_over()

    def respond(**more: Any) -> Any:
        if not stream:
            return client.responses.create(model="pages", tools=[PAGE, CLOCK], **more)
        with client.responses.stream(model="pages", tools=[PAGE, CLOCK], **more) as events:
            return events.get_final_response()

    with served(workflow) as server:
        client = client_of(server)
        first = respond(input="Open both")
        assert [item.type for item in first.output] == ["message", "mcp_call", "message", "function_call", "function_call"]
        assert [(item.name, item.arguments) for item in calls_in(first)] == [("open_page", '{"url": "x"}'), ("clock", "{}")]
        second = respond(previous_response_id=first.id, input=[output_of(item) for item in calls_in(first)])
        assert [item.type for item in second.output] == ["function_call"]
        third = respond(previous_response_id=second.id, input=[output_of(calls_in(second)[0])])
        assert (third.output_text, third.status) == ("Both are open.", "completed")
        assert [item.type for item in third.output] == ["message"]
        assert third.tool_choice == "auto"
        assert [(tool.name, tool.description, tool.parameters) for tool in third.tools] == [
            ("open_page", "Opens a page.", PARAMETERS),
            ("clock", None, {"type": "object", "properties": {}}),
        ]
        again = client.responses.retrieve(third.id)
        assert (again.tools, again.text, again.tool_choice, again.output_text) == (third.tools, third.text, "auto", "Both are open.")


def test_streamed_calls_come_in_their_steps() -> None:
    with served(chatting(OPENED)) as server:
        events = list(client_of(server).responses.create(model="chat", input="Open x", tools=[PAGE], stream=True))
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
    with served(handing_over()) as server:
        client, conversations = client_of(server), set()
        for _ in range(3):
            response = client.responses.create(model="pages", tools=[PAGE, CLOCK], input=history)
            conversations.add(response.conversation.id)
            history += [item.to_dict() for item in response.output]
            history += [output_of(item) for item in calls_in(response)]
        assert (response.output_text, len(conversations)) == ("Both are open.", 1)


def test_an_output_may_have_pictures() -> None:
    with served(chatting(OPENED)) as server:
        client = client_of(server)
        (waits,) = calls_in(first := client.responses.create(model="chat", input="Open x", tools=[PAGE]))
        parts = [{"type": "input_text", "text": "a page"}, {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}]
        done = client.responses.create(model="chat", previous_response_id=first.id, input=[output_of(waits, parts)])
        assert done.output_text == "Opened."
        facts = session_of(server, server.serving.workflows["chat"], done.conversation.id).facts
    (answered,) = [fact for fact in facts if isinstance(fact, Decided)]
    assert [type(part) for part in answered.output] == [Text, Image]


def test_outputs_of_a_call_count_once() -> None:
    with served(chatting(OPENED)) as server:
        client = client_of(server)
        (waits,) = calls_in(first := client.responses.create(model="chat", input="Open x", tools=[PAGE]))
        with pytest.raises(openai.BadRequestError, match="answered before, in the same request"):
            client.responses.create(model="chat", previous_response_id=first.id, input=[output_of(waits), output_of(waits, "no")])
        client.responses.create(model="chat", previous_response_id=first.id, input=[output_of(waits)])
        for output in ("a page", "another"):
            with pytest.raises(openai.ConflictError, match="not pending"):
                client.responses.create(model="chat", previous_response_id=first.id, input=[output_of(waits, output)])


def test_a_call_id_of_nobody_is_refused() -> None:
    with served(chatting(OPENED)) as server:
        client = client_of(server)
        told = {"type": "function_call_output", "call_id": "call_x", "output": "a page"}
        with pytest.raises(openai.BadRequestError, match="needs the conversation that asked"):
            client.responses.create(model="chat", input=[told])
        first = client.responses.create(model="chat", input="Open x", tools=[PAGE])
        with pytest.raises(openai.ConflictError, match="names no request"):
            client.responses.create(model="chat", previous_response_id=first.id, input=[told])


def test_wrong_arguments_never_reach_the_client() -> None:
    with served(chatting([call("open_page", url=7), *OPENED])) as server:
        response = client_of(server).responses.create(model="chat", input="Open x", tools=[PAGE])
    assert [(item.type, item.arguments) for item in response.output] == [("function_call", '{"url": "x"}')]


def test_another_server_takes_the_output(tmp_path: Path) -> None:
    workflow = chatting([], model=ScriptedModel(by_agent={"ada": OPENED}))
    with served(workflow, store=SQLiteStore(tmp_path / "s.db")) as server:
        (waits,) = calls_in(client_of(server).responses.create(model="chat", input="Open x", tools=[PAGE]))
    with served(workflow, store=SQLiteStore(tmp_path / "s.db")) as server:
        done = client_of(server).responses.create(model="chat", input=[output_of(waits)], tools=[PAGE])
    assert done.output_text == "Opened."


def test_two_clients_have_their_own_tools() -> None:
    workflow = chatting([call("open_page", url="x"), call("clock"), "It is noon."])
    with served(workflow) as server:
        one, other = client_of(server), client_of(server)
        (page,) = calls_in(one.responses.create(model="chat", conversation="c", input="Open x", tools=[PAGE]))
        (again,) = calls_in(other.responses.create(model="chat", conversation="c", input="What time is it?", tools=[CLOCK]))
        assert again.call_id == page.call_id
        (clock,) = calls_in(other.responses.create(model="chat", conversation="c", input=[output_of(page)], tools=[CLOCK]))
        done = one.responses.create(model="chat", conversation="c", input=[output_of(clock, "noon")])
        assert (done.output_text, done.tools) == ("It is noon.", [])


def test_a_superseded_call_takes_no_output() -> None:
    model = ScriptedModel([call("open_page", url="x"), "Very well."])
    workflow = HandoffBuilder("chat", [Agent("ada", model=model)]).with_messages("supersede").build()
    with served(workflow) as server:
        client = client_of(server)
        (page,) = calls_in(client.responses.create(model="chat", conversation="c", input="Open x", tools=[PAGE]))
        assert client.responses.create(model="chat", conversation="c", input="Never mind", tools=[PAGE]).output_text == "Very well."
        with pytest.raises(openai.ConflictError, match="overtaken"):
            client.responses.create(model="chat", conversation="c", input=[output_of(page)], tools=[PAGE])


def test_names_that_agents_have_are_refused() -> None:
    with served(Refunds().workflow) as server:
        for name in ("look_up", "ask_bank"):
            with pytest.raises(openai.BadRequestError, match=f"named '{name}' of its own") as refused:
                client_of(server).responses.create(model="desk", input="Hi", tools=[{**PAGE, "name": name}])
            assert refused.value.param == "tools"
        assert server.serving.store._ledgers == {}


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
def test_a_choice_of_tools_is_kept(choice: Any, offered: list[str], required: bool) -> None:
    workflow = chatting(["Hello.", call("clock"), call("clock")])
    with served(workflow) as server:
        response = client_of(server).responses.create(model="chat", input="Hi", tools=[PAGE, CLOCK], tool_choice=choice)
        said = session_of(server, workflow, response.conversation.id).facts[1]
    assert isinstance(said, MessageReceived)
    options = said.options
    assert [tool.name for tool in options.tools] == offered if options else offered == []
    assert bool(options and options.required) is required
    assert [item.type for item in response.output] == (["function_call"] if required else ["message"])


def test_a_required_call_that_never_comes_is_an_error() -> None:
    with served(chatting(["No."] * 5)) as server:
        client = client_of(server)
        with pytest.raises(openai.InternalServerError, match="calls none of these tools") as failed:
            client.responses.create(model="chat", conversation="c", input="Hi", tools=[PAGE], tool_choice="required")
        assert failed.value.code == "output_not_accepted"


# -- Chat Completions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_a_chat_answers_calls_without_naming_its_session(stream: bool) -> None:
    messages: list[Any] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Open both"}]
    workflow, tools = handing_over(), [in_chat(PAGE), in_chat(CLOCK)]
    with served(workflow) as server:
        client, finishes, sessions = client_of(server), [], set()
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
                messages[-1]["tool_calls"] = written(choice.message)
                messages += [tool_message(each) for each in choice.message.tool_calls]
        assert finishes == [("tool_calls", ['{"url": "x"}', "{}"]), ("tool_calls", ['{"url": "y"}']), ("stop", [])]
        assert choice.message.content == "Both are open."
        assert len(sessions) == 1
        (session,) = server.serving.store._ledgers
        assert [str(message) for message in session_of(server, workflow, session).messages if message.role == "user"] == ["user: Open both"]


def test_a_call_alone_has_no_content() -> None:
    with served(chatting(OPENED)) as server:
        choice = (
            client_of(server)
            .chat.completions.create(model="chat", messages=[{"role": "user", "content": "Open x"}], tools=[in_chat(PAGE)])
            .choices[0]
        )
    assert (choice.message.content, choice.message.refusal, len(choice.message.tool_calls)) == (None, None, 1)


def test_words_behind_outputs_are_said_too() -> None:
    workflow = chatting(OPENED)
    with served(workflow) as server:
        client, asked = client_of(server), [{"role": "user", "content": "Open x"}]
        first = client.chat.completions.create(model="chat", messages=asked, tools=[in_chat(PAGE)])
        told = [tool_message(first.choices[0].message.tool_calls[0]), {"role": "user", "content": "Quick!"}]
        assistant = {"role": "assistant", "tool_calls": written(first.choices[0].message)}
        done = client.chat.completions.create(model="chat", messages=[*asked, assistant, *told], tools=[in_chat(PAGE)])
        assert done.choices[0].message.content == "Opened."
        (session,) = server.serving.store._ledgers
        assert [str(each) for each in session_of(server, workflow, session).messages] == ["user: Open x", "user: Quick!", "ada: Opened."]


def test_a_chat_with_a_named_session_answers_in_it() -> None:
    with served(chatting(OPENED), chatting(OPENED, "other")) as server:
        client, here = client_of(server), {"extra_headers": {"Legato-Session": "c"}}
        first = client.chat.completions.create(model="chat", messages=[{"role": "user", "content": "Hi"}], tools=[in_chat(PAGE)], **here)
        told = [tool_message(first.choices[0].message.tool_calls[0])]
        for elsewhere in ({"model": "chat", "extra_headers": {"Legato-Session": "d"}}, {"model": "other"}):
            with pytest.raises(openai.BadRequestError):
                client.chat.completions.create(messages=told, **elsewhere)
        assert client.chat.completions.create(model="chat", messages=told, **here).choices[0].message.content == "Opened."


def test_an_output_sent_again_is_refused_without_its_key() -> None:
    with served(chatting(OPENED)) as server:
        client, key = client_of(server), {"extra_headers": {"Idempotency-Key": "k"}}
        first = client.chat.completions.create(model="chat", messages=[{"role": "user", "content": "Hi"}], tools=[in_chat(PAGE)])
        told = [tool_message(first.choices[0].message.tool_calls[0])]
        done = [client.chat.completions.create(model="chat", messages=told, **key) for _ in range(2)]
        assert done[0].choices == done[1].choices
        with pytest.raises(openai.ConflictError, match="not pending"):
            client.chat.completions.create(model="chat", messages=told)


def test_calls_of_the_past_are_part_of_the_account() -> None:
    workflow = chatting(["Hello."])
    made = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    history = [
        {"role": "user", "content": "Open x"},
        {"role": "assistant", "content": None, "tool_calls": [made]},
        {"role": "tool", "tool_call_id": "c", "content": "a page"},
        {"role": "assistant", "content": "Opened."},
        {"role": "user", "content": "Thanks"},
    ]
    with served(workflow) as server:
        client_of(server).chat.completions.create(model="chat", messages=history)
        (session,) = server.serving.store._ledgers
        told = session_of(server, workflow, session).messages[0].text
    assert "assistant: [calls f({})]\ntool: a page\nassistant: Opened." in told


def test_the_next_turn_of_a_chat_goes_on_in_its_session() -> None:
    workflow = chatting([*OPENED, "You are welcome."])
    with served(workflow) as server:
        messages: list[Any] = [{"role": "user", "content": "Open x"}]
        client = client_of(server)
        made = client.chat.completions.create(model="chat", messages=messages, tools=[in_chat(PAGE)]).choices[0].message
        messages += [{"role": "assistant", "tool_calls": written(made)}, tool_message(made.tool_calls[0])]
        client.chat.completions.create(model="chat", messages=messages)
        messages += [{"role": "assistant", "content": "Invented."}, {"role": "user", "content": "Thanks"}]
        done = client.chat.completions.create(model="chat", messages=messages)
        (session,) = server.serving.store._ledgers
        told = [str(each) for each in session_of(server, workflow, session).messages]
    assert done.choices[0].message.content == "You are welcome."
    assert told == ["user: Open x", "ada: Opened.", "user: Thanks", "ada: You are welcome."]


def test_turns_without_ids_are_told_in_a_branch() -> None:
    workflow = chatting([*OPENED, "Two.", "Three."])
    with served(workflow) as server:
        client = client_of(server)
        history: list[Any] = [{"role": "user", "content": "Open x"}]
        (waits,) = calls_in(client.responses.create(model="chat", input=history, tools=[PAGE]))
        history += [waits.to_dict(), output_of(waits)]
        for words in ("Opened.", "Two."):
            assert client.responses.create(model="chat", input=history).output_text == words
            history += [{"role": "assistant", "content": words}, {"role": "user", "content": f"after {words}"}]
        third = client.responses.create(model="chat", input=history)
        first, branch = [session_of(server, workflow, id).messages for id in server.serving.store._ledgers]
    assert [each.text for each in first] == ["Open x", "Opened.", "after Opened.", "Two."]
    assert third.output_text == "Three."
    assert [each.text for each in branch[:2]] == ["Open x", "Opened."]
    assert branch[2].text.endswith("user: after Opened.\nassistant: Two.\nAnd now the user says:\nafter Two.")


def test_history_of_a_deleted_session_is_an_account() -> None:
    workflow = chatting([*OPENED, "You are welcome."])
    with served(workflow, chatting(["Hello."], "other")) as server:
        messages: list[Any] = [{"role": "user", "content": "Open x"}]
        client = client_of(server)
        made = client.chat.completions.create(model="chat", messages=messages, tools=[in_chat(PAGE)]).choices[0].message
        messages += [{"role": "assistant", "tool_calls": written(made)}, tool_message(made.tool_calls[0])]
        client.chat.completions.create(model="chat", messages=messages)
        history = [*messages, {"role": "assistant", "content": "Opened."}, {"role": "user", "content": "Thanks"}]
        assert client.chat.completions.create(model="other", messages=history).choices[0].message.content == "Hello."
        (session,) = [id for id in server.serving.store._ledgers if id.startswith("chat")]
        asyncio.run(server.serving.store.delete(session))
        assert client.chat.completions.create(model="chat", messages=history).choices[0].message.content == "You are welcome."
        with pytest.raises(openai.BadRequestError, match="names no item"):
            client.chat.completions.create(model="chat", messages=messages)
        (session,) = [id for id in server.serving.store._ledgers if id.startswith("chat")]
        assert "tool: a page" in session_of(server, workflow, session).messages[0].text


# -- approvals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "param"),
    [
        ({"tools": [CLOCK]}, "tools"),
        ({"tools": [PAGE], "tool_choice": "required"}, "tools"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format"),
    ],
)
def test_an_approval_brings_nothing_else_along(other: dict[str, Any], param: str) -> None:
    desk = refunding()
    with served(desk.workflow) as server:
        client = client_of(server)
        asked = client.responses.create(model="desk", input="Refund 7", tools=[PAGE])
        given = {"model": "desk", "previous_response_id": asked.id, "input": [approved(asked.output[-1])]}
        with pytest.raises(openai.BadRequestError, match="and these are others") as refused:
            client.responses.create(**given, **other)
        assert refused.value.param == param
        assert desk.paid == []
        paid = client.responses.create(**given, tools=[PAGE])
    assert (paid.output_text, desk.paid, [tool.name for tool in paid.tools]) == ("It is paid.", ["7"], ["open_page"])


def test_an_approval_needs_no_tools_again() -> None:
    desk = refunding()
    with served(desk.workflow) as server:
        client = client_of(server)
        asked = client.responses.create(model="desk", input="Refund 7", tools=[PAGE])
        paid = client.responses.create(model="desk", previous_response_id=asked.id, input=[approved(asked.output[-1])])
    assert (paid.output_text, [tool.name for tool in paid.tools]) == ("It is paid.", ["open_page"])
