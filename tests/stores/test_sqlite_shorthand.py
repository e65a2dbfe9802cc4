"""Facts in shorthand: fewer bytes in the file, and the very same facts out of it."""

from __future__ import annotations

import sqlite3
from hashlib import blake2b
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato import Agent, HandoffBuilder, image
from legato.core.codec import decode, encode
from legato.core.facts import FORMAT, Answered, AnyFact, Returned, Said, Text, Usage, Words
from legato.errors import CodecError
from legato.stores import SQLiteStore, sqlite_shorthand
from legato.stores.sqlite_ledgers import _crc
from legato.stores.sqlite_shorthand import shorthand, written_out
from legato.testing import ScriptedModel
from tests.core.golden import folder, lines
from tests.stores.conftest import said

GOLDEN = [decode(line) for path in sorted(folder(FORMAT).glob("*.jsonl")) for line in lines(path)]
PIECES = [piece for _, pieces in sqlite_shorthand._TABLE.values() for piece in pieces]


@pytest.mark.parametrize("fact", GOLDEN, ids=lambda fact: type(fact).__name__)
def test_written_out_every_fact_is_byte_for_byte_what_was_encoded(fact: AnyFact) -> None:
    assert written_out(shorthand(fact)) == encode(fact)


# Words made of the pieces themselves, of what they look like within JSON, and of the bytes that stand for them.
HOSTILE = st.lists(
    st.sampled_from([piece.decode() for piece in PIECES])
    | st.sampled_from([piece.decode().replace('"', '\\"') for piece in PIECES])
    | st.characters(max_codepoint=0x21)
    | st.sampled_from(["\\", '"', "\x7f", "\u2028", "ÿ", "{", "}"])
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
).map("".join)


@given(HOSTILE, HOSTILE, HOSTILE)
def test_words_that_look_like_shorthand_come_out_as_they_were(one: str, two: str, three: str) -> None:
    usage = Usage(input=1, output=2, cached=3)
    reply = Answered(at=1, agent=one, frame=two, upto=0, items=(Words(three, item_id=one),), usage=usage, model=two, origin=three)
    now, parts = 1_700_000_000_000, (Text(one), Text(three))
    messages = [Said(at=now, content=content, author=two, key=three) for content in (one, parts)]
    outputs = [Returned(at=now, call=reply_ref(), output=output, attempt=1, full=two) for output in (one, parts)]
    for fact in (reply, *messages, *outputs):
        body = shorthand(fact)
        assert written_out(body) == encode(fact)
        assert decode(written_out(body)) == fact
        assert len(body) <= len(encode(fact))


def test_body_over_the_limit_is_plain_json() -> None:
    reply = Answered(at=1, agent="a", frame="f", upto=0, items=(Words("x" * sqlite_shorthand.MAX_SHORTHAND_BYTES),))
    assert shorthand(reply) == encode(reply)


def reply_ref() -> object:
    return next(fact.call for fact in GOLDEN if isinstance(fact, Returned))


def test_what_stands_for_a_piece_is_a_byte_that_json_never_has_and_no_two_pieces_of_a_kind_share_one() -> None:
    assert not any(byte < 0x20 for piece in PIECES for byte in piece)
    for first, (kind, pieces) in sqlite_shorthand._TABLE.items():
        pairs = sqlite_shorthand._PIECES[first]
        assert [piece for _, piece in pairs] == list(pieces), "there are not enough bytes for the pieces of this kind"
        assert len({short for short, _ in pairs}) == len(pairs)
        assert pieces[0].startswith(b'{"fact":"%s"' % kind.__struct_config__.tag.encode())


def test_a_kind_that_has_shorthand_is_always_written_in_it() -> None:
    for fact in GOLDEN:
        short = [first for first, (kind, _) in sqlite_shorthand._TABLE.items() if kind is type(fact)]
        plain = isinstance(getattr(fact, "content", ""), tuple)  # a message of parts begins in another way
        assert [shorthand(fact)[0]] == (short if short and not plain else [ord("{")])


def test_the_table_is_as_it_was_released() -> None:
    told = repr(sorted((first, pieces) for first, (_, pieces) in sqlite_shorthand._TABLE.items())).encode()
    assert blake2b(told, digest_size=8).hexdigest() == "e5080d38a0e86e96", "files have been written with it: add a first byte, and a schema"


async def test_a_picture_that_is_delivered_with_a_key_is_read_again(tmp_path: Path) -> None:
    desk = HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(["A crack."]))]).build()
    async with SQLiteStore(tmp_path / "s.db") as store:
        await desk.session("s", store=store).run(["Look", image(b"\x89PNG\r\n\x1a\n", "image/png")], key="first")
    async with SQLiteStore(tmp_path / "s.db") as store:
        session = await desk.session("s", store=store).refresh()
        assert [message.role for message in session.messages] == ["user", "assistant"]
        assert not await store.verify()


async def test_facts_that_were_kept_as_json_are_read_beside_those_in_shorthand(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with SQLiteStore(path) as store:
        await store.append("s", 0, said(0, 1, 2))
    with sqlite3.connect(path) as file:  # the second as schema 2 kept it
        body = encode(said(1)[0])
        file.execute("UPDATE facts SET body = ?, crc = ? WHERE key = ?", (body, _crc(1, 1, body), 1 << 32 | 1))
        file.execute("DROP INDEX ledgers_names")
        file.execute("CREATE TABLE epochs(floor INTEGER NOT NULL)")
        file.execute("INSERT INTO epochs VALUES (7)")
        file.execute("ALTER TABLE ledgers DROP COLUMN rested")
        file.execute("PRAGMA user_version=2")
    file.close()
    async with SQLiteStore(path) as store:
        assert await store.read("s") == said(0, 1, 2)
        assert await store.append("s", 3, said(3)) == 4
        assert await store.read("s") == said(0, 1, 2, 3)
        assert not await store.verify()


async def test_shorthand_that_nobody_knows_is_refused_and_not_guessed_at(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with SQLiteStore(path) as store:
        await store.append("s", 0, said(0, 1))
    with sqlite3.connect(path) as file:
        body = b"\x1f" + shorthand(said(1)[0])[1:]
        file.execute("UPDATE facts SET body = ?, crc = ? WHERE key = ?", (body, _crc(1, 1, body), 1 << 32 | 1))
    file.close()
    async with SQLiteStore(path) as store:
        with pytest.raises(CodecError, match="not a fact"):
            await store.read("s")
