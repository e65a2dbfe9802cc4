"""Conversations in memory with a provider that signs thinking, for agents with turn contexts of their own.

Every request is encoded, checked against the provider's rules, answered and decoded, and its reply becomes a group of the next request.
This module knows nothing of the encoder.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from legato.core.facts import Call, CallRef, Content, ModelReplied
from legato.core.groups import CallOutput, CallState, Group
from legato.core.model_reply import ModelReply
from legato.core.turn_context import ToolSpec, TurnContext, encode_turn_context
from legato.core.view import ModelRequest
from legato.providers.formats.anthropic.decode import decode_reply
from legato.providers.formats.anthropic.encode import encode_request
from legato.providers.formats.encoded_request import EncodedRequest
from legato.providers.formats.request_options import RequestOptions
from legato.providers.rules.anthropic.prefix_digest import digest_reply_prefix, digest_thinking
from legato.providers.rules.anthropic.provider_state import ThinkingSignature
from legato.providers.rules.anthropic.rules import AnthropicRuleSwitches, check_request
from legato.providers.rules.rule_set import RuleViolation
from tests.providers.rules.anthropic.fake_provider import FakeProvider
from tests.providers.rules.anthropic.sample_requests import VERSION_HEADER

STRICT_SWITCHES = AnthropicRuleSwitches(alternation=True, first_message_is_user=True, results_first=True)
BINDING_MODEL, UNBOUND_MODEL = "claude-opus-5-5", "claude-haiku-4-5"


def make_tool(name: str) -> ToolSpec:
    return ToolSpec(name, f"Does {name}.", '{"type":"object","properties":{"id":{"type":"string"}}}')


def make_turn_context(agent: str, *tools: str, **members: Any) -> TurnContext:
    return TurnContext(agent, members.pop("instructions", f"You are {agent}."), tools=tuple(map(make_tool, (*tools, "handoff"))), **members)


def make_message_group(position: int, content: Content) -> Group:
    group = Group("said", position)
    group.content = content
    return group


def make_reply_group(
    position: int, agent: str, reply: ModelReply, outputs: Sequence[Content] = (), status: str = "ok", losses: Sequence[str] = ()
) -> Group:
    """Return a group of a reply and the outputs of its calls."""
    group = Group("reply", position, agent)
    group.fact = ModelReplied(
        at=0,
        agent=agent,
        context_digest="",
        upto=position - 1,
        items=reply.items,
        finish=reply.finish,
        origin=reply.origin,
        stored_digest=reply.stored_digest,
        losses=tuple(losses) or reply.losses,
        extra=reply.extra,
    )
    calls = [(index, item) for index, item in enumerate(reply.items) if isinstance(item, Call)]
    for number, (index, item) in enumerate(calls):
        state = CallState(CallRef(position, index), item, item.arguments)
        state.output = CallOutput(outputs[number] if number < len(outputs) else f"done {number}", status, position + 1)
        group.calls.append(state)
    return group


def make_request(context: TurnContext, groups: Sequence[Group], **members: Any) -> ModelRequest:
    digest, _ = encode_turn_context(context)
    return ModelRequest("s", context, digest, tuple(groups), 0, 0, 0, **members)


def decode_body(request: EncodedRequest) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.json.decode(request.body)
    return body


def find_blocks(body: dict[str, Any], type: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Return the blocks of a request with their roles, all or those of a type."""
    return [(message["role"], block) for message in body["messages"] for block in message["content"] if type in ("", block["type"])]


def find_thinking(body: dict[str, Any]) -> list[str]:
    """Return the thinking that a request replays."""
    return [block["thinking"] for _, block in find_blocks(body, "thinking")]


class SigningProvider(FakeProvider):
    """A provider that signs the thinking in its scripted replies, and verifies its signatures."""

    def answer(self, request: dict[str, Any], content: Sequence[dict[str, Any]], stop: str = "end_turn") -> dict[str, Any]:
        blocks: list[dict[str, Any]] = []
        for block in content:
            if block["type"] in ("thinking", "redacted_thinking"):
                name = f"sig-{len(self.signatures)}"
                text = block.get("thinking", "")
                digest = digest_thinking(text) if block["type"] == "thinking" else ""
                self.signatures[name] = ThinkingSignature(digest, digest_reply_prefix(request, blocks), request["model"])
                block = {"type": "thinking", "thinking": text, "signature": name} if digest else {"type": "redacted_thinking", "data": name}
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

    def find_violations(self, request: dict[str, Any], switches: AnthropicRuleSwitches = STRICT_SWITCHES) -> list[RuleViolation]:
        return check_request(request, VERSION_HEADER, self, switches)


@dataclass
class Conversation:
    """One conversation of several agents, with their turn contexts and their models' options."""

    contexts: dict[str, TurnContext]
    models: dict[str, RequestOptions]
    provider: SigningProvider = field(default_factory=SigningProvider)
    groups: list[Group] = field(default_factory=list)
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    last_request: EncodedRequest | None = None

    @classmethod
    def between(cls, *agents: str, model: str = BINDING_MODEL, **options: Any) -> Conversation:
        all_options = {"effort": "low", **options}
        return cls(
            {name: make_turn_context(name, f"tool_of_{name}") for name in agents},
            {name: RequestOptions(model=model, **all_options) for name in agents},
        )

    @property
    def position(self) -> int:
        return 3 * len(self.groups)

    def add_message(self, content: Content = "Hello") -> Conversation:
        self.groups.append(make_message_group(self.position, content))
        return self

    def encode_request(self, agent: str, view: Sequence[Group] | None = None, **encode_options: Any) -> dict[str, Any]:
        """Encode the request of an agent, check that it is legal, and return its body."""
        options = self.models[agent]
        request = make_request(self.contexts[agent], self.groups if view is None else view)
        self.last_request = encode_request(request, options, make_origin(options), stream=False, **encode_options)
        assert self.last_request.violations == ()
        body = decode_body(self.last_request)
        violations = self.provider.find_violations(body)
        assert violations == [], f"{violations[0]} in {json.dumps(body)}"
        self.requests.append((agent, body))
        return body

    def add_turn(
        self,
        agent: str,
        *content: dict[str, Any],
        outputs: Sequence[Content] = (),
        status: str = "ok",
        container: str = "",
        **encode_options: Any,
    ) -> dict[str, Any]:
        """Add an agent's reply of these blocks and the outputs of its calls. Returns the request's body."""
        body = self.encode_request(agent, **encode_options)
        assert self.last_request is not None
        answer = self.provider.answer(body, content) | ({"container": {"id": container}} if container else {})
        reply = decode_reply(answer, self.last_request, make_origin(self.models[agent]))
        self.groups.append(make_reply_group(self.position, agent, reply, outputs, status))
        return body


def make_origin(options: RequestOptions) -> str:
    return f"anthropic https://api.anthropic.com {options.model}"


# -- replies of models -------------------------------------------------------------------------------------------------


def thinking_block(text: str = "Hm.") -> dict[str, Any]:
    return {"type": "thinking", "thinking": text}


REDACTED_THINKING = {"type": "redacted_thinking"}


def text_block(text: str, **members: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **members}


def tool_use_block(id: str = "toolu_1", name: str = "handoff", **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def search_blocks(id: str = "srv_1") -> list[dict[str, Any]]:
    """Return the blocks of a search that the provider ran."""
    results = [{"type": "web_search_result", "url": "https://example.com", "title": "x", "encrypted_content": "abc"}]
    return [
        {"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "teapots"}},
        {"type": "web_search_tool_result", "tool_use_id": id, "content": results},
    ]


CITATIONS = [{"type": "web_search_result_location", "url": "https://example.com", "cited_text": "x", "encrypted_index": "i", "title": "t"}]
