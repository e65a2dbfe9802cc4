"""`legato chat` on a screen, as tmux draws it: the whole story of a newcomer, with Ctrl-C in the middle."""

from __future__ import annotations

from tests.cli.conftest import Shell
from tests.faces.tmux import on_screen

ASKED = "Order 7 arrived broken. Please refund the 24.50 that I paid."


def test_a_new_project_is_talked_with_and_its_refund_is_edited_before_it_is_paid(shell: Shell) -> None:
    assert shell("new", "tea").code == 0
    with on_screen(shell, "chat", "desk:desk", "-s", "one", folder=shell.folder / "tea") as screen:
        screen.until("you ›")
        screen.type(ASKED)
        screen.until("refunds wants to run refund")
        screen.type("e amount=20")
        screen.until("20.00 for order 7 is on its way")
        screen.until("you ›", 2)
        coloured = screen.shown(colours=True)
        assert "\x1b[35mrefunds" in coloured or "\x1b[36mrefunds" in coloured, "each agent has a colour"
        screen.type("/usage")
        screen.until("in all")
        screen.press("C-d")
        assert "\n  · to go on: legato chat desk:desk --session one" in screen.until("to go on:")
        screen.until("ended with 0")


def test_ctrl_c_in_the_middle_of_a_stream_and_going_on(shell: Shell) -> None:
    with on_screen(shell, "chat", "desk:desk", "-s", "one") as screen:
        screen.until("you ›")
        screen.type("slow, please")
        screen.until("word3")
        screen.press("C-c")
        screen.until("broken off: these words are not recorded")
        assert "word14" not in screen.until("ended with 130")
    with on_screen(shell, "chat", "desk:desk", "-s", "one") as screen:
        shown = screen.until("word14")
        assert shown.count("slow, please") == 1
        screen.until("you ›", 2)
        screen.press("C-c")
        screen.until("ended with 130")


def test_a_line_is_edited_with_the_arrow_keys_and_the_last_one_comes_back(shell: Shell) -> None:
    with on_screen(shell, "chat", "desk:desk", "-s", "one") as screen:
        screen.until("you ›")
        screen.type("helo")
        screen.until("Hello, I am triage.")
        screen.until("you ›", 2)
        for key in ("Up", "Left"):
            screen.press(key)
        screen.type("l")
        screen.until("Hello, I am triage.", 2)
        screen.until("you › hello")


def test_a_narrow_terminal_that_is_made_wide_while_somebody_types_loses_nothing(shell: Shell) -> None:
    long = "please be slow " + "and tell me about it " * 5
    with on_screen(shell, "chat", "desk:desk", "-s", "one", columns=50) as screen:
        screen.until("you ›")
        screen.type(long)
        screen.until("word2")
        screen.resize(120, 30)
        screen.until("word14")
    said = next(fact for fact in shell("show", "one", "--facts").lines if fact["fact"] == "message_received")
    assert said["content"] == long


def test_words_of_a_model_cannot_rewrite_the_question_above_them(shell: Shell) -> None:
    (shell.folder / "sly.py").write_text(
        "from legato import Agent, HandoffBuilder, tool\n"
        "from legato.testing import ScriptedModel, call\n"
        "@tool(needs_approval=True)\n"
        "def pay(to: str) -> str:\n"
        "    return 'paid'\n"
        "model = ScriptedModel(lambda seen: call('pay', to='mallory\\x1b[1A\\x1b[2Kalice\\u202e') if len(seen.messages) < 2 else 'Done.')\n"
        "sly = HandoffBuilder(name='sly', participants=[Agent('clerk', model=model, tools=[pay])]).build()\n"
    )
    with on_screen(shell, "chat", "sly:sly") as screen:
        screen.until("you ›")
        screen.type("pay")
        shown = screen.until("l later")
        assert "clerk wants to run pay" in shown
        assert "mallory\\u001b[1A\\u001b[2Kalice\\u202e" in shown


def test_what_was_seen_undone_and_forked_is_told_where_one_types(shell: Shell) -> None:
    with on_screen(shell, "chat", "desk:desk", "-s", "one", columns=140) as screen:
        screen.until("you ›")
        screen.type("hello")
        screen.until("you ›", 2)
        screen.type("I want a refund")
        asked = screen.until("l later")
        assert "refunds wants to run refund" in asked
        assert '"24.5' not in asked, "a number is shown as one"
        screen.type("n not today")
        screen.until("you ›", 3)
        screen.type("/seen")
        seen = screen.until("you ›", 4)
        assert "reply 3 of refunds by clerk-1" in seen
        assert "Handle refunds." in seen
        assert "not today" in seen
        screen.type("/fork 3")
        screen.until("this is session one-")
        screen.type("/undo")
        screen.until("as if you had not said: hello")
        screen.type("hello again")
        screen.until("you ›", 7)
        screen.press("C-d")
        screen.until("ended with 0")
    assert [row["facts"] for row in shell("ls", "--json").json if row["id"] == "one"] == [10]


def test_a_model_that_fails_is_told_in_a_sentence_and_asked_again(shell: Shell) -> None:
    with on_screen(shell, "chat", "desk:desk", "-s", "one") as screen:
        screen.until("you ›")
        screen.type("fail, please")
        shown = screen.until("/go tries again")
        assert "the provider is on holiday" in shown
        (shell.folder / "mended.txt").touch()
        screen.type("/go")
        screen.until("Hello, I am triage.")
        screen.type("/gone")
        assert "Traceback" not in screen.until("you ›", 4)
