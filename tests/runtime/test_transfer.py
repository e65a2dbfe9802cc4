"""Export of sessions as text and their import: failures on the way, copies that exist already, and changed texts."""

import asyncio
import re

import pytest

from legato import Agent, HandoffBuilder
from legato.core.facts import Opened
from legato.errors import BadInput, CodecError, LedgerExists, StoreLocked
from legato.stores import MemoryStore
from legato.testing import ScriptedModel


def chat():
    return HandoffBuilder("w", [Agent("a", model=ScriptedModel(lambda request: "re"))]).build()


async def test_diverged_copy_is_refused_every_time():
    workflow = chat()
    session = workflow.session("s")
    await session.run("mine")
    text = await session.to_string()
    store = MemoryStore()
    await workflow.session("s", store=store).run("of another user")
    copy = workflow.load(text, store=store)
    for _ in range(2):
        with pytest.raises(LedgerExists):
            await copy.run("and now?")


async def test_copy_is_imported_once_despite_failures():
    class Flaky(MemoryStore):
        has_failed = False

        async def append(self, *args, **options):
            if not self.has_failed:
                self.has_failed = True
                raise StoreLocked("busy")
            return await super().append(*args, **options)

    workflow = chat()
    session = workflow.session("s")
    await session.run("first")
    copy = workflow.load(await session.to_string(), store=Flaky())
    with pytest.raises(StoreLocked):
        await copy.refresh()

    async def say(text):
        return await copy.run(text)

    await asyncio.gather(say("second"), say("third"))
    assert copy.messages[0].text == "first"
    assert {message.text for message in copy.messages if message.role == "user"} == {"first", "second", "third"}


async def test_later_copy_updates_earlier_copy(store):
    workflow = chat()
    session = workflow.session("s", store=store)
    await session.run("first")
    other = MemoryStore()
    await other.append("s", 0, [*session.facts])
    await session.run("second")
    copy = await workflow.load(await session.to_string(), store=other).refresh()
    assert copy.facts[:-1] == session.facts
    assert isinstance(copy.facts[-1], Opened)


async def test_text_with_changed_contents_is_refused():
    workflow = chat()
    session = workflow.session("s")
    await session.run("first")
    text = await session.to_string()
    digest = text.split('"contents":{"')[1].split('"')[0]
    changed = text.replace(f'"{digest}":"', f'"{digest}":"AAAA')
    with pytest.raises(CodecError, match="was changed"):
        workflow.load(changed)
    with pytest.raises(CodecError, match="part of a session"):
        workflow.load(re.sub(r'"contents":\{[^}]*\}', '"contents":{}', text))
    for nonsense in (None, b"x", '{"legato": -1, "session": "s", "facts": []}'):
        with pytest.raises(BadInput):
            workflow.load(nonsense)


async def test_empty_session_can_be_exported(store):
    text = await chat().session("empty", store=store).to_string()
    assert (await chat().load(text).refresh()).status == "new"
