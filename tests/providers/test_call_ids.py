"""Ids of calls: whatever providers gave, no two calls of a request share one, and every output finds its call (C3, C4)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from legato.core.facts import Call
from legato.core.view import Request
from legato.providers.formats.anthropic.compile import compile_request as for_anthropic
from legato.providers.formats.chat.compile import compile_request as for_chat
from legato.providers.formats.compiled import Compiled
from legato.providers.formats.options import Options
from legato.providers.formats.responses.compile import compile_request as for_responses
from legato.providers.formats.responses.read import read_reply
from legato.providers.rules.names import is_wire_id, wire_name
from legato.providers.rules.responses.laws import judge
from tests.providers.chat.talk import Talk

HERE = "responses here gpt-5"
WIRES = ("responses", "chat", "anthropic")


def ids_sent(request: Request, wire: str) -> tuple[list[str], list[str]]:
    """The ids of the calls in a request, and those of its outputs, in order."""
    if wire == "responses":
        items = json.loads(for_responses(request, Options(model="m"), HERE, stream=False).body)["input"]
        return (
            [item["call_id"] for item in items if item.get("type") == "function_call"],
            [item["call_id"] for item in items if item.get("type") == "function_call_output"],
        )
    if wire == "chat":
        messages = json.loads(for_chat(request, Options(model="m"), stream=False).body)["messages"]
        calls = [call["id"] for message in messages for call in message.get("tool_calls", ())]
        return calls, [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    messages = json.loads(for_anthropic(request, Options(model="m"), "o", stream=False).body)["messages"]
    blocks = [block for message in messages for block in message["content"]]
    return (
        [block["id"] for block in blocks if block["type"] == "tool_use"],
        [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"],
    )


@pytest.mark.parametrize("wire", WIRES)
def test_an_id_that_looks_like_one_of_ours_is_not_kept(wire: str) -> None:
    talk = Talk().says("Hello").replies(Call("look_up", "{}", "bad id")).says("Again")  # the reply is at 2: its call becomes call_2_0
    talk.replies(Call("look_up", "{}", "call_2_0")).says("?")
    calls, outputs = ids_sent(talk.request(), wire)
    assert len(set(calls)) == 2
    assert calls == outputs
    assert calls[0] == "call_2_0"


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("ids", [("call_5_0", ""), ("", "call_2_0"), ("call", "call"), ("call_2_0", "call_2_0")])
def test_every_call_has_an_id_of_its_own(wire: str, ids: tuple[str, str]) -> None:
    talk = Talk().says("Hello")
    for id in ids:
        talk.replies(Call("look_up", "{}", id), Call("look_up", "{}", id))
    calls, outputs = ids_sent(talk.says("?").request(), wire)
    assert len(calls) == len(set(calls)) == 4
    assert calls == outputs


@pytest.mark.parametrize("wire", WIRES)
def test_an_id_that_every_wire_takes_is_kept(wire: str) -> None:
    calls, _ = ids_sent(Talk().says("Hello").replies(Call("look_up", "{}", "call_8fK2")).says("?").request(), wire)
    assert calls == ["call_8fK2"]


def test_a_line_break_at_the_end_is_no_part_of_a_name_or_an_id() -> None:
    assert not is_wire_id("call_1\n")
    assert wire_name("refund\n") != "refund\n"


# -- what the provider holds -------------------------------------------------------------------------------------------


class Chained:
    """A conversation that the provider keeps; what it says is up to the test."""

    def __init__(self) -> None:
        self.talk = Talk().says("Hello")
        self.held: dict[str, list[dict[str, Any]]] = {}
        self.count = 0

    def ask(self) -> tuple[Compiled, dict[str, Any]]:
        """The next request, which is legal together with what the provider holds."""
        compiled = for_responses(self.talk.request(), Options(model="gpt-5", memory="chained"), HERE, stream=False)
        body = json.loads(compiled.body)
        whole = [*self.held.get(body.pop("previous_response_id", ""), []), *body["input"]]
        assert judge({**body, "input": whole}) == []
        calls = [item["call_id"] for item in whole if item.get("type") == "function_call"]
        outputs = [item["call_id"] for item in whole if item.get("type") == "function_call_output"]
        assert len(calls) == len(set(calls))
        assert sorted(calls) == sorted(outputs)
        return compiled, {**body, "whole": whole}

    def turn(self, *ids: str) -> Compiled:
        """The provider answers the next request with calls of these ids, or with words."""
        compiled, body = self.ask()
        self.count += 1
        output: list[dict[str, Any]] = [
            {"type": "function_call", "id": f"fc_{self.count}", "call_id": id, "name": "look_up", "arguments": "{}"} for id in ids
        ] or [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": f"words {self.count}"}]}]
        answer = {"id": f"resp_{self.count}", "store": True, "status": "completed", "output": output}
        self.held[answer["id"]] = [*body["whole"], *output]  # type: ignore[index]
        reply = read_reply(answer, compiled, HERE)
        kept = {name: getattr(reply, name) for name in ("response_id", "stored", "base", "origin", "held")}
        self.talk.replies(*reply.items, **kept)
        return compiled

    def elsewhere(self, *ids: str) -> None:
        """Another provider's reply, with calls of these ids."""
        self.talk.replies(*(Call("look_up", "{}", id) for id in ids), origin="elsewhere")


def test_a_call_that_is_sent_by_value_does_not_get_an_id_that_the_provider_holds() -> None:
    desk = Chained()
    desk.turn("call_a")
    desk.elsewhere("call_a")
    compiled, body = desk.ask()
    assert compiled.base == "resp_1"
    assert [item["call_id"] for item in body["input"] if item["type"] == "function_call"] != ["call_a"]


def test_a_call_that_was_sent_under_an_id_of_ours_stays_a_part_of_the_chain() -> None:
    desk = Chained()
    desk.turn("call_a")
    desk.elsewhere("functions.look_up:0")
    assert desk.turn().base == "resp_1"
    desk.talk.says("And?")
    assert desk.turn("functions").base == "resp_2"
    assert desk.turn().base == "resp_3"


@pytest.mark.parametrize("id", ["call_4_0", "x" * 65, "a b"], ids=["as ours", "too long", "not a word"])
def test_a_chain_with_an_id_that_cannot_be_sent_is_left_and_a_new_one_begun(id: str) -> None:
    desk = Chained()
    desk.turn("call_a")
    assert desk.turn(id).base == "resp_1"
    assert desk.turn().base == "resp_1"  # from before that call, which now goes by value
    desk.talk.says("And?")
    assert desk.turn().base == "resp_3"


def test_a_provider_that_gives_every_call_the_same_id_is_chained_to_where_it_can_be() -> None:
    desk = Chained()
    bases = [desk.turn("call").base for _ in range(4)]
    assert bases == ["", "resp_1", "resp_1", "resp_1"]
    assert desk.turn().base == "resp_1"
    desk.talk.says("And?")
    assert desk.turn().base == "resp_5"
