"""Encoding for the Responses API: tool choices of agents that lack the tool, and losses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from legato.core.digests import digest_bytes
from legato.core.facts import Call, File, HostedToolUse, OutputText, Text
from legato.core.turn_context import ToolSpec
from legato.core.view import ModelRequest
from legato.providers.formats.encoded_request import EncodedRequest
from legato.providers.formats.request_options import RequestOptions
from legato.providers.formats.responses.encode import encode_request
from tests.providers.formats.chat.conversations import LOOK_UP_TOOL, PICTURE, ConversationBuilder

SEARCH = {"type": "web_search"}


def encode(request: ModelRequest, **options: Any) -> EncodedRequest:
    encoded = encode_request(request, RequestOptions("gpt-5.1", **options), "responses here gpt-5.1", stream=False)
    assert encoded.violations == ()
    return encoded


@pytest.mark.parametrize(
    ("tools", "options", "expected", "lost"),
    [
        ([LOOK_UP_TOOL], {"tool_choice": "look_up"}, {"type": "function", "name": "look_up"}, False),
        ([LOOK_UP_TOOL], {"tool_choice": "required"}, "required", False),
        ([LOOK_UP_TOOL], {"tool_choice": "refund"}, None, True),
        ([], {"tool_choice": "look_up"}, None, True),
        ([], {"tool_choice": "required"}, None, False),
        ([], {"tool_choice": "required", "hosted": (SEARCH,)}, "required", False),
        ([LOOK_UP_TOOL], {"tool_choice": "web_search", "hosted": (SEARCH,)}, {"type": "web_search"}, False),
        ([ToolSpec("Größe", "", LOOK_UP_TOOL.parameters)], {"tool_choice": "Größe"}, {"type": "function", "name": "Gr_e_aedc3f80"}, False),
    ],
    ids=["its own", "any", "of another agent", "no tools", "any of none", "any hosted one", "a hosted one", "a sanitized name"],
)
def test_tool_is_forced_only_if_present(tools: list[ToolSpec], options: dict[str, Any], expected: object, lost: bool) -> None:
    request = encode(ConversationBuilder().add_message("Hello").build_request(tools=tuple(tools)), **options)
    assert json.loads(request.body).get("tool_choice") == expected
    assert request.losses == ((f"tool_choice {options['tool_choice']!r} of desk: it has no such tool",) if lost else ())


def test_citations_and_searches_of_others_are_losses() -> None:
    searched = HostedToolUse("web_search_call", '{"type":"web_search_call"}', "ws_1")
    conversation = (
        ConversationBuilder()
        .add_message("News?")
        .add_reply(searched, OutputText("Rain.", citations='[{"type":"url_citation"}]'))
        .add_message("Thanks")
    )
    request = encode(conversation.build_request())
    assert json.loads(request.body)["input"][1] == {"role": "assistant", "content": "Rain."}
    assert request.losses == (
        "web_search_call of desk: only the provider that ran it accepts it back",
        "citations of desk: only the provider that wrote them accepts them back",
    )


@pytest.mark.parametrize(
    ("song", "where"),
    [
        (File("song", "audio/mpeg", digest=digest_bytes(PICTURE)), "audio/mpeg"),
        (File("song", "video/mp4", url="https://example.com/7"), "https://example.com/7"),
        (File("song", url="https://example.com/7.MP3?key=1"), "https://example.com/7.MP3?key=1"),
    ],
    ids=["bytes", "an address", "the end of an address"],
)
def test_audio_and_video_become_text_and_losses(song: File, where: str) -> None:
    """The provider takes documents only, in messages and in outputs of tools."""
    conversation = (
        ConversationBuilder()
        .add_message((Text("Listen"), song))
        .add_reply(Call("look_up", "{}", "call_1"), outputs=((song,),))
        .add_message("Well?")
    )
    request = encode(conversation.build_request())
    named = {"type": "input_text", "text": f"[file song: {where}]"}
    message, _, output, _ = json.loads(request.body)["input"]
    assert message["content"] == [{"type": "input_text", "text": "Listen"}, named]
    assert output["output"] == [named]
    assert request.losses == ("file song: this API takes no audio or video; the model gets its name as text",)
