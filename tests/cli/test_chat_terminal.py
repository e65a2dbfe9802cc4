"""`legato chat` at a terminal: Ctrl-C, kill -9, and questions where they arise. C1, D1, D2, D4, S2, S4."""

from __future__ import annotations

import pytest

from tests.cli.conftest import CANARY, REFUND, Shell
from tests.cli.terminal import CTRL_C, CTRL_D, eventually


def test_ctrl_c_in_the_middle_of_a_stream_loses_nothing_and_the_session_goes_on_where_it_stopped(shell: Shell) -> None:
    person = shell.terminal("chat", "desk:desk", "-s", "one")
    person.until("session one, which is new")
    person.until("you ›")
    person.type("slow, please")
    person.until("word3")
    person.press(CTRL_C)
    person.until("broken off: these words are not recorded")
    person.until("to go on: legato chat desk:desk --session one")
    assert person.end() == 130
    assert "word14" not in person.shown

    back = shell.terminal("chat", "desk:desk", "-s", "one")
    assert "you › slow, please" in back.until("triage ›"), "what was said before is shown"
    back.until("word14")
    back.until("you ›")
    back.press(CTRL_D)
    assert back.end() == 0
    facts = shell("show", "one", "--facts").lines
    assert [fact["fact"] for fact in facts] == ["opened", "message_received", "model_replied"]
    assert facts[2]["items"][0]["text"].split() == [f"word{number}" for number in range(15)]


def test_kill_9_in_the_middle_of_a_stream_loses_nothing_and_the_session_goes_on_where_it_stopped(shell: Shell) -> None:
    person = shell.terminal("chat", "desk:desk", "-s", "one")
    person.until("you ›")
    person.type("slow, please")
    person.until("word3")
    person.kill()
    back = shell.terminal("chat", "desk:desk", "-s", "one")
    back.until("word14")
    back.until("you ›")
    back.type("/quit")
    assert back.end() == 0
    assert [fact["fact"] for fact in shell("show", "one", "--facts").lines] == ["opened", "message_received", "model_replied"]


def test_an_approval_is_asked_with_the_exact_arguments_and_can_be_edited_before_it_runs(shell: Shell) -> None:
    person = shell.terminal("chat", "desk:desk", "-s", "one")
    person.until("you ›")
    person.type(REFUND)
    person.until("⇢ triage to refunds  money back")
    asked = person.until("y run it")
    assert "refunds wants to run refund" in asked
    assert [line.split() for line in asked.splitlines() if line.startswith("    ")][:2] == [["order_id", '"7"'], ["amount", "24.5"]]
    assert "secret:" in asked
    person.type("")
    person.until("that is no answer to this")
    person.type("e amount=much")
    person.until("cannot run with these arguments")
    person.type("e order_id=8 amount=12")
    person.until("✓ refund: 12.00 for order 8 is on its way")
    person.until("refunds › It says:")
    person.until("you ›")
    person.type("/quit")
    assert person.end() == 0
    assert CANARY not in person.raw
    decided = next(fact for fact in shell("show", "one", "--facts", "-w", "desk:desk").lines if fact["fact"] == "decided")
    assert (decided["verdict"], '"order_id": "8"' in decided["arguments"]) == ("edit", True)


def test_an_approval_is_declined_in_words_left_for_later_or_given_for_always(shell: Shell) -> None:
    person = shell.terminal("chat", "desk:desk", "-s", "one")
    person.until("you ›")
    person.type(REFUND)
    person.until("l later")
    person.type("n not before Monday")
    person.until("It says: Not run: a person declined this call. not before Monday")
    person.until("you ›")
    person.type(REFUND)
    person.until("l later")
    person.type("l")
    person.until("you (1 pending) ›")
    person.type("/pending")
    person.until("l later")
    person.type("a")
    person.until("✓ refund")
    person.until("you ›")
    person.type(REFUND)
    person.until("✓ refund")
    person.until("you ›")
    assert person.interrupt_prompt() == 130


def test_a_tool_whose_process_was_killed_is_asked_about_and_is_not_run_again(shell: Shell) -> None:
    (shell.folder / "seconds.txt").write_text("60")
    person = shell.terminal("chat", "desk:desk", "-s", "one")
    person.until("you ›")
    person.type("pay, please")
    person.until("⚙ pay(")
    eventually((shell.folder / "paid.txt").exists)
    person.kill()
    back = shell.terminal("chat", "desk:desk", "-s", "one")
    back.until("triage ran pay, and nobody knows how it ended")
    back.until("l later")
    back.type("= it was paid")
    back.until("It says: it was paid")
    back.until("you ›")
    back.type("/quit")
    assert back.end() == 0
    assert (shell.folder / "paid.txt").read_text().splitlines() == ["500"]
    assert ": it was paid" in next(line for line in shell("show", "one").out.splitlines() if "answered: outcome of call" in line)
    assert ": it was paid*" in shell("export", "one", "--as", "markdown").out


def test_ctrl_c_while_a_tool_runs_waits_for_its_outcome(shell: Shell) -> None:
    (shell.folder / "seconds.txt").write_text("1")
    person = shell.terminal("chat", "desk:desk", "-s", "one")
    person.until("you ›")
    person.type("pay, please")
    person.until("⚙ pay(")
    person.press(CTRL_C)
    person.until("its outcome is waited for")
    person.until("✓ pay: paid 500")
    assert person.end() == 130
    shown = shell("show", "one", "--json", "-w", "desk:desk").json
    assert "tool_returned" in [event["type"] for event in shown["events"]]
    assert not shown["pending"], "nobody has to be asked how it ended"


@pytest.mark.parametrize("how", ["async def", "def"])
def test_a_second_ctrl_c_does_not_wait_for_a_tool_and_its_outcome_is_asked_for(how: str, shell: Shell) -> None:
    (shell.folder / "seconds.txt").write_text("60")
    if how == "def":  # runs in a thread, which nobody can stop
        source = (shell.folder / "desk.py").read_text()
        (shell.folder / "desk.py").write_text(
            source.replace("async def pay", "def pay").replace("await asyncio.sleep(float(Path", "__import__('time').sleep(float(Path")
        )
    person = shell.terminal("chat", "desk:desk", "-s", "one")
    person.until("you ›")
    person.type("pay, please")
    person.until("⚙ pay(")
    eventually((shell.folder / "paid.txt").exists)
    person.press(CTRL_C)
    person.until("its outcome is waited for")
    person.press(CTRL_C)
    person.until("a tool was cut off")
    assert person.end() == 130
    back = shell.terminal("chat", "desk:desk", "-s", "one")
    back.until("triage ran pay, and nobody knows how it ended")
    back.until("l later")
    back.press(CTRL_D)
    assert back.end() == 0
    assert (shell.folder / "paid.txt").read_text().splitlines() == ["500"]


def test_results_of_deferred_tools_and_limits_are_asked_inline(shell: Shell) -> None:
    person = shell.terminal("chat", "desk:desk", "-s", "one")
    person.until("you ›")
    person.type("is it in stock?")
    person.until("triage waits for the result of ask_stock")
    person.until("l later")
    person.type("= 12")
    person.until("It says: 12")
    person.until("you ›")
    person.type("loop")
    person.until("? 4 handoffs since the user last spoke, the limit is 4")
    person.until("l later")
    person.type("n")
    person.until("you ›")
    person.type("/quit")
    assert person.end() == 0


def test_commands_undo_fork_seen_and_usage(shell: Shell) -> None:
    person = shell.terminal("chat", "desk:desk", "-s", "one")
    person.until("you ›")
    person.type("hello")
    person.until("you ›")
    person.type("something silly")
    person.until("you ›")
    person.type("/undo")
    person.until("one stays as it is")
    person.until("as if you had not said: something silly")
    person.type("/seen")
    seen = person.until("user: hello")
    assert "instructions  Route the customer." in seen
    person.type("/usage")
    person.until("in all")
    person.until("100")
    person.type("/fork 2")
    person.until("this is session")
    person.type("/nonsense")
    person.until("there is no command /nonsense")
    person.type("/help")
    person.until("/undo")
    person.press(CTRL_D)
    assert person.end() == 0
    assert [row["facts"] for row in shell("ls", "--json").json] == [3, 4, 5], "each branch has an opening of its own"


def test_undo_and_fork_at_a_question_go_on_in_the_new_session_at_once(shell: Shell) -> None:
    person = shell.terminal("chat", "desk:desk", "-s", "one")
    person.until("you ›")
    person.type("I want a refund")
    person.until("refunds wants to run refund")
    person.until("l later")
    person.type("/fork")
    person.until("one stays as it is")
    person.until("refunds wants to run refund")
    person.until("l later")
    person.type("/undo")
    person.until("as if you had not said: I want a refund")
    person.until("you ›")
    person.type("hello")
    person.until("Hello, I am triage.")
    person.until("you ›")
    person.type("I want a refund")
    person.until("l later")
    person.type("/cancel")
    person.until("it is ")
    person.until("you ›")
    person.press(CTRL_D)
    assert person.end() == 0
    assert "is no answer" not in person.shown
    assert shell("show", "one", "--json", "-w", "desk:desk").json["status"] == "pending", "the old session stays as it is"


def test_a_model_that_fails_is_told_and_asked_again(shell: Shell) -> None:
    person = shell.terminal("chat", "desk:desk", "-s", "one")
    person.until("you ›")
    person.type("fail")
    person.until("the provider is on holiday")
    person.until("/go tries again")
    (shell.folder / "mended.txt").touch()
    person.type("/go")
    person.until("Hello, I am triage.")
    person.until("you ›")
    person.press(CTRL_D)
    assert person.end() == 0


def test_colours_are_for_terminals_that_want_them(shell: Shell) -> None:
    plain = shell.terminal("chat", "desk:desk", "-m", "hello", NO_COLOR="1")
    coloured = shell.terminal("chat", "desk:desk", "-m", "hello")
    assert (plain.end(), coloured.end()) == (0, 0)
    assert "\x1b[33m" in coloured.raw
    assert "\x1b[33m" not in plain.raw
    assert plain.shown.partition("session")[0] == coloured.shown.partition("session")[0]


def test_a_terminal_that_is_closed_ends_the_chat_and_the_session_stays(shell: Shell) -> None:
    person = shell.terminal("chat", "desk:desk", "-s", "one")
    person.until("you ›")
    person.type("hello")
    person.until("Hello, I am triage.")
    person.until("you ›")
    person.close()
    assert shell("ls", "--json").json[0]["status"] == "waiting"
