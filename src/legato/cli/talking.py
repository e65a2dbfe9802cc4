"""A conversation at a terminal, as it is held. May know: sessions, terminals. Decides: whose turn it is, and what a typed line does.

The event loop runs while the conversation does, and not while a person thinks: a line is read as in any program, so that editing it and
Ctrl-C work as everywhere. When Ctrl-C comes while something runs, no new thing is begun. A model's words that are not recorded yet
come again; a tool that runs is waited for, since nobody could know how it ended; a second Ctrl-C does not wait.
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

from legato.cli import questions
from legato.cli.places import Place, place, shown_url
from legato.cli.seen import tell_seen
from legato.cli.telling import USER, screen, symbol, tell
from legato.cli.transcript import Transcript
from legato.cli.usage import tell_usage
from legato.core.facts import MessageReceived
from legato.core.pending_requests import Pending
from legato.errors import BadInput, LegatoError, NotPending
from legato.inspection.exporting import told
from legato.inspection.plain import counted, one_line
from legato.runtime.events import Event
from legato.runtime.run import Run
from legato.runtime.session import Session
from legato.workflow.workflow import Workflow

T = TypeVar("T")

RECENT = 3
"""How many of the user's messages are shown, with what followed, when a session is gone on with."""

HELP = """\
/seen [N]     what the agent saw when it replied: the last time, or the N-th (from 0)
/usage        tokens and cost, by agent and by handoff
/undo         go back to before your last message, in a new session; this one stays as it is
/fork [AT]    go on in a new session that shares the first AT facts (all, if you leave it out)
/pending      the questions that wait for answers, asked again
/go           go on with what is owed: after a failure, or where somebody stopped
/cancel       stop what the conversation is doing; finished work is kept
/quit         leave; so do Ctrl-D and Ctrl-C
//words       a message that begins with a slash; a line that ends with a backslash goes on in the next"""


class Left(Exception):
    """The person wants to leave."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Lines:
    """What the person types, or what was given with `--message`: then there is nobody to ask."""

    def __init__(self, given: Sequence[str] | None) -> None:
        self._given = list(given) if given else None
        self.asks = given is None
        self._terminal = given is None and sys.stdin.isatty()
        if self._terminal:
            with suppress(ImportError):
                import readline  # noqa: F401 - for its own sake: from now on `input` edits lines

    def read(self, prompt: str, colour: str = USER) -> str:
        """The next line. `EOFError` if there is none."""
        if self._terminal:
            try:
                return input(_painted(f"{prompt} ", colour))
            except EOFError:  # Ctrl-D: the cursor stands behind the prompt still
                tell()
                raise
        line = self.next()
        tell((f"{prompt} ", colour), line)
        return line

    def next(self) -> str:
        """The next line, unasked. `EOFError` if there is none."""
        if self._given is not None:
            if not self._given:
                raise EOFError
            return self._given.pop(0)
        try:
            line = sys.stdin.readline()
        except UnicodeDecodeError as error:
            raise BadInput(f"what was typed is no text: {error}", expected=f"{sys.stdin.encoding}") from None
        if not line:
            raise EOFError
        return line.rstrip("\n")


class Talk:
    """One conversation, held by one person."""

    def __init__(self, workflow: Workflow, name: str, store: str, session: str, lines: Lines) -> None:
        self._workflow = workflow
        self._name = name
        self._store = store
        self._wanted = session
        self._lines = lines
        self._screen = Transcript(workflow.agents)
        self._typed = ""  # what the person said, which stands on the screen already
        self._put_off: set[str] = set()  # the ids of questions that the person left for later
        self._running: set[object] = set()  # the calls of tools that run
        self._failure = ""  # of the model, as it was shown last
        self._stops = 0  # how often Ctrl-C came
        self._runner: asyncio.Runner
        self._here: Place
        self.session: Session

    def hold(self) -> int:
        """Hold it until the person leaves. Returns the exit code."""
        with asyncio.Runner() as runner:
            self._runner = runner
            gate = place(self._store, self._workflow, make=True)
            self._here = self._do(gate.__aenter__())
            try:
                return self._held()
            finally:
                self._do(_ended())
                self._do(gate.__aexit__(None, None, None))

    def _held(self) -> int:
        self.session = self._do(self._opened())
        code = 0
        try:
            self.greet()
            if self.session.status not in ("new", "waiting", "terminated", "cancelled", "pending"):
                self._drive(self.session.resume(stream=True))
            while True:
                self._settle()
                self._turn()
        except Left as left:
            code = left.code
        except EOFError:
            pass
        except KeyboardInterrupt:
            code = 130
        self.leave(code)
        return code or self.code

    @property
    def code(self) -> int:
        """How a conversation stands, for whoever runs this from a program."""
        return {"failed": 1, "pending": 3}.get(self.session.status, 0) if not self._lines.asks else 0

    async def _opened(self) -> Session:
        id = self._wanted or await self._here.free_id(self._workflow.name.replace(" ", "-"))
        return await self._workflow.session(id, store=self._here.store).refresh()

    # -- what is said around it ------------------------------------------------------------------------------------------

    def greet(self) -> None:
        """Say which conversation this is, and how it stands."""
        session = self.session
        said = [position for position, fact in enumerate(session.facts) if isinstance(fact, MessageReceived)]
        agents: list[tuple[str, str] | str] = []
        for name in self._workflow.agents:
            agents += [(name, self._screen.colours.of(name)), ", "]
        tell((self._workflow.name, "bold"), ": ", *agents[:-1])
        if not said:
            tell((f"session {session.id}, which is new; /help says what else you can type", "dim"))
            return
        tell((f"session {session.id}, {counted(len(session.messages), 'message')}, {session.status}", "dim"))
        since = said[-RECENT] if len(said) > RECENT else 0
        if since:
            self._screen.note("note", f"earlier: legato show {shlex.quote(session.id)}")
        for event in told(session, since):
            self._screen.show(event)
        self._screen.end()

    def leave(self, code: int) -> None:
        """Say how to go on."""
        self._screen.end()
        if code == 130:
            tell()
        if not self._lines.asks:
            for request in self.session.pending:
                questions.put(self.session, request, self._screen.colours)
        if self.session.state.length:
            self._screen.note("note", f"to go on: {self._again()}")

    def _again(self) -> str:
        # A variable is still set then, and a password belongs on no screen.
        named = "" if self._store == os.environ.get("LEGATO_STORE") else shown_url(self._store)
        store = f" --store {shlex.quote(named)}" if named else ""
        return f"legato chat {shlex.quote(self._name)} --session {shlex.quote(self.session.id)}{store}"

    # -- turns -----------------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        """The person's turn: words, or a command."""
        waits = len(self.session.pending)
        line = self._lines.read(f"{'you' if not waits else f'you ({waits} pending)'} {symbol('says')}")
        while line.endswith("\\"):
            line = line[:-1] + "\n" + self._lines.read("...", "dim")
        if not line.strip():
            return
        if line.startswith("/") and not line.startswith("//"):
            self._told(self._command, line)
            return
        self._typed = line.removeprefix("/") if line.startswith("//") else line
        self._told(lambda: self._drive(self.session.run(self._typed, stream=True)))

    def _settle(self) -> None:
        """Ask what is pending until nothing is, or the rest was left for later."""
        answered: Session | None = None  # the one whose questions were; after /undo and /fork it is another that is talked with
        while self._lines.asks:
            session, asked = self.session, next((each for each in self.session.pending if each.id not in self._put_off), None)
            if asked is not None:
                answered = session if self._ask(asked) else answered
            elif answered is session:
                answered = None
                self._told(lambda: self._drive(self.session.resume(stream=True)))
            else:
                return

    def _ask(self, request: Pending) -> bool:
        """Ask one question, until it is answered, left, or asked no more. Whether it was answered."""
        session = self.session
        questions.put(session, request, self._screen.colours)
        while True:
            line = self._lines.read(f"  {symbol('says')}", "yellow")
            if line.startswith("/"):
                self._told(self._command, line)
                if self.session is not session or all(each.id != request.id for each in session.pending):
                    return False
                continue
            answer = questions.understood(request.kind, line)
            if answer is None:
                tell(("  that is no answer to this: see the words above", "yellow"))
                continue
            if answer.verb == "later":
                self._put_off.add(request.id)
                return False
            try:
                self._do(questions.give(self.session, request, answer))
                return True
            except NotPending:
                tell(("  somebody else has answered this, or it is asked no more", "yellow"))
                self._do(self.session.refresh())
                return True
            except BadInput as error:
                tell(("  " + str(error).replace("\n", "\n  "), "red"))

    def _told(self, do: Any, *given: Any) -> None:
        """Do something; what goes wrong is told, and the conversation stays as it is."""
        try:
            do(*given)
        except LegatoError as error:
            self.tell_error(error.code, str(error))
        except (Left, EOFError):
            raise
        except Exception as error:  # of the user's own code: what is recorded stays, and /go goes on
            if os.environ.get("LEGATO_DEBUG"):
                raise
            self.tell_error("unexpected", f"{type(error).__name__}: {error}")

    def tell_error(self, code: str, words: str) -> None:
        """Say what went wrong."""
        self._screen.end()
        tell(("error: ", "bold red"), words)

    # -- driving ---------------------------------------------------------------------------------------------------------

    def _drive(self, run: Run) -> None:
        """Show a run to its end, or until Ctrl-C."""
        self._stops = 0
        self._running.clear()
        self._failure = ""
        ended = self._do(self._shown(run))
        self._screen.end()
        self._typed = ""
        if not ended:
            raise Left(130)
        if self.session.status == "failed":
            if self.session.error not in self._failure:  # else it stands there already
                tell((f"{symbol('failed')} ", "red"), self.session.error)
            if self._lines.asks:
                self._screen.note("note", "/go tries again")

    async def _shown(self, run: Run) -> bool:
        """Whether the run came to its end."""
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()

        def stopped() -> None:
            self._stops += 1
            stop.set()

        with suppress(NotImplementedError):  # on Windows: there Ctrl-C does not wait
            loop.add_signal_handler(signal.SIGINT, stopped)
        showing = asyncio.ensure_future(self._follow(run))
        try:
            while not showing.done():
                stopping = asyncio.ensure_future(stop.wait())
                await asyncio.wait({showing, stopping}, return_when=asyncio.FIRST_COMPLETED)
                stopping.cancel()
                if stop.is_set() and not showing.done():
                    stop.clear()
                    if self._running and self._stops > 1:
                        self._leave_at_once()
                    if not self._running:
                        showing.cancel()
                        await asyncio.wait({showing})
                        self._broken_off()
                        return False
                    self._screen.note("note", "a tool is running: its outcome is waited for; Ctrl-C again does not wait")
            return showing.result()
        finally:
            with suppress(NotImplementedError):
                loop.remove_signal_handler(signal.SIGINT)

    async def _follow(self, run: Run) -> bool:
        async for event in run:
            self.show(event)
            match event.type:
                case "tool_started":
                    self._running.add(event.data.call)
                case "tool_returned" | "tool_lost" | "tool_paused":
                    self._running.discard(event.data.call)
            if self._stops and not self._running:
                return False
        return True

    def show(self, event: Event) -> None:
        """Show what happens. What the person typed stands there already."""
        if event.type == "model_failed":
            self._failure = str(event.data)
        if event.type == "said" and self._typed and event.data.text == self._typed:
            self._typed = ""
            return
        self._screen.show(event)

    def _broken_off(self) -> None:
        if self._screen.speaking:
            self._screen.end()
            self._screen.note("again", "broken off: these words are not recorded, and come again whole when you go on")

    def _leave_at_once(self) -> NoReturn:
        """End without waiting for anything: a tool in a thread cannot be stopped, and would keep the process. What is recorded is recorded,
        as after kill -9."""
        self._screen.note("note", "a tool was cut off: you are asked how it ended when you go on")
        self.leave(130)
        sys.stdout.flush()
        os._exit(130)

    # -- commands --------------------------------------------------------------------------------------------------------

    def _command(self, line: str) -> None:
        name, _, rest = line[1:].strip().partition(" ")
        match name.lower():
            case "quit" | "q" | "exit":
                raise Left(0)
            case "help" | "h" | "?":
                tell((HELP, "dim"))
            case "seen":
                from legato.inspection.seen import seen

                tell_seen(self._do(seen(self.session, _number(rest, -1))), self.session.workflow.agents)
            case "usage":
                from legato.inspection.spending import spending

                tell_usage(self._do(spending(self.session)), self.session.losses, self.session.workflow.agents)
            case "undo":
                self._undo()
            case "fork":
                self._branch(_number(rest, self.session.state.length))
            case "pending":
                self._put_off.clear()
            case "go":
                self._drive(self.session.resume(stream=True))
            case "cancel":
                self._do(self.session.cancel())
                self._screen.note("note", f"it is {self.session.status}")
            case _:
                raise BadInput(f"there is no command /{name}", do="/help lists them; a message that begins with a slash is typed with two")

    def _undo(self) -> None:
        said = [position for position, fact in enumerate(self.session.facts) if isinstance(fact, MessageReceived)]
        if not said:
            raise BadInput("nothing has been said that could be undone")
        fact = self.session.facts[said[-1]]
        assert isinstance(fact, MessageReceived)
        words = one_line(str(fact.content), 60)
        self._branch(said[-1])
        self._screen.note("again", f"as if you had not said: {words}")

    def _branch(self, at: int) -> None:
        before = self.session.id

        async def branch() -> Session:
            return await self.session.fork(at, await self._here.free_id(before))

        self.session = self._do(branch())
        self._put_off.clear()  # they were questions of the other session
        self._screen.note("note", f"this is session {self.session.id} now; {before} stays as it is")

    def _do(self, doing: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(doing)


def _painted(text: str, colour: str) -> str:
    """A prompt for `input`: what is no letter is marked, so that the line editor counts right."""
    console = screen()
    with console.capture() as painted:
        console.print("\0", style=colour, end="")
    before, _, after = painted.get().partition("\0")
    return f"\001{before}\002{text}\001{after}\002" if before else text


def _number(text: str, default: int) -> int:
    try:
        return int(text) if text.strip() else default
    except ValueError:
        raise BadInput(f"{text.strip()!r} is no number") from None


async def _ended() -> None:
    """End what still runs in this loop, before its store is closed: what it has recorded is recorded."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
