"""`legato chat` on a terminal screen: approval, interruption, editing, resizing, forks and failures."""

from __future__ import annotations

from tests.cli.conftest import Shell
from tests.faces.tmux import run_on_screen

ASKED = "Order 7 arrived broken. Please refund the 24.50 that I paid."


def test_chat_with_new_project_edits_a_refund(shell: Shell) -> None:
    assert shell("new", "tea").code == 0
    with run_on_screen(shell, "chat", "desk:desk", "-s", "one", folder=shell.folder / "tea") as screen:
        screen.wait_for("you ›")
        screen.type(ASKED)
        screen.wait_for("refunds wants to run refund")
        screen.type("e amount=20")
        screen.wait_for("20.00 for order 7 is on its way")
        screen.wait_for("you ›", 2)
        coloured = screen.read(colours=True)
        assert "\x1b[35mrefunds" in coloured or "\x1b[36mrefunds" in coloured, "each agent has a colour"
        screen.type("/usage")
        screen.wait_for("total")
        screen.press("C-d")
        assert "\n  · to continue: legato chat desk:desk --session one" in screen.wait_for("to continue:")
        screen.wait_for("ended with 0")


def test_interrupted_chat_can_be_resumed(shell: Shell) -> None:
    with run_on_screen(shell, "chat", "desk:desk", "-s", "one") as screen:
        screen.wait_for("you ›")
        screen.type("slow, please")
        screen.wait_for("word3")
        screen.press("C-c")
        screen.wait_for("interrupted: this reply is not recorded")
        assert "word14" not in screen.wait_for("ended with 130")
    with run_on_screen(shell, "chat", "desk:desk", "-s", "one") as screen:
        shown = screen.wait_for("word14")
        assert shown.count("slow, please") == 1
        screen.wait_for("you ›", 2)
        screen.press("C-c")
        screen.wait_for("ended with 130")


def test_arrow_keys_edit_and_recall_lines(shell: Shell) -> None:
    with run_on_screen(shell, "chat", "desk:desk", "-s", "one") as screen:
        screen.wait_for("you ›")
        screen.type("helo")
        screen.wait_for("Hello, I am triage.")
        screen.wait_for("you ›", 2)
        for key in ("Up", "Left"):
            screen.press(key)
        screen.type("l")
        screen.wait_for("Hello, I am triage.", 2)
        screen.wait_for("you › hello")


def test_resizing_the_terminal_keeps_typed_text(shell: Shell) -> None:
    long = "please be slow " + "and tell me about it " * 5
    with run_on_screen(shell, "chat", "desk:desk", "-s", "one", columns=50) as screen:
        screen.wait_for("you ›")
        screen.type(long)
        screen.wait_for("word2")
        screen.resize(120, 30)
        screen.wait_for("word14")
    said = next(fact for fact in shell("show", "one", "--facts").lines if fact["fact"] == "message_received")
    assert said["content"] == long


def test_model_text_cannot_rewrite_the_screen(shell: Shell) -> None:
    (shell.folder / "sly.py").write_text(
        "from legato import Agent, HandoffBuilder, tool\n"
        "from legato.testing import ScriptedModel, call\n"
        "@tool(needs_approval=True)\n"
        "def pay(to: str) -> str:\n"
        "    return 'paid'\n"
        "model = ScriptedModel(lambda seen: call('pay', to='mallory\\x1b[1A\\x1b[2Kalice\\u202e') if len(seen.messages) < 2 else 'Done.')\n"
        "sly = HandoffBuilder(name='sly', participants=[Agent('clerk', model=model, tools=[pay])]).build()\n"
    )
    with run_on_screen(shell, "chat", "sly:sly") as screen:
        screen.wait_for("you ›")
        screen.type("pay")
        shown = screen.wait_for("l later")
        assert "clerk wants to run pay" in shown
        assert "mallory\\u001b[1A\\u001b[2Kalice\\u202e" in shown


def test_chat_commands_show_undo_and_fork(shell: Shell) -> None:
    with run_on_screen(shell, "chat", "desk:desk", "-s", "one", columns=140) as screen:
        screen.wait_for("you ›")
        screen.type("hello")
        screen.wait_for("you ›", 2)
        screen.type("I want a refund")
        asked = screen.wait_for("l later")
        assert "refunds wants to run refund" in asked
        assert '"24.5' not in asked, "a number is shown as one"
        screen.type("n not today")
        screen.wait_for("you ›", 3)
        screen.type("/seen")
        seen = screen.wait_for("you ›", 4)
        assert "reply 3 of refunds by clerk-1" in seen
        assert "Handle refunds." in seen
        assert "not today" in seen
        screen.type("/fork 3")
        screen.wait_for("this is session one-")
        screen.type("/undo")
        screen.wait_for("without your message: hello")
        screen.type("hello again")
        screen.wait_for("you ›", 7)
        screen.press("C-d")
        screen.wait_for("ended with 0")
    assert [row["facts"] for row in shell("ls", "--json").json if row["id"] == "one"] == [10]


def test_failed_model_is_reported_and_retried(shell: Shell) -> None:
    with run_on_screen(shell, "chat", "desk:desk", "-s", "one") as screen:
        screen.wait_for("you ›")
        screen.type("fail, please")
        shown = screen.wait_for("/go tries again")
        assert "the provider is on holiday" in shown
        (shell.folder / "mended.txt").touch()
        screen.type("/go")
        screen.wait_for("Hello, I am triage.")
        screen.type("/gone")
        assert "Traceback" not in screen.wait_for("you ›", 4)
