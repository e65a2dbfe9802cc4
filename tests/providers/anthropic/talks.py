"""Conversations in memory: a provider that signs what it thinks, agents with frames of their own, and the groups that come of it.

Every request is compiled, judged by the law book as the provider would, answered, read, and becomes a group of the next. Nothing here
knows how requests are compiled.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from legato.core.facts import Call, CallRef, Content, ModelReplied
from legato.core.groups import CallState, Group, Output
from legato.core.model_reply import Reply
from legato.core.turn_context import Frame, ToolSpec, encode_frame
from legato.core.view import Request
from legato.providers.formats.anthropic.compile import compile_request
from legato.providers.formats.anthropic.read import read_reply
from legato.providers.formats.compiled import Compiled
from legato.providers.formats.options import Options
from legato.providers.rules.anthropic.held import Signed
from legato.providers.rules.anthropic.laws import Profile, judge
from legato.providers.rules.anthropic.prefix import reply_prefix_digest, thinking_digest
from legato.providers.rules.rule_set import Complaint
from tests.providers.anthropic.world import VERSION, World

STRICT = Profile(alternation=True, first_message_is_user=True, results_first=True)
BINDS, FREE = "claude-opus-5-5", "claude-haiku-4-5"


def tool(name: str) -> ToolSpec:
    return ToolSpec(name, f"Does {name}.", '{"type":"object","properties":{"id":{"type":"string"}}}')


def frame(agent: str, *tools: str, **members: Any) -> Frame:
    return Frame(agent, members.pop("instructions", f"You are {agent}."), tools=tuple(map(tool, (*tools, "handoff"))), **members)


def said(position: int, content: Content) -> Group:
    group = Group("said", position)
    group.content = content
    return group


def replied(
    position: int, agent: str, reply: Reply, outputs: Sequence[Content] = (), status: str = "ok", losses: Sequence[str] = ()
) -> Group:
    """A reply and the outputs of its calls."""
    group = Group("reply", position, agent)
    group.fact = ModelReplied(
        at=0,
        agent=agent,
        frame="",
        upto=position - 1,
        items=reply.items,
        finish=reply.finish,
        origin=reply.origin,
        held=reply.held,
        losses=tuple(losses) or reply.losses,
        extra=reply.extra,
    )
    calls = [(index, item) for index, item in enumerate(reply.items) if isinstance(item, Call)]
    for number, (index, item) in enumerate(calls):
        state = CallState(CallRef(position, index), item, item.arguments)
        state.output = Output(outputs[number] if number < len(outputs) else f"done {number}", status, position + 1)
        group.calls.append(state)
    return group


def asked(frame: Frame, groups: Sequence[Group], **members: Any) -> Request:
    digest, _ = encode_frame(frame)
    return Request("s", frame, digest, tuple(groups), 0, 0, 0, **members)


def body_of(compiled: Compiled) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.json.decode(compiled.body)
    return body


def blocks_of(body: dict[str, Any], type: str = "") -> list[tuple[str, dict[str, Any]]]:
    """All blocks of a request with their roles, or those of a type."""
    return [(message["role"], block) for message in body["messages"] for block in message["content"] if type in ("", block["type"])]


def thoughts(body: dict[str, Any]) -> list[str]:
    """The thinking that a request sends back."""
    return [block["thinking"] for _, block in blocks_of(body, "thinking")]


class Provider(World):
    """Signs the thinking in what it is told to say, and knows its signatures again."""

    def answer(self, request: dict[str, Any], content: Sequence[dict[str, Any]], stop: str = "end_turn") -> dict[str, Any]:
        blocks: list[dict[str, Any]] = []
        for block in content:
            if block["type"] in ("thinking", "redacted_thinking"):
                name = f"sig-{len(self.signed)}"
                words = block.get("thinking", "")
                digest = thinking_digest(words) if block["type"] == "thinking" else ""
                self.signed[name] = Signed(digest, reply_prefix_digest(request, blocks), request["model"])
                block = (
                    {"type": "thinking", "thinking": words, "signature": name} if digest else {"type": "redacted_thinking", "data": name}
                )
            blocks.append(block)
        usage = {"input_tokens": 10, "output_tokens": 5}
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": request["model"],
            "content": blocks,
            "stop_reason": stop,
            "usage": usage,
        }

    def complaints(self, request: dict[str, Any], profile: Profile = STRICT) -> list[Complaint]:
        return judge(request, VERSION, self, profile)


@dataclass
class Desk:
    """One conversation. `models` are those of the agents; an agent's frame is what `frames` has."""

    frames: dict[str, Frame]
    models: dict[str, Options]
    provider: Provider = field(default_factory=Provider)
    groups: list[Group] = field(default_factory=list)
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    compiled: Compiled | None = None

    @classmethod
    def of(cls, *agents: str, model: str = BINDS, **options: Any) -> Desk:
        given = {"effort": "low", **options}
        return cls({name: frame(name, f"tool_of_{name}") for name in agents}, {name: Options(model=model, **given) for name in agents})

    @property
    def position(self) -> int:
        return 3 * len(self.groups)

    def say(self, content: Content = "Hello") -> Desk:
        self.groups.append(said(self.position, content))
        return self

    def ask(self, agent: str, view: Sequence[Group] | None = None, **how: Any) -> dict[str, Any]:
        """The request of an agent. It is legal, or this fails."""
        options = self.models[agent]
        request = asked(self.frames[agent], self.groups if view is None else view)
        self.compiled = compile_request(request, options, origin_of(options), stream=False, **how)
        assert self.compiled.complaints == ()
        body = body_of(self.compiled)
        complaints = self.provider.complaints(body)
        assert complaints == [], f"{complaints[0]} in {json.dumps(body)}"
        self.requests.append((agent, body))
        return body

    def turn(
        self,
        agent: str,
        *content: dict[str, Any],
        outputs: Sequence[Content] = (),
        status: str = "ok",
        container: str = "",
        **how: Any,
    ) -> dict[str, Any]:
        """An agent is asked, answers this, and its calls get outputs. Returns the request."""
        body = self.ask(agent, **how)
        assert self.compiled is not None
        answer = self.provider.answer(body, content) | ({"container": {"id": container}} if container else {})
        reply = read_reply(answer, self.compiled, origin_of(self.models[agent]))
        self.groups.append(replied(self.position, agent, reply, outputs, status))
        return body


def origin_of(options: Options) -> str:
    return f"anthropic https://api.anthropic.com {options.model}"


# -- what a model says -------------------------------------------------------------------------------------------------


def thinks(words: str = "Hm.") -> dict[str, Any]:
    return {"type": "thinking", "thinking": words}


HIDDEN = {"type": "redacted_thinking"}


def words(text: str, **members: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **members}


def use(id: str = "toolu_1", name: str = "handoff", **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def search(id: str = "srv_1") -> list[dict[str, Any]]:
    """A search that the provider made by itself."""
    found = [{"type": "web_search_result", "url": "https://example.com", "title": "x", "encrypted_content": "abc"}]
    return [
        {"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "teapots"}},
        {"type": "web_search_tool_result", "tool_use_id": id, "content": found},
    ]


CITED = [{"type": "web_search_result_location", "url": "https://example.com", "cited_text": "x", "encrypted_index": "i", "title": "t"}]
