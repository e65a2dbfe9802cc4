"""Pictures and files that tools return: they are stored beside the ledger, and every agent sees them, also after a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from legato import Agent, HandoffBuilder, ToolContext, file, image, tool
from legato.core.facts import File, Image, Text
from legato.emulator import serve
from legato.emulator.fake_models.base import FakeReply, ModelPrompt, ReplyCall, ReplyText
from legato.models import Anthropic, OpenAIChat, OpenAIResponses
from legato.stores import SQLiteStore
from legato.testing import ScriptedModel, call, handoff

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


@tool
def photograph(order_id: str) -> list[object]:
    """A photograph of an order."""
    return ["order " + order_id, image(PIXEL), file(b"%PDF-1.4", "invoice.pdf", "application/pdf")]


async def test_next_agent_sees_picture_after_restart(tmp_path: Path) -> None:
    script = {"front": [call("photograph", order_id="7"), handoff("back")], "back": ["I see it."]}
    model = ScriptedModel(by_agent=script)

    def desk() -> object:
        front, back = Agent("front", model=model, tools=[photograph]), Agent("back", model=model)
        builder = HandoffBuilder("desk", [front, back]).add_handoff(front, [back]).add_handoff(back, [front])
        return builder.with_checkpointing(SQLiteStore(tmp_path / "desk.sqlite")).build()

    await desk().session("s").run("Show me")  # type: ignore[attr-defined]
    session = await desk().session("s").refresh()  # type: ignore[attr-defined]
    shown = next(message for message in (await session.seen()).messages if message.author_name == "photograph")
    text, picture, document = shown.parts
    assert text == Text("order 7")
    assert isinstance(picture, Image)
    assert isinstance(document, File)
    assert await session.store.content("s", picture.digest) == PIXEL


@pytest.mark.parametrize("provider_format", ["responses", "chat", "anthropic"])
async def test_every_provider_format_sends_the_picture(provider_format: str) -> None:
    async with serve(fake_model=_reply_with_tool_call, max_text_chars=None) as emulator:
        model = {
            "responses": lambda: OpenAIResponses("gpt-5", base_url=emulator.openai_url, api_key="any"),
            "chat": lambda: OpenAIChat("gpt-5", base_url=emulator.openai_url, api_key="any"),
            "anthropic": lambda: Anthropic("claude-sonnet-5", base_url=emulator.url, api_key="any"),
        }[provider_format]()
        result = await Agent("a", model=model, tools=[photograph]).run("Show me order 7")
        await model.close()
    assert result.text == "There it is."
    assert [exchange.status for exchange in emulator.exchanges] == [200, 200]
    sent = str(emulator.exchanges[1].request_body)
    assert "iVBORw0KGgo" in sent
    assert "JVBERi0xLjQ" in sent


def _reply_with_tool_call(prompt: ModelPrompt) -> FakeReply:

    has_output = any(message.role == "tool" for message in prompt.messages)
    return FakeReply((ReplyText("There it is."),)) if has_output else FakeReply((ReplyCall("photograph", '{"order_id": "7"}'),))


async def test_edited_call_keeps_picture_and_names_arguments() -> None:
    @tool(needs_approval=True)
    def snapshot(order_id: str) -> object:
        """A photograph of an order."""
        return image(PIXEL)

    model = ScriptedModel([call("snapshot", order_id="7"), "Thank you."])
    session = (await Agent("a", model=model, tools=[snapshot]).run("Show me")).session
    await session.edit(session.pending[0], {"order_id": "8"})
    await session.resume()
    told, picture = next(message for message in (await session.seen()).messages if message.author_name == "snapshot").parts
    assert isinstance(told, Text)
    assert '"order_id": "8"' in told.text
    assert isinstance(picture, Image)


async def test_deferred_tool_may_be_answered_with_picture() -> None:
    @tool(deferred=True)
    def scan(order_id: str, ctx: ToolContext[None]) -> str:
        """Ask the warehouse for a scan."""
        raise AssertionError

    model = ScriptedModel([call("scan", order_id="7"), "Thank you."])
    session = (await Agent("a", model=model, tools=[scan]).run("Show me")).session
    await session.answer(session.pending[0], image(PIXEL))
    await session.resume()
    shown = next(message for message in (await session.seen()).messages if message.author_name == "scan")
    (picture,) = shown.parts
    assert isinstance(picture, Image)
    copy = await session.workflow.load(await session.to_string()).refresh()
    for each in (session, copy):
        assert await each.store.content(each.id, picture.digest) == PIXEL


async def test_copy_contains_picture_of_tool() -> None:
    agent = Agent("a", model=ScriptedModel([call("photograph", order_id="7"), "There."]), tools=[photograph])
    session = (await agent.run("Show me")).session
    text = await session.to_string()
    other = Agent("a", model=ScriptedModel(["There."]), tools=[photograph])._as_workflow()
    copy = await other.load(text).refresh()
    shown = next(message for message in (await copy.seen()).messages if message.author_name == "photograph")
    assert await copy.store.content(copy.id, shown.parts[1].digest) == PIXEL  # type: ignore[union-attr]
