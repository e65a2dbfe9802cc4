"""A support desk over the openai SDK whose process is killed twice, and a check that nothing was lost. `make demo` runs it.

Two agents serve a customer who wants money back. A child process drives the conversation. The parent process plays the customer and the
supervisor, and kills the child twice: while the refund waits for approval, and after the bank has paid but before the ledger knows it. At
the end, the ledger is compared with the bytes that were sent over HTTP.

Run it: python examples/demo/support_desk.py [FOLDER]. All state is in files in FOLDER, so with the same FOLDER an interrupted conversation
continues. With OPENAI_API_KEY set, OpenAI answers. Without, the emulator stands in.
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
from legato.core.facts import AnyFact, Call, CallRef, CallStarted, HandedOff, ModelReplied, OutputText, Refusal
from legato.core.view import ModelRequest
from legato.emulator import stand_in
from legato.emulator.fake_models import ModelPrompt, ReplyCall
from legato.models import ModelReply, OpenAIResponses
from legato.stores import SQLiteStore

REFUND_MESSAGES = ("Order 7 arrived broken. I want my money back.", "Yes, please: all of it, for order 7.", "Please pay it back now.")
"""The customer's messages until the model calls refund. The emulated model needs only the first; a real one may need more."""

THANKS = "Thank you! What was the reference again?"
BANK_SECONDS = 1.5
"""Seconds that the bank takes to confirm a payment: enough time to kill the process."""

# -- the workflow: two agents and three tools ---------------------------------------------------------------------------------

TRIAGE = """You are the first at a support desk for tea things. Answer questions about orders; look them up first.
If money is wanted back, hand over to refunds at once. Be brief and friendly."""

REFUNDS = """You give money back where it is due. Look the order up. If it arrived broken, book a pickup and call refund for its price,
both in one reply and without asking first: a supervisor is asked before anything is paid. Then tell the customer how it went.
Hand everything that is not about paying back to triage. Be brief and friendly."""


def read_bank_book(folder: Path) -> list[str]:
    """Return the payments in the bank's book, a text file that is independent of Legato."""
    book = folder / "bank.txt"
    return book.read_text().splitlines() if book.exists() else []


def build_desk(folder: Path, traffic: TrafficLog | None = None) -> Workflow:
    """Build the workflow, with the SQLite file of the folder as its store."""

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
        reference = f"R-{len(read_bank_book(folder)) + 1:03}"
        with (folder / "bank.txt").open("a") as book:
            book.write(f"{reference}  order {order_id}  {cents / 100:.2f}\n")  # the payment is done
        await asyncio.sleep(BANK_SECONDS)  # and not recorded yet
        return f"refunded {cents / 100:.2f}, reference {reference}"

    model = OpenAIResponses("gpt-5.1", client=traffic.make_client() if traffic else None)
    options: Any = {"model": model, "middleware": [traffic] if traffic else ()}
    triage = Agent("triage", instructions=TRIAGE, description="Answers questions.", tools=[look_up_order], **options)
    refunds = Agent("refunds", instructions=REFUNDS, description="Pays money back.", tools=[look_up_order, book_pickup, refund], **options)
    builder = HandoffBuilder(name="tea desk", participants=[triage, refunds]).with_start_agent(triage)
    return (
        builder.add_handoff(triage, [refunds])
        .add_handoff(refunds, [triage])
        .with_checkpointing(SQLiteStore(folder / "desk.sqlite"))
        .build()
    )


def make_emulated_reply(prompt: ModelPrompt) -> Any:
    """Return the emulated model's reply. It depends on the prompt alone, so it shows what the model received. A real model needs none."""
    newest = max(index for index, each in enumerate(prompt.messages) if each.role == "user")
    about_money = "money" in prompt.messages[newest].text
    outputs_since = {each.tool: each.text for each in prompt.messages[newest:] if each.role == "tool"}
    if not any(each.name == "refund" for each in prompt.tools):
        if about_money:
            return [
                "I am sorry to hear that. My colleague will take care of it.",
                ReplyCall("handoff_to_refunds", '{"reason": "money back"}'),
            ]
        outputs = {each.tool: each.text for each in prompt.messages if each.role == "tool"}
        reference = re.search(r"R-\d+", outputs.get("refund", ""))
        return f"You are welcome. Your reference is {reference[0] if reference else 'missing'}, and {outputs.get('book_pickup')}."
    if not about_money:
        return ReplyCall("handoff_to_triage", '{"reason": "a question"}')
    if "refund" in outputs_since:
        return f"Done: {outputs_since['refund']}. And {outputs_since['book_pickup']}."
    if "look_up_order" in outputs_since:
        calls = ReplyCall("book_pickup", '{"order_id": "7"}'), ReplyCall("refund", '{"order_id": "7", "cents": 2400}')
        return ["That was a teapot for 24.00. I will have it fetched, and ask for your 24.00.", *calls]
    return ReplyCall("look_up_order", '{"order_id": "7"}')


# -- a log of the HTTP traffic -------------------------------------------------------------------------------------------------


class TrafficLog(Middleware):
    """Logs each HTTP request of the SDK's client, with its size and the status of its response, in a file beside the ledger."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "http.jsonl"
        self._turn = -1

    async def around_model(self, request: ModelRequest, proceed: Callable[[ModelRequest], Awaitable[ModelReply]]) -> ModelReply:
        self._turn = request.reply_count
        return await proceed(request)

    def make_client(self) -> Any:
        """Return OpenAI's client with event hooks."""
        import openai

        hooks: dict[str, list[Callable[..., Any]]] = {"request": [self._log_request], "response": [self._log_response]}
        return openai.AsyncOpenAI(max_retries=0, http_client=openai.DefaultAsyncHttpxClient(event_hooks=hooks))

    async def _log_request(self, request: Any) -> None:
        self._append(turn=self._turn, bytes=len(request.content), input=json.loads(request.content)["input"], status=0)

    async def _log_response(self, response: Any) -> None:
        self._append(status=response.status_code)

    def _append(self, **entry: Any) -> None:
        with self._file.open("a") as file:
            file.write(json.dumps(entry) + "\n")


def read_traffic(folder: Path) -> list[dict[str, Any]]:
    """Return the logged requests, each with the status of its response; 0 if the process died before there was one."""
    requests: list[dict[str, Any]] = []
    for entry in map(json.loads, (folder / "http.jsonl").read_text().splitlines()):
        if "input" in entry:
            requests.append(entry)
        else:
            requests[-1] |= entry
    return requests


# -- the child process that drives the conversation ----------------------------------------------------------------------------


async def drive(folder: Path) -> None:
    """Run the order in each line of standard input. Write events to standard output, and `null` when the session is idle."""
    session = build_desk(folder, TrafficLog(folder)).session("customer-42")
    while line := await asyncio.to_thread(sys.stdin.readline):
        with suppress(LegatoError):  # the session's status and error have it
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


class DriverProcess:
    """The child process that drives the conversation."""

    number = 0

    def __init__(self, folder: Path) -> None:
        DriverProcess.number += 1
        command = [sys.executable, __file__, "--drive", str(folder)]
        # In a process session of its own, so that Ctrl-C at the terminal reaches only the parent.
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
        print_row(f"process {DriverProcess.number}", f"pid {self._process.pid}")

    def run_order(self, *order: str) -> Iterator[dict[str, str]]:
        """Send the child an order, and yield its events until the session is idle."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if (event := json.loads(line)) is None:
                return
            print_row("" if event["type"] == "output" else event["type"], event["text"])
            yield event
        raise SystemExit("the process that drives the conversation has ended unexpectedly; its error is above")

    def kill(self, reason: str = "") -> None:
        """Kill the child, as `kill -9` does."""
        self._process.kill()
        self._process.communicate()
        if reason:
            print_row("KILLED", f"kill -9 {self._process.pid}: {reason}")


def print_row(label: str, text: str) -> None:
    print(f"{label:<15}{text}", flush=True)


# -- the customer and the supervisor -------------------------------------------------------------------------------------------


async def read_session(folder: Path) -> Session:
    """Read the session from its file, independently of the process that drives it."""
    async with SQLiteStore(folder / "desk.sqlite") as store:
        return await build_desk(folder).session("customer-42", store=store).refresh()


def choose_order(session: Session, folder: Path) -> tuple[str, ...]:
    """Return the next order: a message of the customer or an answer of the supervisor; empty at the end of the conversation."""
    if session.pending:
        request = session.pending[0]
        print_row("asked", request.prompt)
        if request.kind == "approval":
            return "approve", request.id
        outcome = (read_bank_book(folder) or ["nothing was paid"])[-1]
        print_row("", f"the bank's book says: {outcome}")
        return "answer", request.id, outcome
    if session.status in ("running", "failed"):
        return ("resume",)
    messages = [message.text for message in session.messages if message.role == "user"]
    refund_wanted = "refund" in {call.tool for call in find_calls(session.facts).values()}
    for text in (THANKS,) if refund_wanted else REFUND_MESSAGES:
        if text not in messages:
            print_row("", f"customer: {text}")
            return "say", text, f"message-{len(messages)}"
    return ()


def play(folder: Path) -> int:
    """Play the customer and the supervisor to the end, and kill the driver on the way. Return the number of kills."""
    driver, kills, order = DriverProcess(folder), set[str](), tuple[str, ...]()
    try:
        while True:
            session = asyncio.run(read_session(folder))
            if session.pending and not kills:
                kills.add("while a person is asked")
                driver.kill(f"the refund waits for a person, and all that is left is a file with {len(session.facts)} facts")
                driver = DriverProcess(folder)
            if session.status == "failed" and order:
                raise SystemExit(f"\nThe model did not answer: {session.error}\nNothing is lost. {format_resume_hint(folder)}")
            if not (order := choose_order(session, folder)):
                return len(kills)
            payments = len(read_bank_book(folder))
            for event in driver.run_order(*order):
                if (event["type"], event["tool"]) == ("tool_started", "refund") and "while the bank pays" not in kills:
                    while len(read_bank_book(folder)) == payments:
                        time.sleep(0.01)
                    kills.add("while the bank pays")
                    driver.kill("the bank has booked the money, and the ledger does not know")
                    driver = DriverProcess(folder)
                    break
    finally:
        driver.kill()


def find_calls(facts: Sequence[AnyFact]) -> dict[CallRef, Call]:
    """Return the tool calls of all replies, by their `CallRef`."""
    replies = [(position, fact) for position, fact in enumerate(facts) if isinstance(fact, ModelReplied)]
    items = [(CallRef(position, index), item) for position, reply in replies for index, item in enumerate(reply.items)]
    return {ref: item for ref, item in items if isinstance(item, Call)}


# -- the check -----------------------------------------------------------------------------------------------------------------

RETRYABLE_STATUSES = (401, 403, 408, 409, 429)
"""Statuses that do not mean an invalid request: the key is wrong, or the provider is busy."""

Element: TypeAlias = tuple[str, str, str]
"""One part of a request: its kind (user, assistant, call, output), the id of its call, and its text."""


def parse_body(items: Sequence[Any]) -> list[Element]:
    """Return the elements of a request from its body."""
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
                pass  # encrypted
            case _:
                elements.append(("?", "", json.dumps(item)))
    return elements


def parse_messages(messages: Sequence[Message], facts: Sequence[AnyFact]) -> list[Element]:
    """Return the elements of a request from the ledger. A message separates the text and the calls of a reply; the fact has their order."""
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
            elif isinstance(item, (OutputText, Refusal)):
                elements.append(("assistant", "", item.text))
    return elements


async def verify(folder: Path, kill_count: int) -> bool:
    """Print what each agent received, and check that everything is there exactly once."""
    async with SQLiteStore(folder / "desk.sqlite") as store:
        session = await build_desk(folder).session("customer-42", store=store).refresh()
        requests = [await session.seen(turn) for turn in range(sum(isinstance(fact, ModelReplied) for fact in session.facts))]
    traffic = read_traffic(folder)
    successful = {each["turn"]: each for each in traffic if each["status"] == 200}
    sent_elements = [parse_body(successful[turn]["input"]) for turn in range(len(requests))]
    print("\nWhat each agent received (user, assistant, call, output):")
    for turn, request in enumerate(requests):
        print_row(
            f"{turn + 1} {request.agent}",
            f"{successful[turn]['bytes']:>6,} bytes  {' '.join(kind[0] for kind, _, _ in sent_elements[turn])}",
        )
    checks = {**check_requests(session, requests, sent_elements), **check_effects(session.facts, folder, traffic, kill_count)}
    print("\nThe check:")
    for sentence, holds in checks.items():
        print_row("ok" if holds else "WRONG", sentence)
    return all(checks.values())


def check_requests(session: Session, requests: Sequence[ModelRequest], sent: Sequence[list[Element]]) -> dict[str, bool]:
    """Check that the bytes of all requests are the conversation in the ledger."""
    facts = session.facts
    messages = [message.text for message in session.messages if message.role == "user"]
    calls, outputs = ([Counter(call for kind, call, _ in each if kind == wanted) for each in sent] for wanted in ("call", "output"))
    handoffs, processes = sum(isinstance(fact, HandedOff) for fact in facts), DriverProcess.number
    received_messages = [text for kind, _, text in sent[-1] if kind == "user"]
    is_append_only = all(later[: len(earlier)] == earlier for earlier, later in pairwise(sent))
    has_unique_calls = all(set(each.values()) <= {1} for each in calls)
    is_as_recorded = sent == [parse_messages(request.messages, facts) for request in requests]
    return {
        f"{len(messages)} messages of the customer: each is in the last request once, in order": received_messages == messages,
        f"{len(requests)} requests, {handoffs} handoffs, {processes} processes: each request begins with the one before it": is_append_only,
        f"{calls[-1].total()} calls: each has exactly one output in every request": calls == outputs and has_unique_calls,
        "the bytes sent over HTTP say what the ledger says: nothing missing, nothing twice": is_as_recorded,
    }


def check_effects(facts: Sequence[AnyFact], folder: Path, traffic: Sequence[dict[str, Any]], kill_count: int) -> dict[str, bool]:
    """Check that the provider accepted every request, and that the bank paid once."""
    refusals = sum(400 <= each["status"] < 500 and each["status"] not in RETRYABLE_STATUSES for each in traffic)
    tools = find_calls(facts)
    starts = sum(isinstance(fact, CallStarted) and tools[fact.call].tool == "refund" for fact in facts)
    payments = len(read_bank_book(folder))
    return {
        f"{len(traffic)} requests over HTTP, {refusals} refused": refusals == 0,
        f"killed {kill_count} times, the bank was asked {starts} times to pay and paid {payments} times": payments <= min(starts, 1),
    }


def format_resume_hint(folder: Path) -> str:
    return f"The conversation is in its file. To continue:  {sys.executable} {__file__} {folder}"


def main(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    print(f"Legato: a support desk whose process dies twice. The conversation and the bank's book are in {folder}")
    try:
        with stand_in(make_emulated_reply):
            is_correct = asyncio.run(verify(folder, play(folder)))
    except KeyboardInterrupt:
        print(f"\nYou left. Nothing is lost. {format_resume_hint(folder)}")
        return 130
    print(f"\n{'Nothing was lost and nothing repeated.' if is_correct else 'Something is wrong: please report it.'} See README.md.")
    return 0 if is_correct else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--drive"]:
        asyncio.run(drive(Path(sys.argv[2])))
    else:
        sys.exit(main(Path(sys.argv[1] if sys.argv[1:] else tempfile.mkdtemp(prefix="legato-demo-")).resolve()))
