"""Simulated users, who act on a session at random, and not always correctly.

They send messages, answer in any order, twice and at once, forge answers, cancel, fork, redact, and leave a stream in the middle. At the
end a last user drives every branch until it is idle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any, cast

import msgspec

from legato.core.facts import AnyFact, Decided, GuardrailJudged, MessageReceived, ModelReplied
from legato.core.pending_requests import Pending
from legato.core.redaction import has_text
from legato.errors import BadInput, LedgerConflict, LedgerExists, LegatoError, NotPending, StoreError
from legato.runtime.session import Session
from legato.testing.effect_log import find_idempotency_key
from legato.testing.promise_checks import check_streamed_text
from legato.testing.schema_samples import sample_schema
from legato.testing.simulated_workflow import SimulatedError
from legato.tools import ClientTool

if TYPE_CHECKING:
    from legato.testing.simulator import Schedule, SimulatedProcess


ACTIONS = (*("send",) * 3, *("answer",) * 4, "cancel", "resume", "fork", "pause", "forge", "redact")

CLIENT_TOOLS = (
    ClientTool("client_page", parameters={"type": "object", "properties": {"page": {"type": "integer"}}, "required": ["page"]}),
    ClientTool("client_clock"),
)


def choose_client_tools(text: str) -> tuple[ClientTool, ...]:
    """Return the client tools that a user offers with this text: the same for each delivery, often none."""
    return CLIENT_TOOLS[: sum(map(ord, text)) % 5 - 2] if sum(map(ord, text)) % 5 > 2 else ()


class SimulatedUser:
    """A user who performs a few random actions on a session."""

    def __init__(self, schedule: Schedule, index: int) -> None:
        self.schedule = schedule
        self.index = index
        rng = schedule.rng
        self.branch = "s"
        count = 0 if schedule.is_settling else rng.choice((1, 1, 2, 2, 3, 4))
        self.remaining_actions: list[tuple[str, Any]] = [(self.choose_action(rng), None) for _ in range(count)]
        if index == 0 and not schedule.is_settling:
            self.remaining_actions.insert(0, ("send", None))
        self._current_action: tuple[str, Any] | None = None

    def choose_action(self, rng: Random) -> str:
        """Return the name of an action."""
        return rng.choice(ACTIONS)

    async def run(self, process: SimulatedProcess) -> None:
        """Perform the remaining actions; after a restart, perhaps repeat the interrupted one."""
        rng = self.schedule.rng
        if self._current_action is not None and rng.random() < 0.6:
            self.remaining_actions.insert(0, self._current_action)
        session = self._open_session(process)
        while self.remaining_actions:
            action, value = self._current_action = self.remaining_actions.pop(0)
            self.schedule.add_trace(f"process {process.name}: user {self.index} {action} {value or ''} in {self.branch}")
            if session.id != self.branch or rng.random() < 0.1:
                session = self._open_session(process)
            await self._try(self.perform, session, process, action, value)
            self._current_action = None

    def _open_session(self, process: SimulatedProcess) -> Session:
        return self.schedule.simulated_workflow.workflow.session(self.branch, store=process.store)

    async def _try(self, function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> bool:
        """Call the function; return True if it raised nothing. Store errors and refused answers are expected; other errors are bugs."""
        try:
            await function(*arguments)
        except (LedgerConflict, LedgerExists) as error:
            self.schedule.report_violation("D3", f"a conflict reached a caller: {error.summary}")
        except (StoreError, NotPending) as error:
            self.schedule.add_trace(f"user {self.index} gets an error: {error.summary}")
        except SimulatedError as error:
            self.schedule.add_trace(f"user {self.index} gets an error: {error}")
        except LegatoError as error:
            self.schedule.report_violation("error", f"{type(error).__name__}: {error.summary}")
        except Exception as error:
            self.schedule.report_violation("error", repr(error))
        else:
            return True
        return False

    async def perform(self, session: Session, process: SimulatedProcess, action: str, value: Any) -> None:
        """Perform one action."""
        rng = self.schedule.rng
        match action:
            case "send":
                await self._send_message(session, process, value)
            case "answer":
                await self._refresh_and_answer(session, process)
            case "cancel":
                await asyncio.sleep(rng.random() * 0.1)
                await session.cancel()
                await session.resume()
            case "resume":
                await session.resume()
            case "pause":
                await asyncio.sleep(rng.random() * 0.2)
            case "fork":
                await self._fork(session)
            case "forge":
                await self._forge_answers(session)
            case "redact":
                await self._redact_session(session)
            case "settle":
                await self._settle_branch(process, value)

    async def _refresh_and_answer(self, session: Session, process: SimulatedProcess) -> None:
        schedule = self.schedule
        ledger = schedule.store._ledgers.get(session.id)
        recorded = len(ledger.facts) if ledger else 0
        await session.refresh()
        if session.state.length < recorded and schedule.store._ledgers.get(session.id) is ledger:
            schedule.report_violation("D1", f"{recorded} facts were recorded, and a refreshed session has {session.state.length}")
        if session.status == "running":
            await session.resume()
        await self._answer_requests(session, process)

    async def _fork(self, session: Session) -> None:
        await session.refresh()
        if session.state.length and len(self.schedule.branches) < 3:
            at = self._choose_fork_position(session)
            await session.fork(at, name := self.add_branch("f"))
            self.continue_in(name)

    def _choose_fork_position(self, session: Session) -> int | None:
        """Return the position of a fork: the end, any position, or just after an approval."""
        rng = self.schedule.rng
        approvals = [at for at, fact in enumerate(session.facts, 1) if isinstance(fact, Decided) and fact.verdict in ("approve", "edit")]
        return rng.choice((None, rng.randrange(1, session.state.length + 1), rng.choice(approvals) if approvals else None))

    def add_branch(self, letter: str) -> str:
        """Register a new branch and return its id."""
        schedule = self.schedule
        name = f"{letter}{len(schedule.branches)}.{len(schedule.processes)}"
        schedule.branches.append(name)
        return name

    def continue_in(self, branch: str) -> None:
        """Switch to a branch, to send a message there."""
        self.branch = branch
        self.remaining_actions += [("send", None), ("answer", None)]

    async def _send_message(self, session: Session, process: SimulatedProcess, value: Any) -> None:
        schedule, rng = self.schedule, self.schedule.rng
        if value is None:
            text = schedule.make_message_text(self.index)
            key = text if rng.random() < 0.6 else None
            self._current_action = ("send", (text, key)) if key else None
        else:
            text, key = value
        times = 2 if key and rng.random() < 0.3 else 1
        deliveries = [self._deliver_message(session if number == 0 else self._open_session(process), text, key) for number in range(times)]
        if times == 1:
            await deliveries[0]
        else:
            await asyncio.gather(*deliveries)

    async def _deliver_message(self, session: Session, text: str, key: str | None) -> None:
        schedule, rng = self.schedule, self.schedule.rng
        delivery = schedule.deliveries.setdefault(text, [0, 0, int(key is not None)])
        delivery[0] += 1
        message = schedule.simulated_workflow.make_message(text)
        tools = choose_client_tools(text)
        chance = rng.random()
        if chance < 0.6:
            await session.run(message, key=key, tools=tools)
            delivery[1] += 1
            return
        events, leave_after = [], rng.randrange(1, 12) if chance > 0.9 else 0
        stream = cast(Any, session.run(message, stream=True, key=key, tools=tools).__aiter__())
        async for event in stream:
            events.append(event)
            if len(events) == leave_after:
                break
        await stream.aclose()
        if events:
            delivery[1] += 1
        if not leave_after:
            schedule.violations += check_streamed_text(events, session.facts)

    async def _answer_requests(self, session: Session, process: SimulatedProcess) -> None:
        rng = self.schedule.rng
        pending = session.pending
        rng.shuffle(pending)
        for request in pending:
            if rng.random() < 0.15:
                continue
            if rng.random() < 0.25:
                other = self._open_session(process)
                await asyncio.gather(*(self._try(self._answer_request, each, request) for each in (session, other)))
            else:
                await self._try(self._answer_request, session, request)
        if rng.random() < 0.85:
            await session.resume()

    async def _answer_request(self, session: Session, request: Pending) -> None:
        """Answer the request at random, and sometimes repeat the answer with the same key."""
        schedule, rng = self.schedule, self.schedule.rng
        key = f"answer {request.id} {rng.random()}" if rng.random() < 0.3 else None
        chance = rng.random()
        target: Pending | str = request if rng.random() < 0.7 else request.id
        match request.kind:
            case "limit":
                await (session.approve(target, key=key) if chance < 0.5 else session.reject(target, "no", key=key))
            case "result":
                await self._answer_result_request(session, request, target, key, chance)
            case "outcome":
                await self._answer_outcome_request(session, request, target, key, chance)
            case _:
                await self._answer_approval_request(session, request, target, key, chance)
        schedule.answer_counts[f"{session.id} {request.id}"] += 1
        if schedule.answer_counts[f"{session.id} {request.id}"] > 1:
            schedule.report_violation("D3", f"two answers to {request.id} were both accepted")
        if key and rng.random() < 0.3:
            await self._repeat_with_key(session, request, key)

    async def _answer_result_request(
        self, session: Session, request: Pending, target: Pending | str, key: str | None, chance: float
    ) -> None:
        if chance < 0.8:
            offered = choose_client_tools(request.id) if request.for_client and chance < 0.3 else None
            await session.answer(target, {"result": chance}, key=key, tools=offered)
        else:
            await session.reject(target, "none", key=key)

    async def _answer_outcome_request(
        self, session: Session, request: Pending, target: Pending | str, key: str | None, chance: float
    ) -> None:
        if chance < 0.4:
            await self._approve_call(session, request, target, key)
        elif chance < 0.8:
            await session.answer(target, "a person says: done", key=key)
        else:
            await session.reject(target, "failed", key=key)

    async def _answer_approval_request(
        self, session: Session, request: Pending, target: Pending | str, key: str | None, chance: float
    ) -> None:
        if chance < 0.6:
            await self._approve_call(session, request, target, key, is_standing=chance < 0.3)
        elif chance < 0.8:
            await self._give_consent(request, "reject", lambda: session.reject(target, "declined", key=key))
        else:
            await self._edit_call(session, request, key)

    async def _repeat_with_key(self, session: Session, request: Pending, key: str) -> None:
        """Check that an answer with the same key is recorded once, even with another verdict."""

        def count_recorded() -> int:
            ledger = self.schedule.store._ledgers.get(request.session)
            facts = ledger.facts if ledger is not None else []
            return sum(1 for fact in facts if isinstance(fact, Decided) and fact.key == key)

        before = count_recorded()
        with suppress(BadInput):  # another verdict than before is refused
            await session.approve(request, key=key)
        after = count_recorded()
        if before != after or after != 1:
            self.schedule.report_violation("D6", f"an answer with one key was recorded {after} times")

    async def _edit_call(self, session: Session, request: Pending, key: str | None) -> None:
        schema = self.schedule.simulated_workflow.schemas.get(request.tool)
        value = sample_schema(schema, self.schedule.rng) if schema else {"reason": "edited"}
        try:
            await self._give_consent(request, "edit", lambda: session.edit(request, value, key=key), value)
        except BadInput:
            await self._approve_call(session, request, request, key)

    async def _approve_call(
        self, session: Session, request: Pending, target: Pending | str, key: str | None = None, is_standing: bool = False
    ) -> None:
        await self._give_consent(request, "approve", lambda: session.approve(target, always=is_standing, key=key), is_standing=is_standing)

    async def _give_consent(
        self,
        request: Pending,
        verdict: str,
        send_answer: Callable[[], Coroutine[Any, Any, None]],
        arguments: Any = None,
        is_standing: bool = False,
    ) -> None:
        """Answer, and log the consent outside all ledgers."""
        ledger = self.schedule.store._ledgers.get(request.session)
        assert request.call is not None
        key = find_idempotency_key(ledger.facts if ledger is not None else [], request.call)
        consent = self.schedule.effect_log.add_consent(request, key, verdict, arguments, is_standing)
        try:
            await send_answer()
        except (NotPending, BadInput):
            consent.is_refused = True
            raise
        consent.is_confirmed = True

    async def _forge_answers(self, session: Session) -> None:
        """Send answers that must be refused: with the digest of other arguments, or for a request that does not exist."""
        await session.refresh()
        rng = self.schedule.rng
        for request in session.pending[:2]:
            forgery: Pending | str = "x" + request.id[1:]
            if request.digest and rng.random() < 0.5:
                forgery = msgspec.structs.replace(request, digest="0" * 32)
            try:
                await session.approve(forgery)
            except NotPending:
                continue
            if request.id in {each.id for each in session.pending}:
                continue
            self.schedule.report_violation("S2", f"a forged answer to {request.id} was accepted")

    async def _redact_session(self, session: Session) -> None:
        """Redact a few facts with text, or all of them, whatever the session does meanwhile."""
        rng, schedule = self.schedule.rng, self.schedule
        await session.refresh()
        positions = [position for position, fact in enumerate(session.facts) if has_text(fact)]
        if not positions:
            return
        await asyncio.sleep(rng.random() * 0.1)
        chosen = rng.sample(positions, min(len(positions), rng.choice((1, 1, 2, 4))))
        everything = rng.random() < 0.1
        redaction = await (session.redact(everything=True) if everything else session.redact(*chosen, reason="simulated"))
        schedule.report.redactions += bool(redaction.positions)
        ledger = schedule.store._ledgers.get(session.id)
        both = (ledger.facts if ledger is not None else (), session.facts)
        if any(has_text(facts[position]) for facts in both for position in redaction.positions if position < len(facts)):
            schedule.report_violation("S5", f"text that was redacted in {session.id} is still there")

    async def _settle_branch(self, process: SimulatedProcess, branch: str) -> None:
        """Drive a branch until it is idle; then send a last message, which must be answered."""
        schedule = self.schedule
        if branch not in schedule.store._ledgers or not schedule.store._ledgers[branch].facts:
            return
        session = await schedule.simulated_workflow.workflow.session(branch, store=process.store).refresh()
        text = f"last message in {branch}"
        for number in range(60):
            await asyncio.sleep(0.02 if number < 20 else 1.0)  # time for another holder to release the lease
            await session.refresh()
            if session.status in ("pending", "running", "failed"):
                if not await self._drive_session(session):
                    return
            elif text in schedule.deliveries:
                break
            else:
                schedule.deliveries[text] = [1, 1, 0]
                await session.run(text)
        else:
            schedule.report_violation("D4", f"{branch} does not become idle: {session.status}")
            return
        self._check_answered(session, text)

    async def _drive_session(self, session: Session) -> bool:
        """Answer pending requests and drive the session. Return False if it is still running afterwards."""
        if session.status == "pending":
            for request in session.pending:
                await self._answer_to_settle(session, request)
            await session.resume()
            return True
        await session.resume()
        if session.status == "running":
            self.schedule.report_violation("D4", f"{session.id} was driven, and its status is still running")
            return False
        return True

    def _check_answered(self, session: Session, text: str) -> None:
        """Check that the last message got a reply, unless a guardrail withheld it or a user refused to extend a limit."""
        facts = session.facts
        at = _find_message(facts, text)
        if at < 0:
            return  # `Schedule` counts it as a lost message
        is_answered = any(isinstance(fact, ModelReplied) and fact.upto >= at for fact in facts)
        is_withheld = any(
            isinstance(fact, GuardrailJudged) and fact.kind == "input" and fact.stop and fact.position == at for fact in facts
        )
        # Limits that count over the whole session can be used up for good.
        is_limited = any(isinstance(fact, Decided) and fact.kind == "limit" and fact.verdict == "reject" for fact in facts[at:])
        if not (is_answered or is_withheld or is_limited):
            self.schedule.report_violation("D4", f"the last message in {session.id} got no reply; the session is {session.status}")

    async def _answer_to_settle(self, session: Session, request: Pending) -> None:
        rng = self.schedule.rng
        with suppress(NotPending):  # an earlier answer has made it obsolete
            if request.kind == "result":
                await session.answer(request, "late result")
            elif request.kind == "outcome":
                await session.answer(request, "settled")
            elif request.kind == "limit":
                await (session.approve(request) if rng.random() < 0.5 else session.reject(request))
            elif rng.random() < 0.5:
                await self._approve_call(session, request, request)
            else:
                await self._give_consent(request, "reject", lambda: session.reject(request))


def _find_message(facts: Sequence[AnyFact], text: str) -> int:
    """Return the position of the message with this text; -1 if it was not recorded."""
    return next((index for index, fact in enumerate(facts) if isinstance(fact, MessageReceived) and fact.content == text), -1)
