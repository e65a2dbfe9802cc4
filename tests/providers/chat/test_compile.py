"""What is sent to Chat Completions: right by construction, the same every time, and nothing lost without being told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from legato.core.digests import digest_bytes
from legato.core.facts import Call, File, Hosted, Image, Reasoning, Refusal, Text, Words
from legato.core.history_policies import Dialogue, Summarised
from legato.core.turn_context import ToolSpec
from legato.core.view import Request
from legato.errors import IllegalRequest
from legato.models.check import check
from legato.providers.formats.chat.compile import compile_request
from legato.providers.formats.group_cache import cache_of
from legato.providers.formats.options import Options
from legato.providers.rules.names import wire_name
from tests.providers.chat.talk import (
    CLOSED,
    HERE,
    LETTER,
    LOOK_UP,
    OPEN,
    PICTURE,
    Talk,
    body,
    compiled,
    messages,
)

HELLO = {"role": "user", "content": "Hello"}
PIC = Image("image/jpeg", digest=digest_bytes(PICTURE))
PIC_PART = {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,iVBORyBhIHBpY3R1cmU="}}
DOC = File("letter.pdf", "application/pdf", digest=digest_bytes(LETTER))
DOC_PART = {"type": "file", "file": {"filename": "letter.pdf", "file_data": "data:application/pdf;base64,JVBERiBhIGxldHRlcg=="}}
LINK = File("plan.pdf", url="https://example.com/plan.pdf")
LINK_PART = {"type": "text", "text": "[file plan.pdf: https://example.com/plan.pdf]"}
LINK_LOSS = "file plan.pdf: this API takes no addresses of files; the model is told where it is"


# -- messages ----------------------------------------------------------------------------------------------------------


def test_instructions_come_first_then_what_the_frame_adds_then_the_summary_then_the_conversation() -> None:
    talk = Talk().says("Hello").replies("Hi!").sums_up("desk", "They greeted.").says("And now?")
    told = messages(talk.request(instructions="Be brief.", messages=("A note.", "Another."), history=Summarised(10)))
    assert told == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "A note."},
        {"role": "user", "content": "Another."},
        {"role": "user", "content": "Summary of the conversation so far:\nThey greeted."},
        {"role": "user", "content": "And now?"},
    ]


def test_an_agent_without_instructions_has_no_system_message() -> None:
    assert messages(Talk().says("Hello").request()) == [HELLO]


def test_the_words_and_calls_of_a_reply_are_one_message_and_every_output_follows_it_in_the_order_of_the_calls() -> None:
    calls = Call("look_up", '{"order":"A"}', "call_a"), Call("look_up", '{"order": "B"}', "call_b")
    talk = Talk().says("Hello").replies("One.", calls[0], Words("Two."), calls[1], outputs=["teapot", "kettle"]).says("And now?")
    assert messages(talk.request())[1:] == [
        {
            "role": "assistant",
            "content": "One.\nTwo.",
            "tool_calls": [
                {"id": "call_a", "type": "function", "function": {"name": "look_up", "arguments": '{"order":"A"}'}},
                {"id": "call_b", "type": "function", "function": {"name": "look_up", "arguments": '{"order": "B"}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_a", "content": "teapot"},
        {"role": "tool", "tool_call_id": "call_b", "content": "kettle"},
        {"role": "user", "content": "And now?"},
    ]


def test_a_message_that_came_while_a_call_was_open_follows_the_outputs() -> None:
    talk = Talk().says("Hello").replies(Call("look_up", "{}", "c"), outputs=["x"])
    talk.facts.insert(3, Talk().says("Wait!").facts[1])  # after the reply, before its tool was started
    assert [message["role"] for message in messages(talk.request())] == ["user", "assistant", "tool", "user"]


def test_a_reply_that_only_calls_has_no_content() -> None:
    told = messages(Talk().says("Hello").replies(Call("look_up", "{}", "c")).says("?").request())[1]
    assert told["content"] is None


def test_a_refusal_goes_back_as_the_words_it_was() -> None:
    assert messages(Talk().says("Hello").replies(Refusal("I won't.")).says("?").request())[1] == {
        "role": "assistant",
        "content": "I won't.",
    }


def test_a_reply_of_which_nothing_can_be_sent_is_left_out() -> None:
    talk = Talk().says("Hello").replies(Reasoning("Hm.", "gAAA"), finish="length").says("Go on")
    assert messages(talk.request()) == [HELLO, {"role": "user", "content": "Go on"}]


@pytest.mark.parametrize(
    ("content", "sent"),
    [
        pytest.param("Hello", "Hello", id="words"),
        pytest.param((Text("a"), Text("b")), [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], id="parts"),
        pytest.param((Text("a"), PIC), [{"type": "text", "text": "a"}, PIC_PART], id="a picture"),
        pytest.param((Image(url="https://x/y.png"),), [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}], id="its address"),
        pytest.param((DOC,), [DOC_PART], id="a file"),
        pytest.param((LINK,), [LINK_PART], id="a file's address"),
        pytest.param((File(url="https://x/y"),), [{"type": "text", "text": "[file: https://x/y]"}], id="a file's address without a name"),
    ],
)
def test_what_the_user_sends_is_written_as_the_api_has_it(content: Any, sent: Any) -> None:
    assert messages(Talk().says(content).request()) == [{"role": "user", "content": sent}]


def test_pictures_and_files_that_tools_return_follow_all_outputs_in_a_message_of_their_own() -> None:
    calls = Call("camera", "{}", "a"), Call("archive", "{}", "b"), Call("look_up", "{}", "c")
    talk = Talk().says("Hello").replies(*calls, outputs=[(Text("Snap."), PIC), (DOC, LINK), "plain"]).says("?")
    request = talk.request()
    assert messages(request)[2:] == [
        {
            "role": "tool",
            "tool_call_id": "a",
            "content": [
                {"type": "text", "text": "Snap."},
                {"type": "text", "text": "[picture: see the message after the tools' outputs]"},
            ],
        },
        {
            "role": "tool",
            "tool_call_id": "b",
            "content": [{"type": "text", "text": "[file letter.pdf: see the message after the tools' outputs]"}, LINK_PART],
        },
        {"role": "tool", "tool_call_id": "c", "content": "plain"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Returned by camera:"},
                PIC_PART,
                {"type": "text", "text": "Returned by archive:"},
                DOC_PART,
            ],
        },
        {"role": "user", "content": "?"},
    ]
    assert compiled(request).losses == (LINK_LOSS,)


def test_bytes_that_were_not_brought_along_are_a_bug_that_is_told() -> None:
    with pytest.raises(IllegalRequest, match="were not brought along"):
        messages(replace(Talk().says((PIC,)).request(), contents={}))


# -- ids and names -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", ["", "i" * 65, "functions.f:0", "mit Leerzeichen"], ids=["none", "too long", "with a dot", "with a space"])
def test_a_call_whose_id_no_provider_would_take_gets_one_made_of_its_place(id: str) -> None:
    _, reply, output, _ = messages(Talk().says("Hello").replies("One.", Call("look_up", "{}", id)).says("?").request())
    assert (reply["tool_calls"][0]["id"], output["tool_call_id"]) == ("call_2_1", "call_2_1")


def test_of_two_replies_whose_calls_have_one_id_the_later_gets_another() -> None:
    talk = Talk().says("Hello").replies(Call("look_up", "{}", "call_0")).replies(Call("look_up", "{}", "call_0")).says("?")
    told = messages(talk.request())
    assert [call["id"] for message in told for call in message.get("tool_calls", ())] == ["call_0", "call_5_0"]
    assert [message["tool_call_id"] for message in told if message["role"] == "tool"] == ["call_0", "call_5_0"]


def test_two_calls_of_one_reply_that_share_an_id_get_their_own() -> None:
    talk = Talk().says("Hello").replies(Call("look_up", "{}", "same"), Call("look_up", "{}", "same"), outputs=["a", "b"]).says("?")
    outputs = [(message["tool_call_id"], message["content"]) for message in messages(talk.request()) if message["role"] == "tool"]
    assert outputs == [("call_2_0", "a"), ("call_2_1", "b")]


@pytest.mark.parametrize("name", ["n" * 80, "Größe der Wand", ""], ids=["80 characters", "unicode", "empty"])
def test_a_name_that_no_provider_would_take_is_replaced_where_the_tool_is_declared_and_where_it_is_called(name: str) -> None:
    talk = Talk().says("Hello").replies(Call(name, "{}", "c")).says("?")
    request = talk.request(tools=(ToolSpec(name, "", LOOK_UP.parameters),))
    told = body(request, tool_choice=name)
    declared = told["tools"][0]["function"]["name"]
    assert declared == wire_name(name)
    assert told["messages"][1]["tool_calls"][0]["function"]["name"] == declared
    assert told["tool_choice"] == {"type": "function", "function": {"name": declared}}
    assert compiled(request).tools == {declared: name}


# -- what is lost ------------------------------------------------------------------------------------------------------


def test_what_cannot_be_carried_over_is_told_once_per_request() -> None:
    hosted = Hosted("web_search_call", "{}")
    talk = Talk().says("Hello")
    for _ in range(2):
        talk.replies(Reasoning("Hm.", "gAAA"), hosted, Words("Hi!", notes='[{"url":"u"}]'), Call("look_up", "{}"))
    assert compiled(talk.request()).losses == (
        "reasoning of desk: only the model that made it can read it",
        "web_search_call of desk: only the provider that ran it can take it back",
        "citations of desk: this API takes words only",
    )


def test_a_loss_that_a_reply_was_recorded_with_is_not_told_again() -> None:
    talk = Talk().says("Hello").replies(Reasoning("Hm."), "Hi!").says("?")
    told = compiled(talk.request()).losses
    assert len(told) == 1
    assert compiled(talk.replies("Yes?", losses=told).says("??").request()).losses == ()


def test_reasoning_that_says_nothing_is_no_loss() -> None:
    assert compiled(Talk().says("Hello").replies(Reasoning(), "Hi!").says("?").request()).losses == ()


def test_reasoning_goes_back_to_the_server_it_came_from_if_that_is_asked_for() -> None:
    talk = Talk().says("Hello").replies(Reasoning("Mine."), Call("look_up", "{}", "a"), origin=HERE)
    talk.replies(Reasoning("Another's."), Call("look_up", "{}", "b"), origin="chat http://there/v1 n").says("?")
    sent = compiled(talk.request(), reasoning=True)
    told = json.loads(sent.body)["messages"]
    assert [message.get("reasoning_content") for message in told if message["role"] == "assistant"] == ["Mine.", None]
    assert sent.reasoning
    assert sent.losses == ("reasoning of desk: only the model that made it can read it",)
    assert not compiled(talk.request()).reasoning


def test_reasoning_that_a_view_leaves_out_is_not_sent_back() -> None:
    talk = Talk().says("Hello").replies(Reasoning("Hm."), "Wait.", Call("look_up", "{}", "a"), origin=HERE).says("?")
    sent = compiled(talk.request(history=Dialogue()), reasoning=True)
    assert not sent.reasoning
    assert b"reasoning_content" not in sent.body


# -- everything else ---------------------------------------------------------------------------------------------------


def test_every_option_has_its_place() -> None:
    request = Talk().says("Hello").request(tools=(LOOK_UP,))
    told = body(
        request,
        stream=True,
        temperature=0.5,
        top_p=0.9,
        max_tokens=100,
        effort="low",
        verbosity="high",
        tool_choice="required",
        parallel_calls=False,
        service_tier="flex",
        stop=("END",),
        seed=7,
        extra={"user": "u", "metadata": {"k": "v"}},
    )
    assert told == {
        "model": "m",
        "tools": [
            {
                "type": "function",
                "function": {"name": "look_up", "description": "Look up an order.", "parameters": json.loads(LOOK_UP.parameters)},
            }
        ],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "reasoning_effort": "low",
        "verbosity": "high",
        "temperature": 0.5,
        "top_p": 0.9,
        "max_completion_tokens": 100,
        "stop": ["END"],
        "seed": 7,
        "service_tier": "flex",
        "stream": True,
        "stream_options": {"include_usage": True},
        "user": "u",
        "metadata": {"k": "v"},
        "messages": [HELLO],
    }


def test_what_was_not_asked_for_is_not_sent() -> None:
    assert body(Talk().says("Hello").request()) == {"model": "m", "messages": [HELLO]}


def test_extra_overrides_and_none_in_it_leaves_a_member_out() -> None:
    told = body(Talk().says("Hello").request(), stream=True, temperature=1.0, extra={"stream_options": None, "temperature": 0.0})
    assert told == {"model": "m", "messages": [HELLO], "stream": True, "temperature": 0.0}


@pytest.mark.parametrize("choice", ["auto", "required", "look_up"])
def test_an_agent_without_tools_is_told_nothing_about_tools(choice: str) -> None:
    told = body(Talk().says("Hello").request(), tool_choice=choice, parallel_calls=True)
    assert told == {"model": "m", "messages": [HELLO]}


def test_a_choice_of_a_tool_that_the_agent_does_not_have_is_left_out_and_told() -> None:
    sent = compiled(Talk().says("Hello").request(tools=(LOOK_UP,)), tool_choice="refund")
    assert "tool_choice" not in json.loads(sent.body)
    assert sent.losses == ("tool_choice 'refund' of desk: it has no such tool",)


@pytest.mark.parametrize(("schema", "strict"), [(CLOSED, True), (OPEN, False)], ids=["closed", "open"])
def test_structured_output_is_strict_where_its_schema_is_closed(schema: str, strict: bool) -> None:
    told = body(Talk().says("Hello").request(output=schema))["response_format"]
    assert told == {"type": "json_schema", "json_schema": {"name": "output", "schema": json.loads(schema), "strict": strict}}


def test_schemas_keep_their_properties_in_their_order() -> None:
    sent = compiled(Talk().says("Hello").request(tools=(LOOK_UP,), output=CLOSED)).body.decode()
    assert LOOK_UP.parameters in sent
    assert CLOSED in sent


@pytest.mark.parametrize(
    ("extra", "clause"),
    [({"n": "many"}, "CS2"), ({"nonsense": 1}, "CP2"), ({"tools": []}, "CT1"), ({"tool_choice": "auto"}, "C9")],
    ids=["a wrong type", "an unknown member", "an empty array", "a choice without tools"],
)
def test_what_extra_breaks_is_found_before_anything_is_sent(extra: dict[str, Any], clause: str) -> None:
    sent = compiled(Talk().says("Hello").request(), extra=extra)
    assert [complaint.clause.id for complaint in sent.complaints] == [clause]
    with pytest.warns(UserWarning, match=clause):
        check(sent, "warn")


# -- compatible servers ------------------------------------------------------------------------------------------------


def test_a_compatible_server_is_given_the_limit_under_its_older_name() -> None:
    assert body(Talk().says("Hello").request(), compatible=True, max_tokens=9) == {"model": "m", "messages": [HELLO], "max_tokens": 9}


def test_a_compatible_server_is_given_words_as_plain_text() -> None:
    talk = Talk().says((Text("a"), Text("b"))).replies(Call("camera", "{}", "c"), outputs=[(Text("Snap."), PIC)]).says((Text("a"), PIC))
    told = messages(talk.request(), compatible=True)
    assert told[0]["content"] == "a\nb"
    assert told[2]["content"] == "Snap.\n[picture: see the message after the tools' outputs]"
    assert told[3]["content"][1] == told[4]["content"][1] == PIC_PART


@pytest.mark.parametrize(
    ("written", "sent"),
    [('{"a": 1}', '{"a": 1}'), ("", "{}"), (" ", "{}"), ('{"a": ', '{"arguments":"{\\"a\\": "}'), ("[1]", '{"arguments":"[1]"}')],
)
def test_a_compatible_server_is_given_arguments_that_are_an_object(written: str, sent: str) -> None:
    talk = Talk().says("Hello").replies(Call("look_up", written, "c")).says("?")
    assert messages(talk.request(), compatible=True)[1]["tool_calls"][0]["function"]["arguments"] == sent
    assert messages(talk.request())[1]["tool_calls"][0]["function"]["arguments"] == written


def test_a_compatible_server_may_be_given_what_openai_does_not_know() -> None:
    assert compiled(Talk().says("Hello").request(), compatible=True, extra={"top_k": 5}).complaints == ()


def test_a_group_is_written_once() -> None:
    request: Request = Talk().says("Hello").replies("Hi!").says("?").request()
    compile_request(request, Options("m"), stream=False)
    kept = [dict(cache_of(group)) for group in request.groups]
    compile_request(request, Options("m"), stream=True)
    assert all(kept)
    assert all(cache_of(group)[key] is value for group, before in zip(request.groups, kept, strict=True) for key, value in before.items())


# -- what goes back to where it came from ------------------------------------------------------------------------------

SIGNED = Call("look_up", "{}", "call_1", extra='{"extra_content":{"google":{"thought_signature":"Av=="}}}')
TEXT_TAKER = Call("sql", "select 1", "call_1", extra='{"type":"custom"}')
SEALED = Reasoning("Hm.", '{"reasoning_details":[{"text":"Hm.","type":"reasoning.text","signature":"Ev"}]}')


def test_a_custom_call_goes_back_as_one_to_its_maker() -> None:
    talk = Talk().says("Hello").replies(TEXT_TAKER, origin=HERE).says("?")
    assert messages(talk.request())[1]["tool_calls"] == [{"id": "call_1", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}]
    assert compiled(talk.request()).complaints == ()


def test_a_custom_call_is_a_function_elsewhere() -> None:
    talk = Talk().says("Hello").replies(TEXT_TAKER, origin="chat http://elsewhere/v1 m").says("?")
    call = {"id": "call_1", "type": "function", "function": {"name": "sql", "arguments": "select 1"}}
    assert messages(talk.request())[1]["tool_calls"] == [call]


def test_a_signature_goes_back_to_its_maker_alone() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
    there = Talk().says("Hello").replies(SIGNED, origin=HERE).says("?")
    assert messages(there.request())[1]["tool_calls"] == [{**call, "extra_content": {"google": {"thought_signature": "Av=="}}}]
    elsewhere = Talk().says("Hello").replies(SIGNED, origin="chat http://elsewhere/v1 m").says("?")
    assert messages(elsewhere.request())[1]["tool_calls"] == [call]


def test_reasoning_details_go_back_instead_of_their_words() -> None:
    talk = Talk().says("Hello").replies(SEALED, "Hi", origin=HERE).says("?")
    message = messages(talk.request(), compatible=True, reasoning=True)[1]
    assert message == {"role": "assistant", "content": "Hi", **json.loads(SEALED.encrypted)}
    assert compiled(talk.request(), compatible=True, reasoning=True).reasoning


def test_sealed_reasoning_stays_out_where_it_is_not_wanted() -> None:
    talk = Talk().says("Hello").replies(SEALED, "Hi", origin=HERE).says("?")
    assert messages(talk.request(), compatible=True)[1] == {"role": "assistant", "content": "Hi"}


@pytest.mark.parametrize("extra", ["[]", "{", "null", '"x"'])
def test_an_extra_of_nobody_is_left_out(extra: str) -> None:
    talk = Talk().says("Hello").replies(Call("look_up", "{}", "call_1", extra=extra), origin=HERE).says("?")
    call = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
    assert messages(talk.request())[1]["tool_calls"] == [call]
