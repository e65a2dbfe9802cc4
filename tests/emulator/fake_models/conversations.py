"""Conversations with a fake model without a server: the helper does what a client would do with its replies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from legato.emulator.fake_models import FakeModel, FakeReply, ModelPrompt, PromptMessage, PromptTool, ReplyCall, ReplyText


def make_tool(name: str, description: str = "", **types: str) -> PromptTool:
    """Return a tool whose arguments have these types and are all required."""
    properties = {key: {"type": kind} for key, kind in types.items()}
    return PromptTool(name, description, {"type": "object", "properties": properties, "required": list(types)})


def make_prompt(user_text: str = "", *tools: PromptTool, **rest: Any) -> ModelPrompt:
    """Return a prompt that ends with a user message."""
    messages = (PromptMessage("user", user_text),) if user_text else ()
    return ModelPrompt(**{"api": "chat", "model": "m", "tools": tools, "messages": messages, **rest})


class Agent(Struct, frozen=True):
    """Instructions and tools; a handoff changes both."""

    instructions: str
    tools: tuple[PromptTool, ...] = ()


class ConversationResult(Struct):
    """The model's replies in a conversation, and all its messages."""

    replies: list[FakeReply]
    messages: tuple[PromptMessage, ...]

    @property
    def called_tools(self) -> list[list[str]]:
        """The tools called in each turn with calls."""
        return [names for reply in self.replies if (names := [item.tool for item in reply.items if isinstance(item, ReplyCall)])]

    @property
    def last_text(self) -> str:
        """The last text of the last reply."""
        return next((item.text for item in reversed(self.replies[-1].items) if isinstance(item, ReplyText)), "")


def list_calls(reply: FakeReply) -> list[ReplyCall]:
    """Return the calls of a reply."""
    return [item for item in reply.items if isinstance(item, ReplyCall)]


def run_conversation(
    fake_model: FakeModel,
    user_text: str,
    agents: Mapping[str, Agent],
    outputs: Mapping[str, str] | Callable[[ReplyCall], str] = {},  # noqa: B006 - only read
    *,
    earlier_messages: Sequence[PromptMessage] = (),
    max_turns: int = 50,
    **rest: Any,
) -> ConversationResult:
    """Run a conversation after one user message, beginning with the first agent. Every call gets an output; a handoff changes the agent."""
    agent = next(iter(agents.values()))
    messages = (*earlier_messages, PromptMessage("user", user_text))
    replies: list[FakeReply] = []
    for turn in range(max_turns):
        model_prompt = ModelPrompt(
            **{"api": "chat", "model": "m", **rest, "instructions": agent.instructions, "tools": agent.tools, "messages": messages}
        )
        reply = fake_model.reply(model_prompt)
        replies.append(reply)
        calls = [replace(call, id=f"call_{len(messages)}_{turn}_{index}") for index, call in enumerate(list_calls(reply))]
        text = " ".join(item.text for item in reply.items if isinstance(item, ReplyText))
        messages = (*messages, PromptMessage("assistant", text, tuple(calls)))
        if not calls:
            break
        for call in calls:
            output = outputs(call) if callable(outputs) else outputs.get(call.tool, "done")
            messages = (*messages, PromptMessage("tool", output, call_id=call.id, tool=call.tool))
            agent = agents.get(call.tool, agent)
    return ConversationResult(replies, messages)
