"""The demo's plot. May know: the stage, the desk, a child process. Decides: what happens in which order, and when the child dies.

The child drives the conversation. This process only talks to it, kills it, and reads the ledger beside it; without a key for a real
provider it is the provider, too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from legato.core.facts import Answered, Call
from legato.core.requests import Pending
from legato.demo.desk import SESSION, Places, build, money, write_down
from legato.demo.proof import prove
from legato.demo.provider import Provider, provider
from legato.demo.stage import Stage
from legato.errors import LegatoError
from legato.stores import SQLiteStore

COMPLAINT = ("Order 7 arrived broken. I want my money back.", "Yes, please: all of it, for order 7.", "Please pay it back now.")
"""What the customer says until a refund is asked for. The emulated model needs the first only; a real one may want to be told again."""

THANKS = "Thank you! What was the reference again?"


class Left(Exception):
    """The person left before the end."""


class Stuck(Exception):
    """The model does not answer, and nobody is there to wait for it."""


@dataclass(frozen=True)
class Seen:
    """The session as this process reads it beside the child."""

    status: str
    pending: list[Pending]
    said: list[str]
    facts: int
    refund_wanted: bool
    courier_booked: bool
    error: str


class Worker:
    """The child process."""

    def __init__(self, places: Places, stage: Stage, asked: Provider, number: int) -> None:
        command = [sys.executable, "-m", "legato.demo.worker", str(places.folder), asked.model]
        environment = {**os.environ, **asked.environment}
        # A session of its own, so that Ctrl-C at the terminal reaches us alone.
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self.pid = self._process.pid
        self._stage = stage
        stage.rule(f"process {number}, pid {self.pid}")

    def order(self, **what: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def watch(self, die: Callable[[dict[str, Any]], bool]) -> bool:
        """Show what the child does until it rests (True), or until it is dead (False)."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            if event["type"] == "rest":
                return True
            self._show(event)
            if die(event):
                self.kill()
                return False
        return False

    def _show(self, event: dict[str, Any]) -> None:
        match event:
            case {"type": "output", "who": who, "words": words}:
                self._stage.says(who, words)
            case {"type": "handoff", "words": words}:
                self._stage.does("handoff", words)
            case {"type": "tool_started", "tool": "refund", "arguments": arguments}:
                self._stage.does("tool", f"refund({arguments}) has started, and the ledger says so")
            case {"type": "tool_returned", "tool": tool, "arguments": arguments, "output": output}:
                self._stage.does("tool", f"{tool}({arguments}) = {output}")
            case {"type": "error" | "model_failed", "words": words}:
                self._stage.does("dead", words, "red")
            case _:
                pass

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        if self._process.poll() is None:
            self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # it may have died with an order unread
                    pipe.close()


class Play:
    """One showing, from wherever the ledger stands to the end."""

    def __init__(self, places: Places, stage: Stage, asked: Provider) -> None:
        self._places = places
        self._stage = stage
        self._provider = asked
        self._processes = 0
        self._driven = False
        # Who comes back to a conversation may have had a death already; a new one gets two.
        self._dies_while_asking = self._dies_while_paying = places.count("killed") == 0
        self._worker = self._start()

    def _start(self) -> Worker:
        self._processes += 1
        worker = Worker(self._places, self._stage, self._provider, self._processes)
        write_down(self._places.processes, f"started {worker.pid}")
        return worker

    def run(self) -> bool:
        try:
            while True:
                seen = self._look()
                if seen.status == "pending":
                    self._decide(seen)
                elif seen.status == "running":
                    self._drive(do="resume")
                elif seen.status == "failed":
                    self._try_again(seen)
                elif not self._speak(seen):
                    break
        finally:
            self._worker.close()
        return asyncio.run(prove(self._places, self._stage, self._provider))

    def _look(self) -> Seen:
        async def look() -> Seen:
            store = SQLiteStore(self._places.ledger)
            try:
                session = await build(self._places, self._provider.model).session(SESSION, store=store).refresh()
                said = [message.text for message in session.messages if message.role == "user"]
                calls = [item for fact in session.facts if isinstance(fact, Answered) for item in fact.items if isinstance(item, Call)]
                called = {call.tool for call in calls}
                return Seen(
                    status=session.status,
                    pending=session.pending,
                    said=said,
                    facts=len(session.facts),
                    refund_wanted="refund" in called,
                    courier_booked="book_pickup" in called,
                    error=session.error,
                )
            finally:
                await store.close()

        return asyncio.run(look())

    def _speak(self, seen: Seen) -> bool:
        lines = (THANKS,) if seen.refund_wanted else COMPLAINT
        suggestion = next((line for line in lines if line not in seen.said), "")
        hint = f"[enter: {suggestion}]" if suggestion else "[enter: see how it went]"
        if not suggestion and self._stage.plays_itself:
            return False
        text = self._stage.ask("customer", suggestion, hint)
        if not text:
            return False
        self._drive(do="say", text=text, key=f"message-{len(seen.said)}")
        return True

    def _try_again(self, seen: Seen) -> None:
        """The model could not be asked, or would not answer. Nothing is lost: the same turn can go again."""
        if self._stage.plays_itself and self._driven:
            raise Stuck(seen.error)
        if self._driven and self._stage.ask("", "try again", "[enter: try again]") is None:
            raise Left
        self._drive(do="resume")

    def _decide(self, seen: Seen) -> None:
        request = seen.pending[0]
        if request.kind == "approval" and self._dies_while_asking:
            self._dies_while_asking = False
            self._worker.kill()
            self._dead(f"{'the courier is booked, ' if seen.courier_booked else ''}the refund waits for a person")
            self._stage.says("", f"All that is left is a file with {seen.facts} facts. That is enough:")
        verdict = self._approval(request) if request.kind == "approval" else self._outcome(request)
        self._drive(do="decide", id=request.id, verdict=verdict)

    def _approval(self, request: Pending) -> Any:
        cents = request.arguments["cents"]
        self._stage.does("ask", f"refunds wants to pay {money(cents)} for order {request.arguments['order_id']}. Approve?", "bold")
        while True:
            typed = self._stage.ask("supervisor", "approve", "[enter: approve]   edit 12.00   reject <why>")
            if typed is None:
                raise Left
            verb, _, rest = typed.partition(" ")
            if "approve".startswith(verb.lower()):
                return "approve"
            if "reject".startswith(verb.lower()):
                return ["reject", rest]
            if "edit".startswith(verb.lower()) and (amount := _cents(rest)) is not None:
                return ["edit", {**request.arguments, "cents": amount}]
            self._stage.says("", "Please type approve, edit and an amount such as 12.00, or reject and why.")

    def _outcome(self, request: Pending) -> Any:
        book = self._places.booked()
        self._stage.does("ask", f"{request.tool} had started, and its outcome is unknown.", "bold")
        self._stage.says("", "Legato does not pay twice and does not guess: it asks you. The bank's own book says:")
        for entry in book or ["(nothing)"]:
            self._stage.says("bank's book", entry)
        found = f"refunded {money(request.arguments['cents'])}, reference {book[-1].split()[0]}" if book else "nothing was paid"
        while True:
            typed = self._stage.ask(
                "supervisor", f"it was: {found}", f"[enter: it was: {found}]   it was: <words>   again (pays twice!)   fail <why>"
            )
            if typed is None:
                raise Left
            verb, _, rest = typed.partition(" ")
            if typed.lower().startswith("it was:"):
                return ["answer", typed[len("it was:") :].strip() or found]
            if "again".startswith(verb.lower()):
                return "approve"
            if "fail".startswith(verb.lower()):
                return ["reject", rest]
            self._stage.says("", "Please type: it was: <what the bank did>, or again, or fail and why.")

    def _drive(self, **order: Any) -> None:
        self._driven = True
        self._worker.order(**order)
        booked = len(self._places.booked())

        def die(event: dict[str, Any]) -> bool:
            if not (self._dies_while_paying and event["type"] == "tool_started" and event["tool"] == "refund"):
                return False
            while len(self._places.booked()) == booked:
                time.sleep(0.01)
            return True

        if self._worker.watch(die):
            return
        if not self._dies_while_paying:
            raise RuntimeError("the process that drives the conversation has ended by itself; see the error above")
        self._dies_while_paying = False
        self._dead("the bank has booked the money, and nobody has told the ledger")

    def _dead(self, when: str) -> None:
        write_down(self._places.processes, f"killed {self._worker.pid}")
        self._stage.does("dead", f"kill -9 {self._worker.pid}: {when}", "red")
        self._worker.close()
        self._worker = self._start()


def _cents(text: str) -> int | None:
    try:
        amount = round(float(text.strip()) * 100)
    except ValueError:
        return None
    return amount if amount > 0 else None


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m legato.demo", description="A support desk in the terminal.")
    parser.add_argument("--auto", action="store_true", help="play by itself (it does so anyway where there is no terminal)")
    parser.add_argument("--folder", type=Path, help="where the conversation lives; give one that you left before to go on with it")
    parser.add_argument("--pace", type=float, help="seconds between two lines (0.35 at a terminal, else 0)")
    parser.add_argument("--emulator", action="store_true", help="use the emulator even if OPENAI_API_KEY is set")
    parser.add_argument("--model", default="", help="another model than gpt-5.1")
    options = parser.parse_args(given)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="legato-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    places = Places(folder.resolve())
    stage = Stage(options.auto or not (sys.stdin.isatty() and sys.stdout.isatty()), options.pace)
    again = f"  To go on from exactly there:  {Path(sys.executable).name} -m legato.demo --folder {folder}"
    stage.line(stage.paint("  Legato: a support desk in one file, and a process that dies twice.", "bold"))
    try:
        with provider(places, options.model, options.emulator) as asked:
            _introduce(stage, places, asked)
            good = Play(places, stage, asked).run()
    except (KeyboardInterrupt, Left):
        stage.line()
        stage.line("  You left. Nothing is lost: the conversation is in its file.")
        stage.line(again)
        return 130
    except Stuck as stuck:
        stage.line()
        stage.line(f"  The model did not answer: {stuck}")
        stage.line("  Nothing is lost: the conversation is in its file.")
        stage.line(again)
        return 1
    except LegatoError as error:
        stage.line(f"  {error}")
        return 1
    stage.line()
    stage.line(f"  {'Nothing was lost and nothing repeated.' if good else 'Something is wrong: please report it.'}  See README.md.")
    return 0 if good else 1


def _introduce(stage: Stage, places: Places, asked: Provider) -> None:
    stage.line(f"  The conversation is in  {places.ledger}")
    stage.line(f"  The bank's own book is  {places.bank}")
    if asked.emulator is None:
        stage.line(f"  The provider is         {asked.url}, model {asked.model}: OPENAI_API_KEY is set (--emulator: without it)")
        return
    stage.line(f"  The provider is         {asked.url}, a strict emulator of OpenAI's API, through the openai SDK")
    stage.line(f"  {'':<22}  (set OPENAI_API_KEY, and the same program talks to OpenAI)")
    if not stage.plays_itself:
        stage.line(f"  Every request, live     {asked.emulator.page}")


if __name__ == "__main__":
    sys.exit(main())
