"""A tool that is to be called goes to the agents that have it; and what of a reply cannot be sent back is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from legato.core.digests import digest_bytes
from legato.core.facts import Call, File, Hosted, Text, Words
from legato.core.turn_context import ToolSpec
from legato.core.view import Request
from legato.providers.formats.compiled import Compiled
from legato.providers.formats.options import Options
from legato.providers.formats.responses.compile import compile_request
from tests.providers.chat.talk import LOOK_UP, PICTURE, Talk

SEARCH = {"type": "web_search"}


def compiled(request: Request, **options: Any) -> Compiled:
    made = compile_request(request, Options("gpt-5.1", **options), "responses here gpt-5.1", stream=False)
    assert made.complaints == ()
    return made


@pytest.mark.parametrize(
    ("tools", "options", "sent", "lost"),
    [
        ([LOOK_UP], {"tool_choice": "look_up"}, {"type": "function", "name": "look_up"}, False),
        ([LOOK_UP], {"tool_choice": "required"}, "required", False),
        ([LOOK_UP], {"tool_choice": "refund"}, None, True),
        ([], {"tool_choice": "look_up"}, None, True),
        ([], {"tool_choice": "required"}, None, False),
        ([], {"tool_choice": "required", "hosted": (SEARCH,)}, "required", False),
        ([LOOK_UP], {"tool_choice": "web_search", "hosted": (SEARCH,)}, {"type": "web_search"}, False),
        ([ToolSpec("Größe", "", LOOK_UP.parameters)], {"tool_choice": "Größe"}, {"type": "function", "name": "Gr_e_aedc3f80"}, False),
    ],
    ids=["its own", "any", "another's", "no tools", "any of none", "a hosted one, unnamed", "a hosted one", "a name that is mapped"],
)
def test_a_tool_is_forced_only_on_an_agent_that_has_it(tools: list[ToolSpec], options: dict[str, Any], sent: object, lost: bool) -> None:
    made = compiled(Talk().says("Hello").request(tools=tuple(tools)), **options)
    assert json.loads(made.body).get("tool_choice") == sent
    assert made.losses == ((f"tool_choice {options['tool_choice']!r} of desk: it has no such tool",) if lost else ())


def test_citations_and_searches_of_another_provider_are_told_as_lost() -> None:
    searched = Hosted("web_search_call", '{"type":"web_search_call"}', "ws_1")
    talk = Talk().says("News?").replies(searched, Words("Rain.", notes='[{"type":"url_citation"}]')).says("Thanks")
    made = compiled(talk.request())
    assert json.loads(made.body)["input"][1] == {"role": "assistant", "content": "Rain."}
    assert made.losses == (
        "web_search_call of desk: only the provider that ran it can take it back",
        "citations of desk: only the provider that wrote them takes them back",
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
def test_sound_and_film_are_named_and_told_as_lost(song: File, where: str) -> None:
    """The provider takes documents only, in messages and in outputs of tools."""
    talk = Talk().says((Text("Listen"), song)).replies(Call("look_up", "{}", "call_1"), outputs=((song,),)).says("Well?")
    made = compiled(talk.request())
    named = {"type": "input_text", "text": f"[file song: {where}]"}
    message, _, output, _ = json.loads(made.body)["input"]
    assert message["content"] == [{"type": "input_text", "text": "Listen"}, named]
    assert output["output"] == [named]
    assert made.losses == ("file song: this API takes documents, no sound or film; the model is told that it is there",)
