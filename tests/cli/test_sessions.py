"""`legato ls`, `show`, `seen`, `fork`, `export`, `delete`: what people and programs read of any store. S4."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from legato import Agent, HandoffBuilder
from legato.stores import SQLiteStore
from legato.testing import ScriptedModel, call
from tests.cli.conftest import CANARY, REFUND, Shell

HELLO = "hello \x1b[2J there"
UNPRINTED = "\x9b2J \u202e \U000e0041"


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two conversations: one in which a refund waits, one that is over. Made once, and copied for each test."""
    shell = Shell(tmp_path_factory.mktemp("before"))
    shell.environment["LEGATO_STORE"] = "desk.sqlite"
    done = shell("chat", "desk:desk", "-s", "waits", stdin=f"{REFUND}\ne amount=12\n{REFUND}\nl\n")
    assert done.code == 0, done.err
    assert shell("chat", "desk:desk", "-s", "over", "-m", HELLO).code == 0
    return shell.folder


@pytest.fixture
def talked(shell: Shell, before: Path) -> Shell:
    """The same, in the store that LEGATO_STORE names."""
    for path in before.glob("desk.sqlite*"):
        shutil.copy(path, shell.folder)
    shell.environment["LEGATO_STORE"] = "desk.sqlite"
    return shell


def test_json_has_no_control_characters(talked: Shell) -> None:
    talked("chat", "desk:desk", "-s", "odd", "-m", UNPRINTED)
    for command in ("ls --json", "show odd --json", "show odd --facts --json", "export odd --as json", "export odd --as session"):
        printed = talked(*command.split()).out
        assert printed.replace("\n", "").isprintable(), command
        assert command == "ls --json" or UNPRINTED in strings([json.loads(line) for line in printed.splitlines()]), command


def strings(document: Any) -> str:
    """All strings of a JSON document."""
    if isinstance(document, dict):
        document = list(document.values())
    return "".join(map(strings, document)) if isinstance(document, list) else str(document)


def test_ls_lists_sessions_the_most_recent_first(talked: Shell) -> None:
    listed = talked("ls")
    rows = [line.split() for line in listed.out.splitlines()]
    assert [row[:4] for row in rows] == [
        ["session", "workflow", "status", "facts"],
        ["over", "desk", "waiting", "3"],
        ["waits", "desk", "pending", "15"],
    ]
    assert "\x1b" not in listed.out, "neither colours nor what somebody said can do anything to a terminal"
    assert [row["id"] for row in talked("ls", "--json", "-n", "1").json] == ["over"]


def test_before_anything_was_said_there_are_no_sessions_and_that_is_no_mistake(shell: Shell) -> None:
    assert shell("ls").out.startswith("no sessions yet")
    assert shell("ls", "--json").json == []
    missing = shell("ls", "--store", "nowhere.sqlite")
    assert missing.code == 2
    assert "there is no store nowhere.sqlite" in missing.err
    assert not (shell.folder / "nowhere.sqlite").exists(), "a mistyped path is no empty store"


def test_show_reads_as_the_conversation_did(talked: Shell) -> None:
    shown = talked("show", "waits", "-w", "desk:desk").out.splitlines()
    assert shown[0] == "waits  desk, pending, 15 facts"
    assert shown[1:3] == [f"you › {REFUND}", "  ⇢ triage to refunds  money back"]
    assert "  ✓ refund: 12.00 for order 7 is on its way" in shown
    assert any(line.startswith('? refunds: refund({"order_id": "7", "amount": 24.5, "pin": "secret:') for line in shown)
    assert talked("show", "over").out.splitlines()[1] == "you › hello \\x1b[2J there"
    as_json = talked("show", "waits", "--json", "-w", "desk:desk").json
    assert (as_json["status"], as_json["pending"][0]["arguments"]["order_id"]) == ("pending", "7")


def test_without_the_program_no_value_of_an_argument_is_shown(talked: Shell) -> None:
    shown = talked("show", "waits").out
    assert '"order_id": "secret:' in shown
    assert "--workflow module:name says which of them are secret" in shown


def test_seen_is_the_request_behind_a_reply(talked: Shell) -> None:
    seen = talked("seen", "waits", "1").out
    assert seen.startswith("reply 1 of refunds by clerk-1; it saw the facts 0 to 3\n")
    assert "instructions  Handle refunds." in seen
    last = talked("seen", "waits", "--json").json
    assert (last["n"], last["agent"]) == (4, "refunds")
    assert json.loads(talked("seen", "waits", "0", "--body").out)["messages"][0]["parts"][0]["text"] == REFUND
    beyond = talked("seen", "waits", "99")
    assert (beyond.code, "has 5 replies" in beyond.err) == (2, True)


def test_fork_begins_a_session_that_goes_its_own_way(talked: Shell) -> None:
    made = talked("fork", "waits", "--at", "2", "--id", "branch", "--json").json
    assert made == {"session": "branch", "from": "waits", "at": 2, "status": "running"}
    went_on = talked("chat", "desk:desk", "-s", "branch", stdin="n no money today\n")
    assert "It says: Not run: a person declined this call. no money today" in went_on.out
    assert talked("show", "waits", "--json").json["facts"] == 15
    again = talked("fork", "waits", "--id", "branch")
    assert (again.code, "branch" in again.err) == (2, True)


def test_export_writes_down_all_that_is_recorded_or_what_can_be_read(talked: Shell) -> None:
    document = talked("export", "waits", "-w", "desk:desk").json
    assert [fact["position"] for fact in document["facts"]] == list(range(15))
    frames = {frame["instructions"] for frame in document["frames"].values()}
    assert frames == {"Route the customer.", "Handle refunds."}
    page = talked("export", "over", "--as", "markdown").out
    assert "> hello \\\\x1b\\[2J there" in page
    assert talked("export", "over", "--as", "markdown", "-o", "page.md").code == 0
    again = talked("export", "over", "-o", "page.md")
    assert (again.code, "page.md is there already" in again.err) == (2, True)


def test_exported_file_is_private(talked: Shell) -> None:
    assert talked("export", "waits", "--as", "session", "-o", "exact").code == 0
    assert (talked.folder / "exact").stat().st_mode & 0o777 == 0o600


def test_an_exact_export_is_loaded_by_the_workflow_and_goes_on(talked: Shell) -> None:
    exact = talked("export", "waits", "--as", "session")
    assert "secret arguments are in it" in exact.err
    (talked.folder / "load.py").write_text(
        "import asyncio, sys\nfrom desk import desk\n"
        "async def main():\n"
        "    session = desk.load(sys.stdin.read().strip())\n"
        "    await session.refresh()\n"
        "    await session.approve(session.pending[0])\n"
        "    print((await session.resume()).text)\n"
        "asyncio.run(main())\n"
    )
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "load.py"], input=exact.out, text=True, capture_output=True, cwd=talked.folder, env=talked.environment
    )
    assert done.stdout.strip() == "It says: 24.50 for order 7 is on its way", done.stderr


LOOKING = {
    "show": ["show", "waits"],
    "show --json": ["show", "waits", "--json"],
    "show --facts": ["show", "waits", "--facts"],
    "seen": ["seen", "waits"],
    "seen --body": ["seen", "waits", "--body"],
    "seen --json": ["seen", "waits", "2", "--json"],
    "export": ["export", "waits"],
    "export --as markdown": ["export", "waits", "--as", "markdown"],
    "replay --json": ["replay", "waits", "--json"],
    "ls --json": ["ls", "--json"],
}


def test_a_secret_argument_is_shown_by_no_verb_and_is_in_no_default_export(talked: Shell) -> None:
    """S4. The edited arguments are told to the model as well: so they are in requests, and digests stand in what is shown of those."""
    typed = [[*each, *program] for each in LOOKING.values() for program in ([], ["-w", "desk:desk"])]
    for command in typed:
        ended = talked(*command)
        assert ended.code == 0, ended.err
        assert ended.out
        assert CANARY not in ended.out + ended.err, command
    asked = talked("chat", "desk:desk", "-s", "waits", "--json")
    assert '"pin":"secret:' in asked.out
    assert CANARY not in asked.out + asked.err
    assert CANARY in talked("export", "waits", "--as", "session").out, "the canary is there to be found"


def test_delete_asks_first_and_says_what_is_gone(talked: Shell) -> None:
    refused = talked("delete", "over")
    assert (refused.code, "add --yes" in refused.err) == (2, True)
    person = talked.terminal("delete", "over")
    person.until("Delete over (2 messages, waiting)?")
    person.type("y")
    assert person.end() == 0
    assert talked("delete", "over", "--yes").code == 2, "it is gone"
    assert talked("delete", "waits", "-y", "--json").json == {"session": "waits", "deleted": True}
    assert talked("ls", "--json").json == []


async def _family(path: Path) -> None:
    inner = Agent("inner", model=ScriptedModel(["Done."]))
    outer = Agent("outer", model=ScriptedModel([call("ask_inner", task="Work"), "All done."]), tools=[inner.as_tool()])
    async with SQLiteStore(path) as store:
        await HandoffBuilder("office", [outer]).build().session("one", store=store).run("Go")


def test_delete_counts_child_sessions(shell: Shell) -> None:
    asyncio.run(_family(shell.folder / "family.db"))
    told = shell("delete", "one", "--yes", "--store", "family.db")
    assert told.out == "deleted one (2 messages, waiting, with 1 child session)\n"
    assert shell("ls", "--json", "--store", "family.db").json == []


def test_a_damaged_session_is_told_and_hides_no_other(talked: Shell) -> None:
    _damage(talked.folder / "desk.sqlite")
    rows = {row["id"]: row["status"] for row in talked("ls", "--json").json}
    assert rows == {"over": "waiting", "waits": "damaged"}
    sick = talked("doctor", "--json")
    assert sick.code == 1
    assert [problem for problem in sick.json["problems"] if "'waits' cannot be read" in problem]


def _damage(path: Path) -> None:
    """Spoil some bytes of one conversation."""

    async def position() -> bytes:
        async with SQLiteStore(path) as store:
            facts = await store.read("waits")
            return str(facts[1].content).encode()  # type: ignore[union-attr] # the message that it begins with

    words = asyncio.run(position())
    data = path.read_bytes()
    assert words in data
    path.write_bytes(data.replace(words, b"X" + words[1:]))


def test_a_workflow_with_a_store_of_its_own_is_looked_at_there(shell: Shell) -> None:
    (shell.folder / "own.py").write_text(
        "from legato import HandoffBuilder\nfrom legato.stores import SQLiteStore\nfrom desk import triage\n"
        "own = HandoffBuilder(name='own', participants=[triage]).with_checkpointing(SQLiteStore('own.sqlite')).build()\n"
    )
    assert shell("chat", "own:own", "-s", "here", "-m", "hello").code == 0
    assert [row["id"] for row in shell("ls", "-w", "own:own", "--json").json] == ["here"]
    rows = shell("ls", "--store", "own.sqlite", "-w", "desk:desk", "--json").json
    assert [(row["workflow"], row["status"]) for row in rows] == [("own", "waiting")], "those of other workflows are listed, too"
    other = shell("show", "here", "--store", "own.sqlite", "-w", "desk:desk", "--json")
    assert (other.code, other.json["error"]["code"]) == (2, "definition_changed")
    assert not (shell.folder / "data").exists(), "and nowhere else"
