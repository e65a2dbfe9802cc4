"""A support desk through the openai SDK, whose process is killed twice, and a proof that nothing was lost. `make demo` runs it.

Two agents serve a customer who wants money back. A child process drives the conversation; this one plays the customer and the supervisor,
and kills the child: once while the refund waits for approval, and once when the bank has paid and the ledger does not know it yet. In the
end the ledger is compared with the bytes that went over HTTP.

Run it: python examples/demo/support_desk.py [FOLDER]. Everything is in files in FOLDER, so with the same FOLDER an interrupted
conversation goes on. With OPENAI_API_KEY set, OpenAI answers. Without, the emulator stands in.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

from legato import Agent, HandoffBuilder, LegatoError, Message, Middleware, Session, Workflow, tool
from legato.core.facts import AnyFact, Call, CallRef, CallStarted, HandedOff, ModelReplied, Refusal, Words
from legato.core.view import Request
from legato.emulator import stand_in
from legato.emulator.minds import Prompt, Use
from legato.models import OpenAIResponses, Reply
from legato.stores import SQLiteStore

COMPLAINT = ("Order 7 arrived broken. I want my money back.", "Yes, please: all of it, for order 7.", "Please pay it back now.")
"""What the customer says until a refund is asked for. The emulated model needs the first only; a real one may want to be told again."""

THANKS = "Thank you! What was the reference again?"
BANK_SECONDS = 1.5
"""How long the bank takes to confirm a payment: time enough for a process to die in."""

# -- the desk: two agents and three tools, as in any program ------------------------------------------------------------------

TRIAGE = """You are the first at a support desk for tea things. Answer questions about orders; look them up first.
If money is wanted back, hand over to refunds at once. Be brief and friendly."""

REFUNDS = """You give money back where it is due. Look the order up. If it arrived broken, book a pickup and call refund for its price,
both in one reply and without asking first: a supervisor is asked before anything is paid. Then tell the customer how it went.
Hand everything that is not about paying back to triage. Be brief and friendly."""


def bank_book(folder: Path) -> list[str]:
    """The payments in the bank's own book, a text file that knows nothing of Legato."""
    book = folder / "bank.txt"
    return book.read_text().splitlines() if book.exists() else []


def build(folder: Path, traffic: Traffic | None = None) -> Workflow:
    """The workflow, on the SQLite file of the folder."""

    @tool
    def look_up_order(order_id: str) -> str:
        """Say what an order was and what it cost."""
        return f"order {order_id}: a teapot, 24.00, delivered on Monday" if order_id == "7" else f"there is no order {order_id}"

    @tool
    def book_pickup(order_id: str) -> str:
        """Have a courier fetch what arrived broken."""
        return f"a courier fetches order {order_id} on Tuesday at nine"

    @tool(needs_approval=True)
    async def refund(order_id: str, cents: int) -> str:
        """Pay an order back."""
        reference = f"R-{len(bank_book(folder)) + 1:03}"
        with (folder / "bank.txt").open("a") as book:
            book.write(f"{reference}  order {order_id}  {cents / 100:.2f}\n")  # from here on the money is gone
        await asyncio.sleep(BANK_SECONDS)  # and until here nobody knows
        return f"refunded {cents / 100:.2f}, reference {reference}"

    model = OpenAIResponses("gpt-5.1", client=traffic.client() if traffic else None)
    more: Any = {"model": model, "middleware": [traffic] if traffic else ()}
    triage = Agent("triage", instructions=TRIAGE, description="Answers questions.", tools=[look_up_order], **more)
    refunds = Agent("refunds", instructions=REFUNDS, description="Pays money back.", tools=[look_up_order, book_pickup, refund], **more)
    desk = HandoffBuilder(name="tea desk", participants=[triage, refunds]).with_start_agent(triage)
    return (
        desk.add_handoff(triage, [refunds]).add_handoff(refunds, [triage]).with_checkpointing(SQLiteStore(folder / "desk.sqlite")).build()
    )


def emulated_reply(prompt: Prompt) -> Any:
    """What the emulated model says, from its prompt alone: it can only know what it is sent. A real model needs none of this."""
    newest = max(index for index, each in enumerate(prompt.heard) if each.who == "user")
    about_money = "money" in prompt.heard[newest].text
    since = {each.tool: each.text for each in prompt.heard[newest:] if each.who == "tool"}
    if not any(each.name == "refund" for each in prompt.tools):
        if about_money:
            return ["I am sorry to hear that. My colleague will take care of it.", Use("handoff_to_refunds", '{"reason": "money back"}')]
        before = {each.tool: each.text for each in prompt.heard if each.who == "tool"}
        reference = re.search(r"R-\d+", before.get("refund", ""))
        return f"You are welcome. Your reference is {reference[0] if reference else 'missing'}, and {before.get('book_pickup')}."
    if not about_money:
        return Use("handoff_to_triage", '{"reason": "a question"}')
    if "refund" in since:
        return f"Done: {since['refund']}. And {since['book_pickup']}."
    if "look_up_order" in since:
        calls = Use("book_pickup", '{"order_id": "7"}'), Use("refund", '{"order_id": "7", "cents": 2400}')
        return ["That was a teapot for 24.00. I will have it fetched, and ask for your 24.00.", *calls]
    return Use("look_up_order", '{"order_id": "7"}')


# -- what goes over HTTP, noted as it leaves -----------------------------------------------------------------------------------


class Traffic(Middleware):
    """Notes each HTTP request of the SDK's client, its bytes and the status of its answer, in a file beside the ledger."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "http.jsonl"
        self._turn = -1

    async def around_model(self, request: Request, proceed: Callable[[Request], Awaitable[Reply]]) -> Reply:
        self._turn = request.turn
        return await proceed(request)

    def client(self) -> Any:
        """OpenAI's own client, with the hooks that it offers."""
        import openai

        hooks: dict[str, list[Callable[..., Any]]] = {"request": [self._sends], "response": [self._answers]}
        return openai.AsyncOpenAI(max_retries=0, http_client=openai.DefaultAsyncHttpxClient(event_hooks=hooks))

    async def _sends(self, request: Any) -> None:
        self._note(turn=self._turn, bytes=len(request.content), input=json.loads(request.content)["input"], status=0)

    async def _answers(self, response: Any) -> None:
        self._note(status=response.status_code)

    def _note(self, **what: Any) -> None:
        with self._file.open("a") as file:
            file.write(json.dumps(what) + "\n")


def read_traffic(folder: Path) -> list[dict[str, Any]]:
    """The noted requests, each with the status of its answer; 0: the process died before there was one."""
    sent: list[dict[str, Any]] = []
    for note in map(json.loads, (folder / "http.jsonl").read_text().splitlines()):
        if "input" in note:
            sent.append(note)
        else:
            sent[-1] |= note
    return sent


# -- the child process that drives the conversation ----------------------------------------------------------------------------


async def drive(folder: Path) -> None:
    """Do what each line of standard input says, write what happens to standard output, and `null` when the session is idle."""
    session = build(folder, Traffic(folder)).session("customer-42")
    while line := await asyncio.to_thread(sys.stdin.readline):
        with suppress(LegatoError):  # it is recorded, and the session's status says so
            match json.loads(line):
                case ["say", text, key]:
                    run = session.run(text, key=key)
                case ["approve", id]:
                    await session.approve(id)
                    run = session.resume()
                case ["answer", id, outcome]:
                    await session.answer(id, outcome)
                    run = session.resume()
                case _:
                    run = session.resume()
            async for event in run:
                if event.type in ("output", "handoff_sent", "tool_started", "tool_returned", "model_failed"):
                    tool_name = getattr(event.data, "tool", "")
                    print(json.dumps({"type": event.type, "tool": tool_name, "text": str(event.data)}), flush=True)
        print("null", flush=True)


class Driver:
    """A child process, and what happens in it."""

    number = 0

    def __init__(self, folder: Path) -> None:
        Driver.number += 1
        command = [sys.executable, __file__, "--drive", str(folder)]
        # In a session of its own: Ctrl-C at the terminal reaches the parent process alone.
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
        show(f"process {Driver.number}", f"pid {self._process.pid}")

    def obey(self, *order: str) -> Iterator[dict[str, str]]:
        """Have the child do something; what happens, until the session is idle."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if (event := json.loads(line)) is None:
                return
            show("" if event["type"] == "output" else event["type"], event["text"])
            yield event
        raise SystemExit("the process that drives the conversation has ended by itself; its error is above")

    def kill(self, why: str = "") -> None:
        """End the child as `kill -9` does."""
        self._process.kill()
        self._process.communicate()
        if why:
            show("KILLED", f"kill -9 {self._process.pid}: {why}")


def show(label: str, text: str) -> None:
    print(f"{label:<15}{text}", flush=True)


# -- the plot ------------------------------------------------------------------------------------------------------------------


async def read_session(folder: Path) -> Session:
    """The session as its file has it, read beside the process that drives it."""
    async with SQLiteStore(folder / "desk.sqlite") as store:
        return await build(folder).session("customer-42", store=store).refresh()


def choose_order(session: Session, folder: Path) -> tuple[str, ...]:
    """What the driver is to do next: a message of the customer or an answer of the supervisor. Empty: all is said."""
    if session.pending:
        request = session.pending[0]
        show("asked", request.prompt)
        if request.kind == "approval":
            return "approve", request.id
        outcome = (bank_book(folder) or ["nothing was paid"])[-1]
        show("", f"The bank's own book says: {outcome}")
        return "answer", request.id, outcome
    if session.status in ("running", "failed"):
        return ("resume",)
    said = [message.text for message in session.messages if message.role == "user"]
    refund_wanted = "refund" in {call.tool for call in calls_of(session.facts).values()}
    for text in (THANKS,) if refund_wanted else COMPLAINT:
        if text not in said:
            show("", f"customer: {text}")
            return "say", text, f"message-{len(said)}"
    return ()


def play(folder: Path) -> int:
    """Play the customer, the supervisor and the deaths until all is said. Returns how often the driver was killed."""
    driver, killed, order = Driver(folder), set[str](), tuple[str, ...]()
    try:
        while True:
            session = asyncio.run(read_session(folder))
            if session.pending and not killed:
                killed.add("while a person is asked")
                driver.kill(f"the refund waits for a person, and all that is left is a file with {len(session.facts)} facts")
                driver = Driver(folder)
            if session.status == "failed" and order:
                raise SystemExit(f"\nThe model did not answer: {session.error}\nNothing is lost. {how_to_go_on(folder)}")
            if not (order := choose_order(session, folder)):
                return len(killed)
            paid = len(bank_book(folder))
            for event in driver.obey(*order):
                if (event["type"], event["tool"]) == ("tool_started", "refund") and "while the bank pays" not in killed:
                    while len(bank_book(folder)) == paid:
                        time.sleep(0.01)
                    killed.add("while the bank pays")
                    driver.kill("the bank has booked the money, and the ledger does not know")
                    driver = Driver(folder)
                    break
    finally:
        driver.kill()


def calls_of(facts: Sequence[AnyFact]) -> dict[CallRef, Call]:
    """The tool calls of all replies, by their places."""
    replies = [(position, fact) for position, fact in enumerate(facts) if isinstance(fact, ModelReplied)]
    items = [(CallRef(position, index), item) for position, reply in replies for index, item in enumerate(reply.items)]
    return {ref: item for ref, item in items if isinstance(item, Call)}


# -- the proof -----------------------------------------------------------------------------------------------------------------

NO_REFUSALS = (401, 403, 408, 409, 429)
"""Statuses that find no fault with a request: the key is wrong, or the provider is busy."""

Element: TypeAlias = tuple[str, str, str]
"""One thing that a model is shown: its kind (user, assistant, call, output), the id of its call, and its text."""


def elements_sent(items: Sequence[Any]) -> list[Element]:
    """What a request says, by its bytes."""
    elements: list[Element] = []
    for item in items:
        match item:
            case {"type": "function_call", "call_id": call, "name": name, "arguments": arguments}:
                elements.append(("call", call, f"{name}({arguments})"))
            case {"type": "function_call_output", "call_id": call, "output": output}:
                elements.append(("output", call, str(output)))
            case {"role": role, "content": str(text) | [{"text": text}]}:
                elements.append((role, "", text))
            case {"type": "reasoning"}:
                pass  # the model's own, sealed
            case _:
                elements.append(("?", "", json.dumps(item)))
    return elements


def elements_seen(messages: Sequence[Message], facts: Sequence[AnyFact]) -> list[Element]:
    """What the ledger says that an agent saw. A message has a reply's words and its calls apart; the fact has them in order."""
    call_ids = {call.id: call.call_id for message in messages for call in message.calls}
    elements: list[Element] = []
    for message in messages:
        reply = facts[message.position]
        if message.role != "assistant":
            elements.append(("output" if message.call else message.role, call_ids.get(message.call, ""), message.text))
            continue
        for item in reply.items if isinstance(reply, ModelReplied) else ():
            if isinstance(item, Call):
                elements.append(("call", item.call_id, f"{item.tool}({item.arguments})"))
            elif isinstance(item, (Words, Refusal)):
                elements.append(("assistant", "", item.text))
    return elements


async def prove(folder: Path, killed: int) -> bool:
    """Show what each agent was sent, and whether everything is there once."""
    async with SQLiteStore(folder / "desk.sqlite") as store:
        session = await build(folder).session("customer-42", store=store).refresh()
        requests = [await session.seen(turn) for turn in range(sum(isinstance(fact, ModelReplied) for fact in session.facts))]
    http = read_traffic(folder)
    answered = {each["turn"]: each for each in http if each["status"] == 200}
    sent = [elements_sent(answered[turn]["input"]) for turn in range(len(requests))]
    print("\nWhat each agent was sent (user, assistant, call, output):")
    for turn, request in enumerate(requests):
        show(f"{turn + 1} {request.agent}", f"{answered[turn]['bytes']:>6,} bytes  {' '.join(kind[0] for kind, _, _ in sent[turn])}")
    checks = {**check_requests(session, requests, sent), **check_world(session.facts, folder, http, killed)}
    print("\nThe proof:")
    for sentence, holds in checks.items():
        show("ok" if holds else "WRONG", sentence)
    return all(checks.values())


def check_requests(session: Session, requests: Sequence[Request], sent: Sequence[list[Element]]) -> dict[str, bool]:
    """Whether the bytes of all requests are the conversation of the ledger."""
    facts = session.facts
    said = [message.text for message in session.messages if message.role == "user"]
    calls, outputs = ([Counter(call for kind, call, _ in each if kind == wanted) for each in sent] for wanted in ("call", "output"))
    handoffs = sum(isinstance(fact, HandedOff) for fact in facts)
    heard = [text for kind, _, text in sent[-1] if kind == "user"]
    grows = all(later[: len(earlier)] == earlier for earlier, later in pairwise(sent))
    once = all(set(each.values()) <= {1} for each in calls)
    as_recorded = sent == [elements_seen(request.messages, facts) for request in requests]
    return {
        f"{len(said)} messages of the customer: each is in the last request once, in order": heard == said,
        f"{len(requests)} requests, {handoffs} handoffs, {Driver.number} processes: each request begins with the one before it": grows,
        f"{calls[-1].total()} calls: each has exactly one output in every request": calls == outputs and once,
        "the bytes sent over HTTP say what the ledger says: nothing missing, nothing twice": as_recorded,
    }


def check_world(facts: Sequence[AnyFact], folder: Path, http: Sequence[dict[str, Any]], killed: int) -> dict[str, bool]:
    """Whether the provider took every request, and the bank paid once."""
    refused = sum(400 <= each["status"] < 500 and each["status"] not in NO_REFUSALS for each in http)
    tools = calls_of(facts)
    starts = sum(isinstance(fact, CallStarted) and tools[fact.call].tool == "refund" for fact in facts)
    paid = len(bank_book(folder))
    return {
        f"{len(http)} requests over HTTP, {refused} refused": refused == 0,
        f"killed {killed} times, the bank was asked {starts} times to pay and paid {paid} times": paid <= min(starts, 1),
    }


def how_to_go_on(folder: Path) -> str:
    return f"The conversation is in its file. To go on:  {sys.executable} {__file__} {folder}"


def main(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    print(f"Legato: a support desk, and a process that dies twice. The conversation and the bank's own book are in {folder}")
    try:
        with stand_in(emulated_reply):
            good = asyncio.run(prove(folder, play(folder)))
    except KeyboardInterrupt:
        print(f"\nYou left. Nothing is lost. {how_to_go_on(folder)}")
        return 130
    print(f"\n{'Nothing was lost and nothing repeated.' if good else 'Something is wrong: please report it.'} See README.md.")
    return 0 if good else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--drive"]:
        asyncio.run(drive(Path(sys.argv[2])))
    else:
        sys.exit(main(Path(sys.argv[1] if sys.argv[1:] else tempfile.mkdtemp(prefix="legato-demo-")).resolve()))
