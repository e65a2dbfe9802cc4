"""`legato chat` at a terminal: Ctrl-C, kill -9, and prompts for pending requests. C1, D1, D2, D4, S2, S4."""

from __future__ import annotations

import pytest

from tests.cli.conftest import CANARY, REFUND, Shell
from tests.cli.terminal import CTRL_C, CTRL_D, wait_until


def test_session_continues_after_ctrl_c_in_stream(shell: Shell) -> None:
    """Ctrl-C in the middle of a stream loses nothing, and the session continues where it stopped."""
    terminal = shell.open_terminal("chat", "desk:desk", "-s", "one")
    terminal.wait_for("session one, which is new")
    terminal.wait_for("you ›")
    terminal.type("slow, please")
    terminal.wait_for("word3")
    terminal.press(CTRL_C)
    terminal.wait_for("interrupted: this reply is not recorded")
    terminal.wait_for("to continue: legato chat desk:desk --session one")
    assert terminal.wait_for_end() == 130
    assert "word14" not in terminal.screen_text

    second = shell.open_terminal("chat", "desk:desk", "-s", "one")
    assert "you › slow, please" in second.wait_for("triage ›"), "earlier messages are printed"
    second.wait_for("word14")
    second.wait_for("you ›")
    second.press(CTRL_D)
    assert second.wait_for_end() == 0
    facts = shell("show", "one", "--facts").lines
    assert [fact["fact"] for fact in facts] == ["opened", "message_received", "model_replied"]
    assert facts[2]["items"][0]["text"].split() == [f"word{number}" for number in range(15)]


def test_session_continues_after_kill_in_stream(shell: Shell) -> None:
    """`kill -9` in the middle of a stream loses nothing, and the session continues where it stopped."""
    terminal = shell.open_terminal("chat", "desk:desk", "-s", "one")
    terminal.wait_for("you ›")
    terminal.type("slow, please")
    terminal.wait_for("word3")
    terminal.kill()
    second = shell.open_terminal("chat", "desk:desk", "-s", "one")
    second.wait_for("word14")
    second.wait_for("you ›")
    second.type("/quit")
    assert second.wait_for_end() == 0
    assert [fact["fact"] for fact in shell("show", "one", "--facts").lines] == ["opened", "message_received", "model_replied"]


def test_approval_shows_arguments_and_can_be_edited(shell: Shell) -> None:
    terminal = shell.open_terminal("chat", "desk:desk", "-s", "one")
    terminal.wait_for("you ›")
    terminal.type(REFUND)
    terminal.wait_for("⇢ triage to refunds  money back")
    prompt = terminal.wait_for("y run it")
    assert "refunds wants to run refund" in prompt
    assert [line.split() for line in prompt.splitlines() if line.startswith("    ")][:2] == [["order_id", '"7"'], ["amount", "24.5"]]
    assert "secret:" in prompt
    terminal.type("")
    terminal.wait_for("this is not an answer to this request")
    terminal.type("e amount=much")
    terminal.wait_for("cannot run with these arguments")
    terminal.type("e order_id=8 amount=12")
    terminal.wait_for("✓ refund: 12.00 for order 8 is on its way")
    terminal.wait_for("refunds › It says:")
    terminal.wait_for("you ›")
    terminal.type("/quit")
    assert terminal.wait_for_end() == 0
    assert CANARY not in terminal.raw_text
    decided = next(fact for fact in shell("show", "one", "--facts", "-w", "desk:desk").lines if fact["fact"] == "decided")
    assert (decided["verdict"], '"order_id": "8"' in decided["arguments"]) == ("edit", True)


def test_approval_can_be_declined_postponed_or_standing(shell: Shell) -> None:
    terminal = shell.open_terminal("chat", "desk:desk", "-s", "one")
    terminal.wait_for("you ›")
    terminal.type(REFUND)
    terminal.wait_for("l later")
    terminal.type("n not before Monday")
    terminal.wait_for("It says: Not run: a person declined this call. not before Monday")
    terminal.wait_for("you ›")
    terminal.type(REFUND)
    terminal.wait_for("l later")
    terminal.type("l")
    terminal.wait_for("you (1 pending) ›")
    terminal.type("/pending")
    terminal.wait_for("l later")
    terminal.type("a")
    terminal.wait_for("✓ refund")
    terminal.wait_for("you ›")
    terminal.type(REFUND)
    terminal.wait_for("✓ refund")
    terminal.wait_for("you ›")
    assert terminal.interrupt_prompt() == 130


def test_killed_tool_call_is_asked_about_once(shell: Shell) -> None:
    """A tool call whose process was killed is asked about, and the tool does not run again."""
    (shell.folder / "seconds.txt").write_text("60")
    terminal = shell.open_terminal("chat", "desk:desk", "-s", "one")
    terminal.wait_for("you ›")
    terminal.type("pay, please")
    terminal.wait_for("⚙ pay(")
    wait_until((shell.folder / "paid.txt").exists)
    terminal.kill()
    second = shell.open_terminal("chat", "desk:desk", "-s", "one")
    second.wait_for("triage ran pay, and its outcome is unknown")
    second.wait_for("l later")
    second.type("= it was paid")
    second.wait_for("It says: it was paid")
    second.wait_for("you ›")
    second.type("/quit")
    assert second.wait_for_end() == 0
    assert (shell.folder / "paid.txt").read_text().splitlines() == ["500"]
    assert ": it was paid" in next(line for line in shell("show", "one").out.splitlines() if "answered: outcome of call" in line)
    assert ": it was paid*" in shell("export", "one", "--as", "markdown").out


def test_ctrl_c_waits_for_a_running_tool(shell: Shell) -> None:
    (shell.folder / "seconds.txt").write_text("1")
    terminal = shell.open_terminal("chat", "desk:desk", "-s", "one")
    terminal.wait_for("you ›")
    terminal.type("pay, please")
    terminal.wait_for("⚙ pay(")
    terminal.press(CTRL_C)
    terminal.wait_for("waiting for the outcome of a running tool")
    terminal.wait_for("✓ pay: paid 500")
    assert terminal.wait_for_end() == 130
    document = shell("show", "one", "--json", "-w", "desk:desk").json
    assert "tool_returned" in [event["type"] for event in document["events"]]
    assert not document["pending"], "the outcome is known"


@pytest.mark.parametrize("definition", ["async def", "def"])
def test_second_ctrl_c_leaves_the_outcome_unknown(definition: str, shell: Shell) -> None:
    """A second Ctrl-C does not wait for a tool, and its outcome is asked for later."""
    (shell.folder / "seconds.txt").write_text("60")
    if definition == "def":  # runs in a thread, which cannot be stopped
        source = (shell.folder / "desk.py").read_text()
        (shell.folder / "desk.py").write_text(
            source.replace("async def pay", "def pay").replace("await asyncio.sleep(float(Path", "__import__('time').sleep(float(Path")
        )
    terminal = shell.open_terminal("chat", "desk:desk", "-s", "one")
    terminal.wait_for("you ›")
    terminal.type("pay, please")
    terminal.wait_for("⚙ pay(")
    wait_until((shell.folder / "paid.txt").exists)
    terminal.press(CTRL_C)
    terminal.wait_for("waiting for the outcome of a running tool")
    terminal.press(CTRL_C)
    terminal.wait_for("a running tool was interrupted")
    assert terminal.wait_for_end() == 130
    second = shell.open_terminal("chat", "desk:desk", "-s", "one")
    second.wait_for("triage ran pay, and its outcome is unknown")
    second.wait_for("l later")
    second.press(CTRL_D)
    assert second.wait_for_end() == 0
    assert (shell.folder / "paid.txt").read_text().splitlines() == ["500"]


def test_deferred_results_and_limits_are_asked_inline(shell: Shell) -> None:
    terminal = shell.open_terminal("chat", "desk:desk", "-s", "one")
    terminal.wait_for("you ›")
    terminal.type("is it in stock?")
    terminal.wait_for("triage waits for the result of ask_stock")
    terminal.wait_for("l later")
    terminal.type("= 12")
    terminal.wait_for("It says: 12")
    terminal.wait_for("you ›")
    terminal.type("loop")
    terminal.wait_for("? 4 handoffs since the user last spoke, the limit is 4")
    terminal.wait_for("l later")
    terminal.type("n")
    terminal.wait_for("you ›")
    terminal.type("/quit")
    assert terminal.wait_for_end() == 0


def test_undo_seen_usage_and_fork_commands_work(shell: Shell) -> None:
    terminal = shell.open_terminal("chat", "desk:desk", "-s", "one")
    terminal.wait_for("you ›")
    terminal.type("hello")
    terminal.wait_for("you ›")
    terminal.type("something silly")
    terminal.wait_for("you ›")
    terminal.type("/undo")
    terminal.wait_for("one does not change")
    terminal.wait_for("without your message: something silly")
    terminal.type("/seen")
    seen = terminal.wait_for("user: hello")
    assert "instructions  Route the customer." in seen
    terminal.type("/usage")
    terminal.wait_for("total")
    terminal.wait_for("100")
    terminal.type("/fork 2")
    terminal.wait_for("this is session")
    terminal.type("/nonsense")
    terminal.wait_for("there is no command /nonsense")
    terminal.type("/help")
    terminal.wait_for("/undo")
    terminal.press(CTRL_D)
    assert terminal.wait_for_end() == 0
    assert [row["facts"] for row in shell("ls", "--json").json] == [3, 4, 5], "each fork has its own first fact"


def test_undo_and_fork_work_at_a_prompt(shell: Shell) -> None:
    """/undo and /fork at a prompt continue in the new session at once, with its own requests."""
    terminal = shell.open_terminal("chat", "desk:desk", "-s", "one")
    terminal.wait_for("you ›")
    terminal.type("I want a refund")
    terminal.wait_for("refunds wants to run refund")
    terminal.wait_for("l later")
    terminal.type("/fork")
    terminal.wait_for("one does not change")
    terminal.wait_for("refunds wants to run refund")
    terminal.wait_for("l later")
    terminal.type("/undo")
    terminal.wait_for("without your message: I want a refund")
    terminal.wait_for("you ›")
    terminal.type("hello")
    terminal.wait_for("Hello, I am triage.")
    terminal.wait_for("you ›")
    terminal.type("I want a refund")
    terminal.wait_for("l later")
    terminal.type("/cancel")
    terminal.wait_for("the session is ")
    terminal.wait_for("you ›")
    terminal.press(CTRL_D)
    assert terminal.wait_for_end() == 0
    assert "is not an answer" not in terminal.screen_text
    assert shell("show", "one", "--json", "-w", "desk:desk").json["status"] == "pending", "the old session does not change"


def test_failed_model_is_retried_with_go(shell: Shell) -> None:
    terminal = shell.open_terminal("chat", "desk:desk", "-s", "one")
    terminal.wait_for("you ›")
    terminal.type("fail")
    terminal.wait_for("the provider is on holiday")
    terminal.wait_for("/go tries again")
    (shell.folder / "mended.txt").touch()
    terminal.type("/go")
    terminal.wait_for("Hello, I am triage.")
    terminal.wait_for("you ›")
    terminal.press(CTRL_D)
    assert terminal.wait_for_end() == 0


def test_no_color_variable_turns_colours_off(shell: Shell) -> None:
    plain = shell.open_terminal("chat", "desk:desk", "-m", "hello", NO_COLOR="1")
    coloured = shell.open_terminal("chat", "desk:desk", "-m", "hello")
    assert (plain.wait_for_end(), coloured.wait_for_end()) == (0, 0)
    assert "\x1b[33m" in coloured.raw_text
    assert "\x1b[33m" not in plain.raw_text
    assert plain.screen_text.partition("session")[0] == coloured.screen_text.partition("session")[0]


def test_closed_terminal_ends_the_chat_only(shell: Shell) -> None:
    terminal = shell.open_terminal("chat", "desk:desk", "-s", "one")
    terminal.wait_for("you ›")
    terminal.type("hello")
    terminal.wait_for("Hello, I am triage.")
    terminal.wait_for("you ›")
    terminal.close()
    assert shell("ls", "--json").json[0]["status"] == "waiting"
