"""Data of other frameworks becomes a ledger: each message once, in order, every call answered once (C1, C3), nothing executed (S1)."""

from __future__ import annotations

import asyncio
import base64
import json
import pickle
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Workflow, tool
from legato.compat.imports import Conversation, from_checkpoint, from_messages, from_run_state, from_sqlite_session
from legato.compat.imports.untrusted_input import MAX_SOURCE_BYTES
from legato.core.facts import ApprovalChecked, Call, CallReturned, HandedOff, MessageReceived, ModelReplied
from legato.emulator import Emulator, serve
from legato.errors import BadInput, CannotImport, LedgerExists
from legato.models import OpenAIChat, OpenAIResponses
from legato.stores import MemoryStore, SQLiteStore
from legato.testing import ScriptedModel
from tests.line_counter import count_lines
from tests.seeds.before import fake_models

SAMPLES = Path(__file__).parent / "samples"
QUESTIONS = ["What is my balance?", "And the balance of my savings?", "Which of the two is larger?"]


def bank(emulator: Emulator, chat: bool = True, gated: bool = False) -> Workflow:
    @tool(needs_approval=gated)
    def look_up_account(question: str) -> str:
        """Look up an account of the customer."""
        return f"balance 17 ({question})"

    make: Any = OpenAIChat if chat else OpenAIResponses
    model = make("gpt-4.1", base_url=emulator.openai_url, api_key="sk-import")
    coordinator = Agent("coordinator", "Route the customer to the specialist.", model)
    specialist = Agent("specialist", "You answer about accounts.", model, tools=[look_up_account])
    return (
        HandoffBuilder("bank", [coordinator, specialist])
        .with_start_agent(coordinator)
        .add_handoff(coordinator, [specialist])
        .add_handoff(specialist, [coordinator])
        .build()
    )


async def facts_of(conversation: Conversation, workflow: str = "bank") -> list[Any]:
    store = MemoryStore()
    await conversation.save(store, "s", workflow=workflow)
    return list(await store.read("s"))


def describe_facts(facts: list[Any]) -> list[str]:
    """A ledger in short."""
    lines = []
    for fact in facts:
        match fact:
            case MessageReceived():
                lines.append(f"user: {fact.content}")
            case ModelReplied():
                lines += [f"{fact.agent}: {getattr(item, 'tool', '') or item.text}" for item in fact.items]
            case CallReturned():
                lines.append(f"= {fact.output}")
            case HandedOff():
                lines.append(f"-> {fact.target}")
            case ApprovalChecked():
                lines.append("waits")
    return lines


def turn(question: str) -> list[str]:
    return ["specialist: look_up_account", f"= balance 17 ({question})", f"specialist: About {question!r}: the balance is 17."]


# -- what is read ------------------------------------------------------------------------------------------------------------


async def test_checkpoint_of_2025_yields_each_message_once() -> None:
    """The checkpoint keeps each message up to seven times."""
    conversation = from_checkpoint(SAMPLES / "checkpoint-1.0.0b251204.json")
    expected = []
    for question in QUESTIONS:
        expected += [
            f"user: {question}",
            "coordinator: One moment.",
            "coordinator: handoff_to_specialist",
            "-> specialist",
            *turn(question),
        ]
    assert describe_facts(await facts_of(conversation)) == expected
    assert conversation.agents == ["coordinator", "specialist"]
    assert conversation.report.copies == 16
    assert conversation.report.left_out == []
    assert (SAMPLES / "checkpoint-1.0.0b251204.json").read_text().count(QUESTIONS[0] + '"') > 6


async def test_checkpoint_of_1_0_skips_and_reports_pickles() -> None:
    """A checkpoint of 1.0 is read from its JSON; the report lists the pickles that were not read."""
    conversation = from_checkpoint(SAMPLES / "checkpoint-1.0.0.json")
    expected = [f"user: {QUESTIONS[0]}", "coordinator: handoff_to_specialist", "-> specialist", *turn(QUESTIONS[0])]
    for question in QUESTIONS[1:]:
        expected += [f"user: {question}", *turn(question)]
    assert describe_facts(await facts_of(conversation)) == expected
    assert conversation.report.copies == 12
    assert "12 pickled values of specialist.full_conversation; nothing is unpickled" in conversation.report.left_out
    assert "12 copies that the framework had made" in str(conversation.report)


@pytest.mark.parametrize("release", ["1.0.0", "1.23.0"])
async def test_imported_call_still_waits_for_approval(release: str) -> None:
    conversation = from_checkpoint(SAMPLES / f"checkpoint-{release}-approval.json")
    expected = ["user: What is my balance?", "coordinator: handoff_to_specialist", "-> specialist", "specialist: look_up_account", "waits"]
    assert describe_facts(await facts_of(conversation)) == expected
    assert conversation.report.pending == 1


@pytest.mark.parametrize("release", ["0.13.3", "0.24.0"])
async def test_run_state_keeps_outputs_and_waiting_calls(release: str) -> None:
    """A `RunState` keeps the output of the call that ran, and the two calls that wait."""
    conversation = from_run_state(SAMPLES / f"run-state-{release}-approval.json")
    facts = await facts_of(conversation)
    assert describe_facts(facts)[1:] == [
        "IT_Support_Agent: run_cleanup",
        "IT_Support_Agent: run_diagnostic",
        "IT_Support_Agent: run_cleanup",
        "waits",
        "= Diagnostic 'thermal_snapshot' completed. Temp: 72C.",
        "waits",
    ]
    assert conversation.report.pending == 2
    handed = from_run_state((SAMPLES / f"run-state-{release}-handoff.json").read_text())
    expected = ["user: What is my balance?", "coordinator: handoff_to_specialist", "-> specialist", *turn(QUESTIONS[0])]
    assert describe_facts(await facts_of(handed)) == expected


async def test_sqlite_session_infers_agents_from_handoffs() -> None:
    conversation = from_sqlite_session(SAMPLES / "session-0.13.3.db", agent="coordinator")
    expected = []
    for question in QUESTIONS[:2]:
        expected += [f"user: {question}", "coordinator: handoff_to_specialist", "-> specialist", *turn(question)]
    assert describe_facts(await facts_of(conversation)) == expected
    assert from_sqlite_session(SAMPLES / "session-0.13.3.db", "customer-42").agents == ["assistant", "specialist"]


# -- what cannot be known ----------------------------------------------------------------------------------------------------


def message(role: str, *contents: dict[str, Any], author: str = "", id: str = "") -> dict[str, Any]:
    return {"type": "message", "role": role, "contents": list(contents), "author_name": author, "message_id": id}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def calls(name: str, id: str) -> dict[str, Any]:
    return {"type": "function_call", "name": name, "call_id": id, "arguments": "{}"}


def tool_output(id: str, output: str) -> dict[str, Any]:
    return {"type": "function_result", "call_id": id, "result": output}


def checkpoint(**histories: list[dict[str, Any]]) -> str:
    """A checkpoint as 1.0 writes it, with these agents' sessions."""
    executors = {name: {"agent_session": {"state": {"in_memory": {"messages": kept}}}} for name, kept in histories.items()}
    return json.dumps({"checkpoint_id": "c1", "version": "1.0", "messages": {}, "state": {"_executor_state": executors}})


async def test_repeated_messages_stay_and_copies_go() -> None:
    """A message that a user sent twice stays twice; a message that the framework copied is there once."""
    run_1 = [message("user", text("Go on")), message("assistant", text("Done."), author="a", id="m1")]
    run_2 = [*run_1, message("user", text("Go on")), message("assistant", text("Done."), author="a", id="m2")]
    run_3 = [*run_2, message("user", text("Go on")), message("assistant", text("Done."), author="a", id="m3")]
    conversation = from_checkpoint(checkpoint(a=[*run_1, *run_2, *run_3]))
    assert describe_facts(await facts_of(conversation)) == ["user: Go on", "a: Done."] * 3
    assert conversation.report.copies == 6


async def test_history_without_replays_is_taken_unchanged() -> None:
    kept = [message("user", text("Go on")), message("assistant", text("Done."), author="a", id="m1")]
    kept += [message("user", text("Go on")), message("assistant", text("Done."), author="a", id="m2")]
    assert describe_facts(await facts_of(from_checkpoint(checkpoint(a=kept)))) == ["user: Go on", "a: Done."] * 2


async def test_call_without_output_gets_unknown_outcome() -> None:
    """A call without an output that does not wait for approval is answered as of unknown outcome."""
    kept = [message("user", text("Pay")), message("assistant", calls("pay", "c1"), calls("look", "c2"), author="a", id="m1")]
    kept += [message("tool", tool_output("c2", "found"), author="a"), message("user", text("Well?"))]
    conversation = from_messages(json.dumps(kept))
    unknown, found = (line for line in describe_facts(await facts_of(conversation)) if line.startswith("="))
    assert "outcome of 'pay' is unknown" in unknown
    assert "may have taken effect" in unknown
    assert found == "= found"
    assert conversation.report.unknown == 1


async def test_unmatched_outputs_and_early_replies_are_reported() -> None:
    """An output without a call, a second output, and a reply before the first message are left out and reported."""
    kept = [
        message("assistant", text("Welcome!"), author="a"),
        message("user", text("Hi")),
        message("assistant", calls("look", "c1"), author="a"),
    ]
    kept += [
        message("tool", tool_output("c1", "one")),
        message("tool", tool_output("c1", "two")),
        message("tool", tool_output("c9", "nine")),
    ]
    kept += [message("system", text("Be brief")), message("assistant", {"type": "text_reasoning", "text": "hm"}, text("Hello"), author="a")]
    report = from_messages(json.dumps(kept)).report
    assert len(report.left_out) == 5
    assert report.calls == 1
    for part in ("before anybody had spoken", "'c1'", "'c9'", "role 'system'", "reasoning"):
        assert any(part in line for line in report.left_out), part


async def test_reused_call_id_is_another_call() -> None:
    kept = []
    for output in ("one", "two"):
        kept += [
            message("user", text("Look")),
            message("assistant", calls("look", "constant"), author="a"),
            message("tool", tool_output("constant", output)),
        ]
    assert describe_facts(await facts_of(from_messages(json.dumps(kept)))) == [
        "user: Look",
        "a: look",
        "= one",
        "user: Look",
        "a: look",
        "= two",
    ]


async def test_handoff_without_a_call_gets_one() -> None:
    """Control that passed without a call gets one, and the report says so."""
    kept = [
        message("user", text("Hi")),
        message("assistant", text("One moment."), author="a"),
        message("assistant", text("Hello."), author="b"),
    ]
    conversation = from_messages(json.dumps(kept))
    assert describe_facts(await facts_of(conversation)) == ["user: Hi", "a: One moment.", "a: handoff_to_b", "-> b", "b: Hello."]
    assert "kept no call" in conversation.report.notes[0]
    renamed = MemoryStore()
    await conversation.save(renamed, "s", workflow="w", agents={"b": "clerk"})
    assert describe_facts(list(await renamed.read("s")))[-2:] == ["-> clerk", "clerk: Hello."]


async def test_reply_with_text_keeps_its_handoff_call() -> None:
    """Text and a handoff in one reply keep their call, although other agents received the text alone."""
    passing = message("assistant", text("One moment."), calls("handoff_to_b", "h1"), author="a", id="m1")
    first = [message("user", text("Hi")), passing, message("tool", tool_output("h1", "{}"))]
    second = [message("user", text("Hi")), message("assistant", text("One moment."), author="a")]
    second.append(message("assistant", text("Hello."), author="b", id="m2"))
    conversation = from_checkpoint(checkpoint(a=first, b=second))
    assert describe_facts(await facts_of(conversation)) == ["user: Hi", "a: One moment.", "a: handoff_to_b", "-> b", "b: Hello."]
    assert (conversation.report.notes, conversation.report.left_out) == ([], [])


def test_input_without_authors_is_noted() -> None:
    items = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Well?"}]
    state = {"$schemaVersion": "1.6", "original_input": items, "generated_items": [], "current_agent": {"name": "a"}}
    assert "the input does not say who spoke" in from_run_state(json.dumps(state)).report.notes[0]


async def test_renaming_needs_existing_agents_and_unique_names() -> None:
    conversation = from_checkpoint(SAMPLES / "checkpoint-1.0.0.json")
    store = MemoryStore()
    with pytest.raises(BadInput, match=r"nobody here is called 'clerk'[\s\S]*coordinator, specialist"):
        await conversation.save(store, "s", workflow="bank", agents={"clerk": "front"})
    with pytest.raises(BadInput, match="two agents would be called 'specialist'"):
        await conversation.save(store, "s", workflow="bank", agents={"coordinator": "specialist"})
    assert list(await store.read("s")) == []


async def test_pictures_and_files_come_along_with_their_bytes() -> None:
    picture = "data:image/png;base64," + base64.b64encode(b"pixels").decode()
    items = [{"role": "user", "content": [{"type": "input_text", "text": "See"}, {"type": "input_image", "image_url": picture}]}]
    state = {"$schemaVersion": "1.6", "original_input": items, "generated_items": [], "current_agent": {"name": "a"}}
    store = MemoryStore()
    await from_run_state(json.dumps(state)).save(store, "s", workflow="w")
    said = (await store.read("s"))[1]
    assert isinstance(said, MessageReceived)
    assert await store.content("s", said.content[1].digest) == b"pixels"  # type: ignore[union-attr]  # it is a picture


# -- going on ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize(
    "sample", ["checkpoint-1.0.0b251204.json", "checkpoint-1.0.0.json", "run-state-0.24.0-handoff.json", "session-0.13.3.db"]
)
async def test_workflow_continues_an_imported_conversation(tmp_path: Path, sample: str, chat: bool, stream: bool) -> None:
    """A workflow continues an imported conversation, and the provider refuses no request."""
    path = SAMPLES / sample
    read = (
        from_sqlite_session(path, agent="coordinator")
        if path.suffix == ".db"
        else (from_run_state if "run" in sample else from_checkpoint)(path)
    )
    with serve(fake_model=fake_models.reply_as_support_or_bank) as emulator:
        async with SQLiteStore(tmp_path / "bank.sqlite") as store:
            report = await read.save(store, "customer-42", workflow="bank")
            session = await bank(emulator, chat).session("customer-42", store=store).refresh()
            assert session.status == "waiting"
            before = [message.text for message in session.messages]
            await session.run("And what is the sum?", stream=stream)
            assert session.status == "waiting"
            assert [exchange.status for exchange in emulator.exchanges if exchange.status != 200] == []
            heard = [item.text for item in emulator.exchanges[-1].prompt.messages if item.role == "user"]  # type: ignore[union-attr]  # answered
            assert heard == [*QUESTIONS[: report.messages], "And what is the sum?"]
            assert [message.text for message in session.messages[: len(before)]] == before
            assert session.losses == []


@pytest.mark.parametrize("sample", ["checkpoint-1.0.0-approval.json", "checkpoint-1.23.0-approval.json"])
async def test_imported_call_is_approved_and_runs_once(sample: str) -> None:
    """An imported call is approved here and runs once, and the conversation continues."""
    store = MemoryStore()
    await from_checkpoint(SAMPLES / sample).save(store, "s", workflow="bank")
    with serve(fake_model=fake_models.reply_as_support_or_bank) as emulator:
        session = await bank(emulator, gated=True).session("s", store=store).refresh()
        (request,) = session.pending
        assert (request.kind, request.tool, request.agent) == ("approval", "look_up_account", "specialist")
        await session.approve(request)
        result = await session.resume()
        assert result.text == "About 'What is my balance?': the balance is 17."
        assert [exchange.status for exchange in emulator.exchanges] == [200]


async def test_continued_turn_has_the_agents_own_context() -> None:
    """The turn after an import has the agent's own instructions and tools."""
    store = MemoryStore()
    await from_checkpoint(SAMPLES / "checkpoint-1.0.0-approval.json").save(store, "s", workflow="bank")

    @tool(needs_approval=True)
    def look_up_account(question: str) -> str:
        return "17"

    model = ScriptedModel(["It is 17."])
    agents = [Agent("coordinator", "Route.", model), Agent("specialist", "Answer briefly.", model, tools=[look_up_account])]
    session = await HandoffBuilder("bank", agents).build().session("s", store=store).refresh()
    await session.approve(session.pending[0])
    await session.resume()
    frame = (await session.seen()).turn_context
    assert frame.instructions == "Answer briefly."
    assert "look_up_account" in [spec.name for spec in frame.tools]


async def test_rejecting_imported_calls_keeps_other_outputs() -> None:
    """Two imported calls are rejected, and the third keeps its output."""
    store = MemoryStore()
    await from_run_state(SAMPLES / "run-state-0.13.3-approval.json").save(store, "s", workflow="support")
    ran = []

    @tool(needs_approval=True)
    async def run_cleanup(target: str) -> str:
        ran.append(target)
        return "cleaned"

    @tool
    async def run_diagnostic(check_name: str) -> str:
        ran.append(check_name)
        return "checked"

    with serve(fake_model=fake_models.reply_as_support_or_bank) as emulator:
        model = OpenAIResponses("gpt-4.1-mini", base_url=emulator.openai_url, api_key="sk-import")
        agent = Agent("IT_Support_Agent", "You are an IT support assistant.", model, [run_cleanup, run_diagnostic])
        session = await HandoffBuilder("support", [agent]).build().session("s", store=store).refresh()
        for request in session.pending:
            await session.reject(request, "Not approved.")
        result = await session.resume()
        assert result.text == "The check is done; nothing was cleaned up."
        (exchange,) = emulator.exchanges
        outputs = [item["output"] for item in exchange.request_body["input"] if item.get("type") == "function_call_output"]
        assert [output.startswith("Not run") for output in outputs] == [True, False, True]
        assert ran == []


# -- all or nothing, and hostile input ---------------------------------------------------------------------------------------


async def test_import_keeps_an_existing_session() -> None:
    store = MemoryStore()
    conversation = from_run_state(SAMPLES / "run-state-0.13.3-handoff.json")
    await conversation.save(store, "s", workflow="bank")
    before = list(await store.read("s"))
    with pytest.raises(LedgerExists):
        await conversation.save(store, "s", workflow="bank")
    assert list(await store.read("s")) == before


@pytest.mark.parametrize("steps", range(8))
async def test_interrupted_import_is_all_or_nothing(tmp_path: Path, steps: int) -> None:
    conversation = from_run_state(SAMPLES / "run-state-0.13.3-handoff.json")
    whole = len(await facts_of(conversation))
    async with SQLiteStore(tmp_path / "desk.sqlite") as store:
        saving = asyncio.ensure_future(conversation.save(store, "s", workflow="bank"))
        for _ in range(steps):
            await asyncio.sleep(0)
        saving.cancel()
        await asyncio.wait([saving])
    async with SQLiteStore(tmp_path / "desk.sqlite") as store:
        assert len(await store.read("s")) in (0, whole)


def test_import_cost_is_linear() -> None:
    """The cost of an import grows with the conversation, not with its square."""

    def cost(turns: int) -> int:
        kept = []
        for turn in range(turns):
            kept += [message("user", text("Look")), message("assistant", calls("look", f"c{turn}"), author="a", id=f"m{turn}")]
            kept += [
                message("tool", tool_output(f"c{turn}", "seen"), author="a"),
                message("assistant", text("Done."), author="a", id=f"n{turn}"),
            ]
        kept = checkpoint(a=kept)
        assert from_checkpoint(kept).report.replies == 2 * turns
        return count_lines(lambda: from_checkpoint(kept))

    assert cost(200) < 5 * cost(50)  # four times as much; sixteen, if it were the square


class Bomb:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path("exploded"),))


def test_pickles_never_run_and_pickled_checkpoints_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pickle is never run. A checkpoint of nothing but pickles is refused with advice."""
    monkeypatch.chdir(tmp_path)
    bomb = {"__pickled__": base64.b64encode(pickle.dumps(Bomb())).decode(), "__type__": "agent_framework._types:Message"}
    executors = {"a": {"cache": [bomb], "full_conversation": [bomb, bomb], "agent_session": bomb}}
    body = {"checkpoint_id": "c1", "version": "1.0", "messages": {"a": [bomb]}, "state": {"_executor_state": executors}, "metadata": bomb}
    with pytest.raises(CannotImport, match=r"without running pickles[\s\S]*to_dict[\s\S]*nothing was imported"):
        from_checkpoint(json.dumps(body))
    with pytest.raises(CannotImport, match="pickled"):
        from_messages(json.dumps([bomb]))
    assert not Path("exploded").exists()


def test_empty_and_pickled_conversations_fail_differently() -> None:
    """A checkpoint before the first message and a conversation that is one pickle have different errors."""
    with pytest.raises(CannotImport, match=r"nobody has said anything[\s\S]*take a later one"):
        from_checkpoint(checkpoint(a=[]))
    pickled = {"__pickled__": "gASV", "__type__": "builtins:list"}
    executors = {"a": {"cache": pickled, "full_conversation": pickled}}
    body = {"checkpoint_id": "c1", "version": "1.0", "messages": {}, "state": {"_executor_state": executors}}
    with pytest.raises(CannotImport, match=r"without running pickles[\s\S]*2 pickled values[\s\S]*to_dict"):
        from_checkpoint(json.dumps(body))


def test_untrusted_text_cannot_control_a_terminal(tmp_path: Path) -> None:
    state = {"$schemaVersion": "1.6", "original_input": "Hi", "current_agent": {"name": "a\x1b[2J"}}
    output = {"type": "function_call_output", "call_id": "c\x1b[2J\nerror: fake", "output": ""}
    item = {"type": "tool_call_output_item", "agent": {"name": "a"}, "raw_item": output}
    report = str(from_run_state(json.dumps({**state, "generated_items": [item] * 30})).report)
    assert "\x1b" not in report
    assert report.count("\n") == 21, "twenty of them, and how many more there are"
    assert report.endswith("left out: 10 more")
    rows = [f"INSERT INTO agent_messages VALUES ({number}, 's{number}' || char(27) || '[2J', '{{}}', '')" for number in (1, 2)]
    with pytest.raises(CannotImport) as refusal:
        from_sqlite_session(write_session_file(tmp_path, TABLE, *rows))
    assert "\x1b" not in str(refusal.value)


def test_a_mark_before_the_text_does_no_harm() -> None:
    whole = (SAMPLES / "run-state-0.13.3-handoff.json").read_bytes()
    assert from_run_state(b"\xef\xbb\xbf" + whole).report == from_run_state(whole).report


HOSTILE = [
    "",
    "{",
    "null",
    "[]",
    "7",
    '"text"',
    "{}",
    '{"checkpoint_id": 7}',
    '{"$schemaVersion": "9.0"}',
    "[" * 100_000,
    '{"a":' * 100_000,
    "\udcff",
]


@pytest.mark.parametrize("source", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("read", [from_checkpoint, from_messages, from_run_state])
def test_malformed_input_gets_one_typed_error(read: Any, source: str) -> None:
    with pytest.raises(CannotImport):
        read(source)


@pytest.mark.parametrize("sample", sorted(path.name for path in SAMPLES.glob("*.json")))
def test_corrupted_samples_are_read_or_refused(sample: str) -> None:
    read = from_run_state if sample.startswith("run") else from_checkpoint
    whole = (SAMPLES / sample).read_text()
    refused = 0
    for cut in range(0, len(whole) - 2, max(1, len(whole) // 40)):
        with pytest.raises(CannotImport):
            read(whole[:cut])
    places = [match.span() for match in re.finditer(r'(?<=:)\s*(?:"[^"\\]*"|\d+|null|true|false|\[\]|\{\})', whole)]
    for start, end in places[:: max(1, len(places) // 60)]:
        for other in ("null", "7", '"x"', "[]", "{}", '[{"type":"text","text":7}]'):
            try:
                read(whole[:start] + other + whole[end:])
            except CannotImport:
                refused += 1
    assert refused > 5


def write_session_file(folder: Path, *statements: str) -> Path:
    path = folder / "session.db"
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()
    return path


TABLE = "CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id TEXT, message_data TEXT, created_at TEXT)"
ENDLESS = "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id, 's' AS session_id, '{}' AS message_data FROM n"


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE other (id)"],
        [TABLE],
        [f"CREATE VIEW agent_messages AS {ENDLESS}"],
        ["CREATE VIRTUAL TABLE agent_messages USING fts5(session_id, message_data)"],
        ["CREATE TABLE agent_messages (id, session_id)", "INSERT INTO agent_messages VALUES (1, 's')"],
        [
            "CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id TEXT, message_data TEXT AS (hex(zeroblob(200000000))))",
            "INSERT INTO agent_messages (id, session_id) VALUES (1, 's')",
        ],
        [TABLE, "INSERT INTO agent_messages VALUES (1, 's', x'80ff', '')"],
        [TABLE, "INSERT INTO agent_messages VALUES (1, 's', CAST(x'80ff' AS TEXT), '')"],
        [TABLE, "INSERT INTO agent_messages VALUES (1, 's', NULL, '')"],
        [TABLE, "INSERT INTO agent_messages VALUES (1, 's', '{\"role\": \"user\"', '')"],
        [TABLE, "INSERT INTO agent_messages VALUES (1, 's', '[1, 2]', '')"],
        [TABLE, "INSERT INTO agent_messages VALUES (1, 's', '{\"role\": \"root\"}', '')"],
        [TABLE, "INSERT INTO agent_messages VALUES (1, 's', '{\"type\": \"function_call\", \"name\": 7}', '')"],
    ],
)
def test_file_without_session_gets_one_typed_error(tmp_path: Path, statements: list[str]) -> None:
    with pytest.raises(CannotImport):
        from_sqlite_session(write_session_file(tmp_path, *statements))


def test_unusable_session_files_have_clear_errors(tmp_path: Path) -> None:
    """A missing file, another format, a folder, a missing session and an ambiguous one each have an error."""
    (tmp_path / "text.db").write_text("hello")
    (tmp_path / "cut.db").write_bytes((SAMPLES / "session-0.13.3.db").read_bytes()[:5000])
    for name in ("none.db", "text.db", "cut.db", "."):
        with pytest.raises(CannotImport):
            from_sqlite_session(tmp_path / name)
    with pytest.raises(CannotImport, match="customer-42"):
        from_sqlite_session(SAMPLES / "session-0.13.3.db", "'; DROP TABLE agent_messages; --")
    rows = [
        f"""INSERT INTO agent_messages VALUES ({number}, 's{number}', '{{"role": "user", "content": "Hi"}}', '')""" for number in (1, 2)
    ]
    two = write_session_file(tmp_path, TABLE, *rows)
    with pytest.raises(CannotImport, match="s1, s2"):
        from_sqlite_session(two)
    assert from_sqlite_session(two, "s2").report.messages == 1


def test_reading_leaves_file_and_journal_unchanged(tmp_path: Path) -> None:
    """Reading changes nothing in the file, although its newest messages are in the journal."""
    path = tmp_path / "session.db"
    path.write_bytes((SAMPLES / "session-0.13.3.db").read_bytes())
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(
        """INSERT INTO agent_messages (session_id, message_data) VALUES ('customer-42', '{"role": "user", "content": "Newest"}')"""
    )
    connection.commit()
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert from_sqlite_session(path).report.messages == 3
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    connection.close()


def test_oversized_journal_is_refused_before_copying(tmp_path: Path) -> None:
    path = tmp_path / "session.db"
    path.write_bytes((SAMPLES / "session-0.13.3.db").read_bytes())
    with (tmp_path / "session.db-wal").open("wb") as journal:
        journal.truncate(MAX_SOURCE_BYTES + 1)
    with pytest.raises(CannotImport, match=r"session.db-wal is too long"):
        from_sqlite_session(path)


def test_every_sample_call_is_recorded_once() -> None:
    for path in SAMPLES.glob("*.json"):
        read = from_run_state if path.name.startswith("run") else from_checkpoint
        facts = read(path)._write("w", {}, 0)[0]
        ids = [item.call_id for fact in facts if isinstance(fact, ModelReplied) for item in fact.items if isinstance(item, Call)]
        assert len(ids) == len(set(ids)) > 0
