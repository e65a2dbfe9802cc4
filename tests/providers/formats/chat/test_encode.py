"""Encoding of requests to Chat Completions: legal, deterministic, and every loss is reported."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from legato.core.digests import digest_bytes
from legato.core.facts import Call, File, HostedToolUse, Image, OutputText, Reasoning, Refusal, Text
from legato.core.history_policies import Dialogue, Summarised
from legato.core.turn_context import ToolSpec
from legato.core.view import ModelRequest
from legato.errors import IllegalRequest
from legato.models.request_check import check_request
from legato.providers.formats.chat.encode import encode_request
from legato.providers.formats.group_cache import get_group_cache
from legato.providers.formats.request_options import RequestOptions
from legato.providers.rules.identifiers import sanitize_tool_name
from tests.providers.formats.chat.conversations import (
    CLOSED_SCHEMA,
    LETTER,
    LOOK_UP_TOOL,
    OPEN_SCHEMA,
    ORIGIN,
    PICTURE,
    ConversationBuilder,
    encode,
    encode_body,
    encode_messages,
)

HELLO = {"role": "user", "content": "Hello"}
PICTURE_PART = Image("image/jpeg", digest=digest_bytes(PICTURE))
ENCODED_PICTURE = {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,iVBORyBhIHBpY3R1cmU="}}
DOCUMENT_PART = File("letter.pdf", "application/pdf", digest=digest_bytes(LETTER))
ENCODED_DOCUMENT = {"type": "file", "file": {"filename": "letter.pdf", "file_data": "data:application/pdf;base64,JVBERiBhIGxldHRlcg=="}}
LINKED_FILE = File("plan.pdf", url="https://example.com/plan.pdf")
ENCODED_LINK = {"type": "text", "text": "[file plan.pdf: https://example.com/plan.pdf]"}
LINKED_FILE_LOSS = "file plan.pdf: this API takes no file URLs; the model gets the URL as text"


# -- messages ----------------------------------------------------------------------------------------------------------


def test_instructions_messages_summary_and_conversation_are_ordered() -> None:
    """Instructions come first, then the turn context's messages, then the summary, then the conversation."""
    conversation = ConversationBuilder().add_message("Hello").add_reply("Hi!").add_summary("desk", "They greeted.").add_message("And now?")
    messages = encode_messages(
        conversation.build_request(instructions="Be brief.", messages=("A note.", "Another."), history=Summarised(10))
    )
    assert messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "A note."},
        {"role": "user", "content": "Another."},
        {"role": "user", "content": "Summary of the conversation so far:\nThey greeted."},
        {"role": "user", "content": "And now?"},
    ]


def test_system_message_is_omitted_without_instructions() -> None:
    assert encode_messages(ConversationBuilder().add_message("Hello").build_request()) == [HELLO]


def test_outputs_follow_their_reply_in_call_order() -> None:
    """The text and calls of a reply are one message, and every output follows it in the order of the calls."""
    calls = Call("look_up", '{"order":"A"}', "call_a"), Call("look_up", '{"order": "B"}', "call_b")
    conversation = (
        ConversationBuilder()
        .add_message("Hello")
        .add_reply("One.", calls[0], OutputText("Two."), calls[1], outputs=["teapot", "kettle"])
        .add_message("And now?")
    )
    assert encode_messages(conversation.build_request())[1:] == [
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


def test_message_during_a_call_follows_the_outputs() -> None:
    conversation = ConversationBuilder().add_message("Hello").add_reply(Call("look_up", "{}", "c"), outputs=["x"])
    conversation.facts.insert(3, ConversationBuilder().add_message("Wait!").facts[1])  # after the reply, before its tool was started
    assert [message["role"] for message in encode_messages(conversation.build_request())] == ["user", "assistant", "tool", "user"]


def test_reply_with_calls_only_has_no_content() -> None:
    message = encode_messages(
        ConversationBuilder().add_message("Hello").add_reply(Call("look_up", "{}", "c")).add_message("?").build_request()
    )[1]
    assert message["content"] is None


def test_refusal_is_replayed_as_text() -> None:
    assert encode_messages(ConversationBuilder().add_message("Hello").add_reply(Refusal("I won't.")).add_message("?").build_request())[
        1
    ] == {
        "role": "assistant",
        "content": "I won't.",
    }


def test_reply_without_sendable_content_is_omitted() -> None:
    conversation = ConversationBuilder().add_message("Hello").add_reply(Reasoning("Hm.", "gAAA"), finish="length").add_message("Go on")
    assert encode_messages(conversation.build_request()) == [HELLO, {"role": "user", "content": "Go on"}]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param("Hello", "Hello", id="words"),
        pytest.param((Text("a"), Text("b")), [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], id="parts"),
        pytest.param((Text("a"), PICTURE_PART), [{"type": "text", "text": "a"}, ENCODED_PICTURE], id="a picture"),
        pytest.param((Image(url="https://x/y.png"),), [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}], id="its address"),
        pytest.param((DOCUMENT_PART,), [ENCODED_DOCUMENT], id="a file"),
        pytest.param((LINKED_FILE,), [ENCODED_LINK], id="a file's address"),
        pytest.param((File(url="https://x/y"),), [{"type": "text", "text": "[file: https://x/y]"}], id="a file's address without a name"),
    ],
)
def test_user_content_is_encoded_for_the_api(content: Any, expected: Any) -> None:
    assert encode_messages(ConversationBuilder().add_message(content).build_request()) == [{"role": "user", "content": expected}]


def test_attachments_of_tools_follow_all_outputs() -> None:
    """Pictures and files that tools return are in one message after all outputs."""
    calls = Call("camera", "{}", "a"), Call("archive", "{}", "b"), Call("look_up", "{}", "c")
    conversation = (
        ConversationBuilder()
        .add_message("Hello")
        .add_reply(*calls, outputs=[(Text("Snap."), PICTURE_PART), (DOCUMENT_PART, LINKED_FILE), "plain"])
        .add_message("?")
    )
    request = conversation.build_request()
    assert encode_messages(request)[2:] == [
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
            "content": [{"type": "text", "text": "[file letter.pdf: see the message after the tools' outputs]"}, ENCODED_LINK],
        },
        {"role": "tool", "tool_call_id": "c", "content": "plain"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Returned by camera:"},
                ENCODED_PICTURE,
                {"type": "text", "text": "Returned by archive:"},
                ENCODED_DOCUMENT,
            ],
        },
        {"role": "user", "content": "?"},
    ]
    assert encode(request).losses == (LINKED_FILE_LOSS,)


def test_missing_attachment_bytes_are_a_bug() -> None:
    with pytest.raises(IllegalRequest, match="has no bytes for the attachment"):
        encode_messages(replace(ConversationBuilder().add_message((PICTURE_PART,)).build_request(), contents={}))


# -- ids and names -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", ["", "i" * 65, "functions.f:0", "mit Leerzeichen"], ids=["none", "too long", "with a dot", "with a space"])
def test_illegal_call_id_is_replaced_by_position(id: str) -> None:
    _, reply, output, _ = encode_messages(
        ConversationBuilder().add_message("Hello").add_reply("One.", Call("look_up", "{}", id)).add_message("?").build_request()
    )
    assert (reply["tool_calls"][0]["id"], output["tool_call_id"]) == ("call_2_1", "call_2_1")


def test_repeated_call_id_is_replaced_in_later_reply() -> None:
    conversation = (
        ConversationBuilder()
        .add_message("Hello")
        .add_reply(Call("look_up", "{}", "call_0"))
        .add_reply(Call("look_up", "{}", "call_0"))
        .add_message("?")
    )
    messages = encode_messages(conversation.build_request())
    assert [call["id"] for message in messages for call in message.get("tool_calls", ())] == ["call_0", "call_5_0"]
    assert [message["tool_call_id"] for message in messages if message["role"] == "tool"] == ["call_0", "call_5_0"]


def test_shared_id_within_a_reply_is_replaced() -> None:
    conversation = (
        ConversationBuilder()
        .add_message("Hello")
        .add_reply(Call("look_up", "{}", "same"), Call("look_up", "{}", "same"), outputs=["a", "b"])
        .add_message("?")
    )
    outputs = [
        (message["tool_call_id"], message["content"])
        for message in encode_messages(conversation.build_request())
        if message["role"] == "tool"
    ]
    assert outputs == [("call_2_0", "a"), ("call_2_1", "b")]


@pytest.mark.parametrize("name", ["n" * 80, "Größe der Wand", ""], ids=["80 characters", "unicode", "empty"])
def test_illegal_tool_name_is_replaced_everywhere(name: str) -> None:
    """The name is replaced in the tool's declaration and in its calls."""
    conversation = ConversationBuilder().add_message("Hello").add_reply(Call(name, "{}", "c")).add_message("?")
    request = conversation.build_request(tools=(ToolSpec(name, "", LOOK_UP_TOOL.parameters),))
    body = encode_body(request, tool_choice=name)
    declared = body["tools"][0]["function"]["name"]
    assert declared == sanitize_tool_name(name)
    assert body["messages"][1]["tool_calls"][0]["function"]["name"] == declared
    assert body["tool_choice"] == {"type": "function", "function": {"name": declared}}
    assert encode(request).tool_names == {declared: name}


# -- losses ------------------------------------------------------------------------------------------------------------


def test_losses_are_listed_once_per_request() -> None:
    hosted = HostedToolUse("web_search_call", "{}")
    conversation = ConversationBuilder().add_message("Hello")
    for _ in range(2):
        conversation.add_reply(Reasoning("Hm.", "gAAA"), hosted, OutputText("Hi!", citations='[{"url":"u"}]'), Call("look_up", "{}"))
    assert encode(conversation.build_request()).losses == (
        "reasoning of desk: only the model that made it can read it",
        "web_search_call of desk: only the provider that ran it accepts it back",
        "citations of desk: this API takes text only",
    )


def test_recorded_losses_are_not_reported_again() -> None:
    conversation = ConversationBuilder().add_message("Hello").add_reply(Reasoning("Hm."), "Hi!").add_message("?")
    losses = encode(conversation.build_request()).losses
    assert len(losses) == 1
    assert encode(conversation.add_reply("Yes?", losses=losses).add_message("??").build_request()).losses == ()


def test_empty_reasoning_is_no_loss() -> None:
    assert encode(ConversationBuilder().add_message("Hello").add_reply(Reasoning(), "Hi!").add_message("?").build_request()).losses == ()


def test_reasoning_is_replayed_to_its_server_only() -> None:
    conversation = ConversationBuilder().add_message("Hello").add_reply(Reasoning("Mine."), Call("look_up", "{}", "a"), origin=ORIGIN)
    conversation.add_reply(Reasoning("Another's."), Call("look_up", "{}", "b"), origin="chat http://there/v1 n").add_message("?")
    encoded = encode(conversation.build_request(), with_reasoning=True)
    messages = json.loads(encoded.body)["messages"]
    assert [message.get("reasoning_content") for message in messages if message["role"] == "assistant"] == ["Mine.", None]
    assert encoded.has_reasoning
    assert encoded.losses == ("reasoning of desk: only the model that made it can read it",)
    assert not encode(conversation.build_request()).has_reasoning


def test_reasoning_outside_the_view_is_not_replayed() -> None:
    conversation = (
        ConversationBuilder()
        .add_message("Hello")
        .add_reply(Reasoning("Hm."), "Wait.", Call("look_up", "{}", "a"), origin=ORIGIN)
        .add_message("?")
    )
    encoded = encode(conversation.build_request(history=Dialogue()), with_reasoning=True)
    assert not encoded.has_reasoning
    assert b"reasoning_content" not in encoded.body


# -- options -----------------------------------------------------------------------------------------------------------


def test_every_option_is_encoded() -> None:
    request = ConversationBuilder().add_message("Hello").build_request(tools=(LOOK_UP_TOOL,))
    body = encode_body(
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
    assert body == {
        "model": "m",
        "tools": [
            {
                "type": "function",
                "function": {"name": "look_up", "description": "Look up an order.", "parameters": json.loads(LOOK_UP_TOOL.parameters)},
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


def test_unset_options_are_not_sent() -> None:
    assert encode_body(ConversationBuilder().add_message("Hello").build_request()) == {"model": "m", "messages": [HELLO]}


def test_extra_overrides_members_and_none_omits_them() -> None:
    body = encode_body(
        ConversationBuilder().add_message("Hello").build_request(),
        stream=True,
        temperature=1.0,
        extra={"stream_options": None, "temperature": 0.0},
    )
    assert body == {"model": "m", "messages": [HELLO], "stream": True, "temperature": 0.0}


@pytest.mark.parametrize("choice", ["auto", "required", "look_up"])
def test_agent_without_tools_sends_no_tool_options(choice: str) -> None:
    body = encode_body(ConversationBuilder().add_message("Hello").build_request(), tool_choice=choice, parallel_calls=True)
    assert body == {"model": "m", "messages": [HELLO]}


def test_choice_of_a_missing_tool_is_a_loss() -> None:
    encoded = encode(ConversationBuilder().add_message("Hello").build_request(tools=(LOOK_UP_TOOL,)), tool_choice="refund")
    assert "tool_choice" not in json.loads(encoded.body)
    assert encoded.losses == ("tool_choice 'refund' of desk: it has no such tool",)


@pytest.mark.parametrize(("schema", "strict"), [(CLOSED_SCHEMA, True), (OPEN_SCHEMA, False)], ids=["closed", "open"])
def test_structured_output_is_strict_for_closed_schemas(schema: str, strict: bool) -> None:
    body = encode_body(ConversationBuilder().add_message("Hello").build_request(output=schema))["response_format"]
    assert body == {"type": "json_schema", "json_schema": {"name": "output", "schema": json.loads(schema), "strict": strict}}


def test_properties_of_schemas_keep_their_order() -> None:
    body = encode(ConversationBuilder().add_message("Hello").build_request(tools=(LOOK_UP_TOOL,), output=CLOSED_SCHEMA)).body.decode()
    assert LOOK_UP_TOOL.parameters in body
    assert CLOSED_SCHEMA in body


@pytest.mark.parametrize(
    ("extra", "rule"),
    [({"n": "many"}, "CS2"), ({"nonsense": 1}, "CP2"), ({"tools": []}, "CT1"), ({"tool_choice": "auto"}, "C9")],
    ids=["a wrong type", "an unknown member", "an empty array", "a choice without tools"],
)
def test_rules_broken_by_extra_are_found(extra: dict[str, Any], rule: str) -> None:
    encoded = encode(ConversationBuilder().add_message("Hello").build_request(), extra=extra)
    assert [violation.rule.id for violation in encoded.violations] == [rule]
    with pytest.warns(UserWarning, match=rule):
        check_request(encoded, "warn")


# -- compatible servers ------------------------------------------------------------------------------------------------


def test_compatible_requests_use_the_older_token_limit() -> None:
    assert encode_body(ConversationBuilder().add_message("Hello").build_request(), compatible=True, max_tokens=9) == {
        "model": "m",
        "messages": [HELLO],
        "max_tokens": 9,
    }


def test_compatible_requests_send_plain_text() -> None:
    conversation = (
        ConversationBuilder()
        .add_message((Text("a"), Text("b")))
        .add_reply(Call("camera", "{}", "c"), outputs=[(Text("Snap."), PICTURE_PART)])
        .add_message((Text("a"), PICTURE_PART))
    )
    messages = encode_messages(conversation.build_request(), compatible=True)
    assert messages[0]["content"] == "a\nb"
    assert messages[2]["content"] == "Snap.\n[picture: see the message after the tools' outputs]"
    assert messages[3]["content"][1] == messages[4]["content"][1] == ENCODED_PICTURE


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [('{"a": 1}', '{"a": 1}'), ("", "{}"), (" ", "{}"), ('{"a": ', '{"arguments":"{\\"a\\": "}'), ("[1]", '{"arguments":"[1]"}')],
)
def test_compatible_requests_send_object_arguments(arguments: str, expected: str) -> None:
    conversation = ConversationBuilder().add_message("Hello").add_reply(Call("look_up", arguments, "c")).add_message("?")
    assert encode_messages(conversation.build_request(), compatible=True)[1]["tool_calls"][0]["function"]["arguments"] == expected
    assert encode_messages(conversation.build_request())[1]["tool_calls"][0]["function"]["arguments"] == arguments


def test_compatible_requests_may_have_unknown_members() -> None:
    assert encode(ConversationBuilder().add_message("Hello").build_request(), compatible=True, extra={"top_k": 5}).violations == ()


def test_group_is_encoded_only_once() -> None:
    request: ModelRequest = ConversationBuilder().add_message("Hello").add_reply("Hi!").add_message("?").build_request()
    encode_request(request, RequestOptions("m"), stream=False)
    kept = [dict(get_group_cache(group)) for group in request.groups]
    encode_request(request, RequestOptions("m"), stream=True)
    assert all(kept)
    assert all(
        get_group_cache(group)[key] is value for group, before in zip(request.groups, kept, strict=True) for key, value in before.items()
    )


# -- replay to the same server -----------------------------------------------------------------------------------------

SIGNED = Call("look_up", "{}", "call_1", extra='{"extra_content":{"google":{"thought_signature":"Av=="}}}')
TEXT_TAKER = Call("sql", "select 1", "call_1", extra='{"type":"custom"}')
SEALED = Reasoning("Hm.", '{"reasoning_details":[{"text":"Hm.","type":"reasoning.text","signature":"Ev"}]}')


def test_custom_call_is_replayed_to_its_maker() -> None:
    conversation = ConversationBuilder().add_message("Hello").add_reply(TEXT_TAKER, origin=ORIGIN).add_message("?")
    assert encode_messages(conversation.build_request())[1]["tool_calls"] == [
        {"id": "call_1", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}
    ]
    assert encode(conversation.build_request()).violations == ()


def test_custom_call_is_a_function_for_others() -> None:
    conversation = ConversationBuilder().add_message("Hello").add_reply(TEXT_TAKER, origin="chat http://elsewhere/v1 m").add_message("?")
    call = {"id": "call_1", "type": "function", "function": {"name": "sql", "arguments": "select 1"}}
    assert encode_messages(conversation.build_request())[1]["tool_calls"] == [call]


def test_signature_is_replayed_to_its_maker_only() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
    there = ConversationBuilder().add_message("Hello").add_reply(SIGNED, origin=ORIGIN).add_message("?")
    assert encode_messages(there.build_request())[1]["tool_calls"] == [{**call, "extra_content": {"google": {"thought_signature": "Av=="}}}]
    elsewhere = ConversationBuilder().add_message("Hello").add_reply(SIGNED, origin="chat http://elsewhere/v1 m").add_message("?")
    assert encode_messages(elsewhere.build_request())[1]["tool_calls"] == [call]


def test_reasoning_details_replace_their_text() -> None:
    conversation = ConversationBuilder().add_message("Hello").add_reply(SEALED, "Hi", origin=ORIGIN).add_message("?")
    message = encode_messages(conversation.build_request(), compatible=True, with_reasoning=True)[1]
    assert message == {"role": "assistant", "content": "Hi", **json.loads(SEALED.encrypted)}
    assert encode(conversation.build_request(), compatible=True, with_reasoning=True).has_reasoning


def test_sealed_reasoning_is_omitted_if_not_wanted() -> None:
    conversation = ConversationBuilder().add_message("Hello").add_reply(SEALED, "Hi", origin=ORIGIN).add_message("?")
    assert encode_messages(conversation.build_request(), compatible=True)[1] == {"role": "assistant", "content": "Hi"}


@pytest.mark.parametrize("extra", ["[]", "{", "null", '"x"'])
def test_invalid_extra_members_are_left_out(extra: str) -> None:
    conversation = (
        ConversationBuilder().add_message("Hello").add_reply(Call("look_up", "{}", "call_1", extra=extra), origin=ORIGIN).add_message("?")
    )
    call = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
    assert encode_messages(conversation.build_request())[1]["tool_calls"] == [call]
