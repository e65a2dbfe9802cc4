"""`legato ls`, `show`, `seen`, `fork`, `export` and `delete`. S4."""

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

MESSAGE_WITH_ESCAPE = "hello \x1b[2J there"
UNPRINTABLE_TEXT = "\x9b2J \u202e \U000e0041"


@pytest.fixture(scope="module")
def prepared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a store of two sessions, one with a pending refund. It is created once, and copied for each test."""
    shell = Shell(tmp_path_factory.mktemp("before"))
    shell.environment["LEGATO_STORE"] = "desk.sqlite"
    process = shell("chat", "desk:desk", "-s", "waits", stdin=f"{REFUND}\ne amount=12\n{REFUND}\nl\n")
    assert process.code == 0, process.err
    assert shell("chat", "desk:desk", "-s", "over", "-m", MESSAGE_WITH_ESCAPE).code == 0
    return shell.folder


@pytest.fixture
def sessions_shell(shell: Shell, prepared_folder: Path) -> Shell:
    """Return a shell with a copy of that store, which LEGATO_STORE names."""
    for path in prepared_folder.glob("desk.sqlite*"):
        shutil.copy(path, shell.folder)
    shell.environment["LEGATO_STORE"] = "desk.sqlite"
    return shell


def test_json_output_has_no_control_characters(sessions_shell: Shell) -> None:
    sessions_shell("chat", "desk:desk", "-s", "odd", "-m", UNPRINTABLE_TEXT)
    for command in ("ls --json", "show odd --json", "show odd --facts --json", "export odd --as json", "export odd --as session"):
        printed = sessions_shell(*command.split()).out
        assert printed.replace("\n", "").isprintable(), command
        assert command == "ls --json" or UNPRINTABLE_TEXT in join_strings([json.loads(line) for line in printed.splitlines()]), command


def join_strings(document: Any) -> str:
    """All strings of a JSON document."""
    if isinstance(document, dict):
        document = list(document.values())
    return "".join(map(join_strings, document)) if isinstance(document, list) else str(document)


def test_ls_lists_newest_sessions_first(sessions_shell: Shell) -> None:
    result = sessions_shell("ls")
    rows = [line.split() for line in result.out.splitlines()]
    assert [row[:4] for row in rows] == [
        ["session", "workflow", "status", "facts"],
        ["over", "desk", "waiting", "3"],
        ["waits", "desk", "pending", "15"],
    ]
    assert "\x1b" not in result.out, "no escape codes, neither as colours nor in messages"
    assert [row["id"] for row in sessions_shell("ls", "--json", "-n", "1").json] == ["over"]


def test_missing_default_store_is_not_an_error(shell: Shell) -> None:
    assert shell("ls").out.startswith("no sessions yet")
    assert shell("ls", "--json").json == []
    missing = shell("ls", "--store", "nowhere.sqlite")
    assert missing.code == 2
    assert "there is no store nowhere.sqlite" in missing.err
    assert not (shell.folder / "nowhere.sqlite").exists(), "a mistyped path does not create a store"


def test_show_prints_the_conversation_as_chat(sessions_shell: Shell) -> None:
    result = sessions_shell("show", "waits", "-w", "desk:desk").out.splitlines()
    assert result[0] == "waits  desk, pending, 15 facts"
    assert result[1:3] == [f"you › {REFUND}", "  ⇢ triage to refunds  money back"]
    assert "  ✓ refund: 12.00 for order 7 is on its way" in result
    assert any(line.startswith('? refunds: refund({"order_id": "7", "amount": 24.5, "pin": "secret:') for line in result)
    assert sessions_shell("show", "over").out.splitlines()[1] == "you › hello \\x1b[2J there"
    as_json = sessions_shell("show", "waits", "--json", "-w", "desk:desk").json
    assert (as_json["status"], as_json["pending"][0]["arguments"]["order_id"]) == ("pending", "7")


def test_arguments_are_masked_without_the_workflow(sessions_shell: Shell) -> None:
    result = sessions_shell("show", "waits").out
    assert '"order_id": "secret:' in result
    assert "--workflow module:name says which of them are secret" in result


def test_seen_prints_the_request_of_reply(sessions_shell: Shell) -> None:
    result = sessions_shell("seen", "waits", "1").out
    assert result.startswith("reply 1 of refunds by clerk-1; it saw the facts 0 to 3\n")
    assert "instructions  Handle refunds." in result
    last = sessions_shell("seen", "waits", "--json").json
    assert (last["n"], last["agent"]) == (4, "refunds")
    assert json.loads(sessions_shell("seen", "waits", "0", "--body").out)["messages"][0]["parts"][0]["text"] == REFUND
    beyond = sessions_shell("seen", "waits", "99")
    assert (beyond.code, "has 5 replies" in beyond.err) == (2, True)


def test_fork_continues_independently_of_its_parent(sessions_shell: Shell) -> None:
    fork = sessions_shell("fork", "waits", "--at", "2", "--id", "branch", "--json").json
    assert fork == {"session": "branch", "from": "waits", "at": 2, "status": "running"}
    chat = sessions_shell("chat", "desk:desk", "-s", "branch", stdin="n no money today\n")
    assert "It says: Not run: a person declined this call. no money today" in chat.out
    assert sessions_shell("show", "waits", "--json").json["facts"] == 15
    repeated = sessions_shell("fork", "waits", "--id", "branch")
    assert (repeated.code, "branch" in repeated.err) == (2, True)


def test_export_writes_json_and_markdown(sessions_shell: Shell) -> None:
    document = sessions_shell("export", "waits", "-w", "desk:desk").json
    assert [fact["position"] for fact in document["facts"]] == list(range(15))
    frames = {frame["instructions"] for frame in document["frames"].values()}
    assert frames == {"Route the customer.", "Handle refunds."}
    page = sessions_shell("export", "over", "--as", "markdown").out
    assert "> hello \\\\x1b\\[2J there" in page
    assert sessions_shell("export", "over", "--as", "markdown", "-o", "page.md").code == 0
    repeated = sessions_shell("export", "over", "-o", "page.md")
    assert (repeated.code, "page.md exists already" in repeated.err) == (2, True)


def test_exported_file_has_private_permissions(sessions_shell: Shell) -> None:
    assert sessions_shell("export", "waits", "--as", "session", "-o", "exact").code == 0
    assert (sessions_shell.folder / "exact").stat().st_mode & 0o777 == 0o600


def test_exact_export_can_be_loaded_and_continued(sessions_shell: Shell) -> None:
    export = sessions_shell("export", "waits", "--as", "session")
    assert "contains secret arguments" in export.err
    (sessions_shell.folder / "load.py").write_text(
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

    process = subprocess.run(
        [sys.executable, "load.py"],
        input=export.out,
        text=True,
        capture_output=True,
        cwd=sessions_shell.folder,
        env=sessions_shell.environment,
    )
    assert process.stdout.strip() == "It says: 24.50 for order 7 is on its way", process.stderr


READING_COMMANDS = {
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


def test_no_command_prints_a_secret_argument(sessions_shell: Shell) -> None:
    """S4. The model receives edited arguments, too, so requests contain them; commands print digests."""
    commands = [[*each, *program] for each in READING_COMMANDS.values() for program in ([], ["-w", "desk:desk"])]
    for command in commands:
        ended = sessions_shell(*command)
        assert ended.code == 0, ended.err
        assert ended.out
        assert CANARY not in ended.out + ended.err, command
    chat = sessions_shell("chat", "desk:desk", "-s", "waits", "--json")
    assert '"pin":"secret:' in chat.out
    assert CANARY not in chat.out + chat.err
    assert CANARY in sessions_shell("export", "waits", "--as", "session").out, "the canary is there to be found"


def test_delete_asks_for_confirmation_on_terminal(sessions_shell: Shell) -> None:
    result = sessions_shell("delete", "over")
    assert (result.code, "add --yes" in result.err) == (2, True)
    terminal = sessions_shell.open_terminal("delete", "over")
    terminal.wait_for("Delete over (2 messages, waiting)?")
    terminal.type("y")
    assert terminal.wait_for_end() == 0
    assert sessions_shell("delete", "over", "--yes").code == 2, "it is gone"
    assert sessions_shell("delete", "waits", "-y", "--json").json == {"session": "waits", "deleted": True}
    assert sessions_shell("ls", "--json").json == []


async def _run_with_child_session(path: Path) -> None:
    inner = Agent("inner", model=ScriptedModel(["Done."]))
    outer = Agent("outer", model=ScriptedModel([call("ask_inner", task="Work"), "All done."]), tools=[inner.as_tool()])
    async with SQLiteStore(path) as store:
        await HandoffBuilder("office", [outer]).build().session("one", store=store).run("Go")


def test_delete_reports_the_child_sessions(shell: Shell) -> None:
    asyncio.run(_run_with_child_session(shell.folder / "family.db"))
    result = shell("delete", "one", "--yes", "--store", "family.db")
    assert result.out == "deleted one (2 messages, waiting, with 1 child session)\n"
    assert shell("ls", "--json", "--store", "family.db").json == []


def test_damaged_session_is_listed_with_others(sessions_shell: Shell) -> None:
    _damage_session(sessions_shell.folder / "desk.sqlite")
    rows = {row["id"]: row["status"] for row in sessions_shell("ls", "--json").json}
    assert rows == {"over": "waiting", "waits": "damaged"}
    result = sessions_shell("doctor", "--json")
    assert result.code == 1
    assert [problem for problem in result.json["problems"] if "'waits' cannot be read" in problem]


def _damage_session(path: Path) -> None:
    """Change a byte of one session in the store's file."""

    async def position() -> bytes:
        async with SQLiteStore(path) as store:
            facts = await store.read("waits")
            return str(facts[1].content).encode()  # type: ignore[union-attr] # the message that it begins with

    words = asyncio.run(position())
    data = path.read_bytes()
    assert words in data
    path.write_bytes(data.replace(words, b"X" + words[1:]))


def test_store_of_the_workflow_is_used(shell: Shell) -> None:
    (shell.folder / "own.py").write_text(
        "from legato import HandoffBuilder\nfrom legato.stores import SQLiteStore\nfrom desk import triage\n"
        "own = HandoffBuilder(name='own', participants=[triage]).with_checkpointing(SQLiteStore('own.sqlite')).build()\n"
    )
    assert shell("chat", "own:own", "-s", "here", "-m", "hello").code == 0
    assert [row["id"] for row in shell("ls", "-w", "own:own", "--json").json] == ["here"]
    rows = shell("ls", "--store", "own.sqlite", "-w", "desk:desk", "--json").json
    assert [(row["workflow"], row["status"]) for row in rows] == [("own", "waiting")], "sessions of other workflows are listed, too"
    other = shell("show", "here", "--store", "own.sqlite", "-w", "desk:desk", "--json")
    assert (other.code, other.json["error"]["code"]) == (2, "definition_changed")
    assert not (shell.folder / "data").exists(), "no other store is created"
