"""The loop of `legato chat`: reads a line, runs the session, prints its events, asks about pending requests.

The event loop runs only while the session does. While the user thinks, input is read as in any program, so line editing and Ctrl-C work
as usual. After Ctrl-C during a run, nothing new is started. A model's reply that is not recorded yet is streamed again later. The loop
waits for a running tool, since its outcome would otherwise be unknown; after a second Ctrl-C it does not wait.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

from legato.cli import terminal_prompts
from legato.cli.event_printer import EventPrinter
from legato.cli.model_input_printer import print_model_input
from legato.cli.store_locator import OpenedStore, hide_password, open_located_store
from legato.cli.terminal import USER_STYLE, get_console, get_symbol, print_line
from legato.cli.usage_table import print_usage
from legato.core.facts import MessageReceived
from legato.core.pending_requests import Pending
from legato.errors import BadInput, LegatoError, NotPending
from legato.inspection.session_export import replay_events
from legato.inspection.terminal_safe_text import format_count, to_one_line
from legato.runtime.events import Event
from legato.runtime.run import Run
from legato.runtime.session import Session
from legato.workflow.workflow import Workflow

T = TypeVar("T")

RECENT_MESSAGES = 3
"""The user's last messages that are printed, with all that followed them, when a session is continued."""

HELP = """\
/seen [N]     what the agent saw when it replied: the last reply, or reply N (from 0)
/usage        tokens and cost, by agent and by handoff
/undo         go back to before your last message, in a new session; this one does not change
/fork [AT]    continue in a new session that shares the first AT facts (default: all)
/pending      ask about postponed requests again
/go           continue pending work, after a failure or an interruption
/cancel       cancel the run; finished work is kept
/quit         leave, as with Ctrl-D and Ctrl-C
//text        a message that begins with a slash; a line that ends with a backslash continues in the next"""


class ChatLeft(Exception):
    """Raised to end the chat with an exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.exit_code = code


class LineSource:
    """The lines that a user types or a pipe has, or the messages of `--message`; with those, the chat is not interactive."""

    def __init__(self, messages: Sequence[str] | None) -> None:
        self._messages = list(messages) if messages else None
        self.is_interactive = messages is None
        self._terminal = messages is None and sys.stdin.isatty()
        if self._terminal:
            with suppress(ImportError):
                import readline  # noqa: F401 - for its own sake: from now on `input` edits lines

    def read_line(self, prompt: str, colour: str = USER_STYLE) -> str:
        """Return the next line, after a prompt; `EOFError` if there is none."""
        if self._terminal:
            try:
                return input(_style_prompt(f"{prompt} ", colour))
            except EOFError:  # Ctrl-D: the cursor is still behind the prompt
                print_line()
                raise
        line = self.read_line_without_prompt()
        print_line((f"{prompt} ", colour), line)
        return line

    def read_line_without_prompt(self) -> str:
        """Return the next line, without a prompt; `EOFError` if there is none."""
        if self._messages is not None:
            if not self._messages:
                raise EOFError
            return self._messages.pop(0)
        try:
            line = sys.stdin.readline()
        except UnicodeDecodeError as error:
            raise BadInput(f"the input is not text: {error}", expected=f"{sys.stdin.encoding}") from None
        if not line:
            raise EOFError
        return line.rstrip("\n")


class ChatLoop:
    """The chat of one user with one session."""

    def __init__(self, workflow: Workflow, workflow_name: str, store: str, session: str, lines: LineSource) -> None:
        self._workflow = workflow
        self._workflow_name = workflow_name
        self._store = store
        self._session_id = session
        self._lines = lines
        self._printer = EventPrinter(workflow.agents)
        self._typed_message = ""  # it is on the screen already
        self._postponed_ids: set[str] = set()  # of requests that the user left for later
        self._running_calls: set[object] = set()  # of tools
        self._printed_failure = ""  # of the model, as it was printed last
        self._interrupt_count = 0  # by Ctrl-C
        self._runner: asyncio.Runner
        self._opened_store: OpenedStore
        self.session: Session

    def run(self) -> int:
        """Run the chat until the user leaves. Return the exit code."""
        with asyncio.Runner() as runner:
            self._runner = runner
            store_context = open_located_store(self._store, self._workflow, create=True)
            self._opened_store = self._run_coroutine(store_context.__aenter__())
            try:
                return self._run_until_left()
            finally:
                self._run_coroutine(_cancel_other_tasks())
                self._run_coroutine(store_context.__aexit__(None, None, None))

    def _run_until_left(self) -> int:
        self.session = self._run_coroutine(self._open_session())
        code = 0
        try:
            self.print_greeting()
            if self.session.status not in ("new", "waiting", "terminated", "cancelled", "pending"):
                self._show_run(self.session.resume(stream=True))
            while True:
                self._ask_pending_requests()
                self._take_turn()
        except ChatLeft as left:
            code = left.exit_code
        except EOFError:
            pass
        except KeyboardInterrupt:
            code = 130
        self.print_farewell(code)
        return code or self.exit_code

    @property
    def exit_code(self) -> int:
        """The exit code for the status of the session; always 0 for an interactive chat."""
        return {"failed": 1, "pending": 3}.get(self.session.status, 0) if not self._lines.is_interactive else 0

    async def _open_session(self) -> Session:
        id = self._session_id or await self._opened_store.generate_session_id(self._workflow.name.replace(" ", "-"))
        return await self._workflow.session(id, store=self._opened_store.store).refresh()

    # -- beginning and end -----------------------------------------------------------------------------------------------

    def print_greeting(self) -> None:
        """Print the session, its status, and its last messages."""
        session = self.session
        message_positions = [position for position, fact in enumerate(session.facts) if isinstance(fact, MessageReceived)]
        agents: list[tuple[str, str] | str] = []
        for name in self._workflow.agents:
            agents += [(name, self._printer.colours.of(name)), ", "]
        print_line((self._workflow.name, "bold"), ": ", *agents[:-1])
        if not message_positions:
            print_line((f"session {session.id}, which is new; /help lists the commands", "dim"))
            return
        print_line((f"session {session.id}, {format_count(len(session.messages), 'message')}, {session.status}", "dim"))
        since = message_positions[-RECENT_MESSAGES] if len(message_positions) > RECENT_MESSAGES else 0
        if since:
            self._printer.print_note("note", f"earlier: legato show {shlex.quote(session.id)}")
        for event in replay_events(session, since):
            self._printer.print_event(event)
        self._printer.end_line()

    def print_farewell(self, code: int) -> None:
        """Print the command that continues the session."""
        self._printer.end_line()
        if code == 130:
            print_line()
        if not self._lines.is_interactive:
            for request in self.session.pending:
                terminal_prompts.print_request(self.session, request, self._printer.colours)
        if self.session.state.length:
            self._printer.print_note("note", f"to continue: {self._format_resume_command()}")

    def _format_resume_command(self) -> str:
        # The variable stays set, and a password must not be printed.
        store_option = "" if self._store == os.environ.get("LEGATO_STORE") else hide_password(self._store)
        store = f" --store {shlex.quote(store_option)}" if store_option else ""
        return f"legato chat {shlex.quote(self._workflow_name)} --session {shlex.quote(self.session.id)}{store}"

    # -- turns -----------------------------------------------------------------------------------------------------------

    def _take_turn(self) -> None:
        """Read the user's message or command, and run it."""
        pending_count = len(self.session.pending)
        line = self._lines.read_line(f"{'you' if not pending_count else f'you ({pending_count} pending)'} {get_symbol('says')}")
        while line.endswith("\\"):
            line = line[:-1] + "\n" + self._lines.read_line("...", "dim")
        if not line.strip():
            return
        if line.startswith("/") and not line.startswith("//"):
            self._call_reporting_errors(self._run_command, line)
            return
        self._typed_message = line.removeprefix("/") if line.startswith("//") else line
        self._call_reporting_errors(lambda: self._show_run(self.session.run(self._typed_message, stream=True)))

    def _ask_pending_requests(self) -> None:
        """Ask about pending requests until none is left, or the rest is postponed."""
        answered: Session | None = None  # the session whose requests were answered; /undo and /fork change to another one
        while self._lines.is_interactive:
            session, request = self.session, next((each for each in self.session.pending if each.id not in self._postponed_ids), None)
            if request is not None:
                answered = session if self._ask_request(request) else answered
            elif answered is session:
                answered = None
                self._call_reporting_errors(lambda: self._show_run(self.session.resume(stream=True)))
            else:
                return

    def _ask_request(self, request: Pending) -> bool:
        """Ask about one request until it is answered, postponed, or no longer pending. Return True if it was answered."""
        session = self.session
        terminal_prompts.print_request(session, request, self._printer.colours)
        while True:
            line = self._lines.read_line(f"  {get_symbol('says')}", "yellow")
            if line.startswith("/"):
                self._call_reporting_errors(self._run_command, line)
                if self.session is not session or all(each.id != request.id for each in session.pending):
                    return False
                continue
            answer = terminal_prompts.parse_answer(request.kind, line)
            if answer is None:
                print_line(("  this is not an answer to this request; the possible answers are listed above", "yellow"))
                continue
            if answer.verb == "later":
                self._postponed_ids.add(request.id)
                return False
            try:
                self._run_coroutine(terminal_prompts.submit_answer(self.session, request, answer))
                return True
            except NotPending:
                print_line(("  this request was answered elsewhere, or is no longer pending", "yellow"))
                self._run_coroutine(self.session.refresh())
                return True
            except BadInput as error:
                print_line(("  " + str(error).replace("\n", "\n  "), "red"))

    def _call_reporting_errors(self, function: Any, *arguments: Any) -> None:
        """Call a function, and print its error; the chat continues."""
        try:
            function(*arguments)
        except LegatoError as error:
            self.print_error(error.code, str(error))
        except (ChatLeft, EOFError):
            raise
        except Exception as error:  # of the user's own code: recorded facts stay, and /go continues
            if os.environ.get("LEGATO_DEBUG"):
                raise
            self.print_error("unexpected", f"{type(error).__name__}: {error}")

    def print_error(self, code: str, message: str) -> None:
        """Print an error."""
        self._printer.end_line()
        print_line(("error: ", "bold red"), message)

    # -- driving ---------------------------------------------------------------------------------------------------------

    def _show_run(self, run: Run) -> None:
        """Print a run to its end, or until Ctrl-C."""
        self._interrupt_count = 0
        self._running_calls.clear()
        self._printed_failure = ""
        is_complete = self._run_coroutine(self._print_run_until_interrupted(run))
        self._printer.end_line()
        self._typed_message = ""
        if not is_complete:
            raise ChatLeft(130)
        if self.session.status == "failed":
            if self.session.error not in self._printed_failure:  # otherwise it is on the screen already
                print_line((f"{get_symbol('failed')} ", "red"), self.session.error)
            if self._lines.is_interactive:
                self._printer.print_note("note", "/go tries again")

    async def _print_run_until_interrupted(self, run: Run) -> bool:
        """Print the events of a run, and handle Ctrl-C. Return True if the run came to its end."""
        loop = asyncio.get_running_loop()
        interrupted = asyncio.Event()

        def on_interrupt() -> None:
            self._interrupt_count += 1
            interrupted.set()

        with suppress(NotImplementedError):  # on Windows: there Ctrl-C does not wait
            loop.add_signal_handler(signal.SIGINT, on_interrupt)
        printing = asyncio.ensure_future(self._print_run(run))
        try:
            while not printing.done():
                interruption = asyncio.ensure_future(interrupted.wait())
                await asyncio.wait({printing, interruption}, return_when=asyncio.FIRST_COMPLETED)
                interruption.cancel()
                if interrupted.is_set() and not printing.done():
                    interrupted.clear()
                    if self._running_calls and self._interrupt_count > 1:
                        self._exit_immediately()
                    if not self._running_calls:
                        printing.cancel()
                        await asyncio.wait({printing})
                        self._print_interruption()
                        return False
                    self._printer.print_note("note", "waiting for the outcome of a running tool; Ctrl-C again does not wait")
            return printing.result()
        finally:
            with suppress(NotImplementedError):
                loop.remove_signal_handler(signal.SIGINT)

    async def _print_run(self, run: Run) -> bool:
        async for event in run:
            self.print_event(event)
            match event.type:
                case "tool_started":
                    self._running_calls.add(event.data.call)
                case "tool_returned" | "tool_lost" | "tool_paused":
                    self._running_calls.discard(event.data.call)
            if self._interrupt_count and not self._running_calls:
                return False
        return True

    def print_event(self, event: Event) -> None:
        """Print an event, but not the message that the user has just typed."""
        if event.type == "model_failed":
            self._printed_failure = str(event.data)
        if event.type == "said" and self._typed_message and event.data.text == self._typed_message:
            self._typed_message = ""
            return
        self._printer.print_event(event)

    def _print_interruption(self) -> None:
        if self._printer.is_mid_line:
            self._printer.end_line()
            self._printer.print_note("again", "interrupted: this reply is not recorded, and is streamed again when you continue")

    def _exit_immediately(self) -> NoReturn:
        """Exit without waiting: a tool in a thread cannot be stopped, and would keep the process alive. Recorded facts stay."""
        self._printer.print_note("note", "a running tool was interrupted: when you continue, you are asked for its outcome")
        self.print_farewell(130)
        sys.stdout.flush()
        os._exit(130)

    # -- commands --------------------------------------------------------------------------------------------------------

    def _run_command(self, line: str) -> None:
        name, _, rest = line[1:].strip().partition(" ")
        match name.lower():
            case "quit" | "q" | "exit":
                raise ChatLeft(0)
            case "help" | "h" | "?":
                print_line((HELP, "dim"))
            case "seen":
                from legato.inspection.model_input_explanation import explain_model_input

                print_model_input(
                    self._run_coroutine(explain_model_input(self.session, _parse_int(rest, -1))), self.session.workflow.agents
                )
            case "usage":
                from legato.inspection.usage_report import build_usage_report

                print_usage(self._run_coroutine(build_usage_report(self.session)), self.session.losses, self.session.workflow.agents)
            case "undo":
                self._undo_last_message()
            case "fork":
                self._switch_to_fork(_parse_int(rest, self.session.state.length))
            case "pending":
                self._postponed_ids.clear()
            case "go":
                self._show_run(self.session.resume(stream=True))
            case "cancel":
                self._run_coroutine(self.session.cancel())
                self._printer.print_note("note", f"the session is {self.session.status}")
            case _:
                raise BadInput(
                    f"there is no command /{name}", do="/help lists the commands; type // for a message that begins with a slash"
                )

    def _undo_last_message(self) -> None:
        message_positions = [position for position, fact in enumerate(self.session.facts) if isinstance(fact, MessageReceived)]
        if not message_positions:
            raise BadInput("there is no message to undo")
        fact = self.session.facts[message_positions[-1]]
        assert isinstance(fact, MessageReceived)
        excerpt = to_one_line(str(fact.content), 60)
        self._switch_to_fork(message_positions[-1])
        self._printer.print_note("again", f"without your message: {excerpt}")

    def _switch_to_fork(self, at: int) -> None:
        before = self.session.id

        async def fork() -> Session:
            return await self.session.fork(at, await self._opened_store.generate_session_id(before))

        self.session = self._run_coroutine(fork())
        self._postponed_ids.clear()  # they belong to the other session
        self._printer.print_note("note", f"this is session {self.session.id} now; {before} does not change")

    def _run_coroutine(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(coroutine)


def _style_prompt(text: str, colour: str) -> str:
    """Return a coloured prompt for `input`. Its escape codes are marked, so that the line editor knows its width."""
    console = get_console()
    with console.capture() as capture:
        console.print("\0", style=colour, end="")
    before, _, after = capture.get().partition("\0")
    return f"\001{before}\002{text}\001{after}\002" if before else text


def _parse_int(text: str, default: int) -> int:
    try:
        return int(text) if text.strip() else default
    except ValueError:
        raise BadInput(f"{text.strip()!r} is not a number") from None


async def _cancel_other_tasks() -> None:
    """Cancel all other tasks of this event loop before the store is closed. Recorded facts stay."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
