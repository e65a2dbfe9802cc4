"""Simulated people. May know: a schedule and the process they sit at. Decides: by dice what they do to a session, some of it badly.

They speak, answer in any order, twice and at once, forge, cancel, fork, erase and leave in the middle; at the end one of them brings every
branch to rest.
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
from legato.core.redaction import has_words
from legato.errors import BadInput, LedgerConflict, LedgerExists, LegatoError, NotPending, StoreError
from legato.runtime.session import Session
from legato.testing.effects import call_key
from legato.testing.promises import check_stream
from legato.testing.sampling import sample
from legato.testing.stage import SimulatedError
from legato.tools import ClientTool

if TYPE_CHECKING:
    from legato.testing.simulator import Process, Schedule


ACTIONS = (*("say",) * 3, *("answer",) * 4, "cancel", "resume", "fork", "pause", "forge", "erase")

CLIENT_TOOLS = (
    ClientTool("client_page", parameters={"type": "object", "properties": {"page": {"type": "integer"}}, "required": ["page"]}),
    ClientTool("client_clock"),
)


def client_tools(words: str) -> tuple[ClientTool, ...]:
    """The tools that a person offers with these words, the same whenever they are delivered: often none."""
    return CLIENT_TOOLS[: sum(map(ord, words)) % 5 - 2] if sum(map(ord, words)) % 5 > 2 else ()


class Actor:
    """Somebody who does a few things to a session, some of them badly."""

    def __init__(self, schedule: Schedule, index: int) -> None:
        self.schedule = schedule
        self.index = index
        dice = schedule.dice
        self.branch = "s"
        few = 0 if schedule.calm else dice.choice((1, 1, 2, 2, 3, 4))
        self.todo: list[tuple[str, Any]] = [(self.choose_action(dice), None) for _ in range(few)]
        if index == 0 and not schedule.calm:
            self.todo.insert(0, ("say", None))
        self._again: tuple[str, Any] | None = None

    def choose_action(self, dice: Random) -> str:
        """What to do next."""
        return dice.choice(ACTIONS)

    async def play(self, process: Process) -> None:
        """Do what is left to do."""
        dice = self.schedule.dice
        if self._again is not None and dice.random() < 0.6:
            self.todo.insert(0, self._again)
        session = self._open(process)
        while self.todo:
            action, value = self._again = self.todo.pop(0)
            self.schedule.tell(f"process {process.name}: actor {self.index} {action} {value or ''} in {self.branch}")
            if session.id != self.branch or dice.random() < 0.1:
                session = self._open(process)
            await self._guarded(self.act, session, process, action, value)
            self._again = None

    def _open(self, process: Process) -> Session:
        return self.schedule.stage.workflow.session(self.branch, store=process.store)

    async def _guarded(self, doing: Callable[..., Coroutine[Any, Any, Any]], *given: Any) -> bool:
        """Whether it went well. A store's failure and a refusal are part of life; anything else is a bug."""
        try:
            await doing(*given)
        except (LedgerConflict, LedgerExists) as error:
            self.schedule.violate("D3", f"a conflict reached a caller: {error.summary}")
        except (StoreError, NotPending) as error:
            self.schedule.tell(f"actor {self.index} is told: {error.summary}")
        except SimulatedError as error:
            self.schedule.tell(f"actor {self.index} is told: {error}")
        except LegatoError as error:
            self.schedule.violate("error", f"{type(error).__name__}: {error.summary}")
        except Exception as error:
            self.schedule.violate("error", repr(error))
        else:
            return True
        return False

    async def act(self, session: Session, process: Process, action: str, value: Any) -> None:
        """Do one thing."""
        dice = self.schedule.dice
        match action:
            case "say":
                await self._say(session, process, value)
            case "answer":
                await self._look_and_answer(session, process)
            case "cancel":
                await asyncio.sleep(dice.random() * 0.1)
                await session.cancel()
                await session.resume()
            case "resume":
                await session.resume()
            case "pause":
                await asyncio.sleep(dice.random() * 0.2)
            case "fork":
                await self._fork(session)
            case "forge":
                await self._forge(session)
            case "erase":
                await self._erase(session)
            case "settle":
                await self._settle(process, value)

    async def _look_and_answer(self, session: Session, process: Process) -> None:
        schedule = self.schedule
        there = schedule.base._ledgers.get(session.id)
        recorded = len(there.facts) if there else 0
        await session.refresh()
        if session.state.length < recorded and schedule.base._ledgers.get(session.id) is there:
            schedule.violate("D1", f"{recorded} facts were recorded, and a handle that looked saw {session.state.length}")
        if session.status == "running":
            await session.resume()
        await self._answer(session, process)

    async def _fork(self, session: Session) -> None:
        await session.refresh()
        if session.state.length and len(self.schedule.branches) < 3:
            at = self._position(session)
            await session.fork(at, name := self.name_branch("f"))
            self.go_on_in(name)

    def _position(self, session: Session) -> int | None:
        """Where to fork: now, anywhere, or just after somebody has decided something."""
        dice = self.schedule.dice
        decided = [at for at, fact in enumerate(session.facts, 1) if isinstance(fact, Decided) and fact.verdict in ("approve", "edit")]
        return dice.choice((None, dice.randrange(1, session.state.length + 1), dice.choice(decided) if decided else None))

    def name_branch(self, letter: str) -> str:
        """The id of a new branch."""
        schedule = self.schedule
        name = f"{letter}{len(schedule.branches)}.{len(schedule.processes)}"
        schedule.branches.append(name)
        return name

    def go_on_in(self, branch: str) -> None:
        """Turn to a branch, and speak there."""
        self.branch = branch
        self.todo += [("say", None), ("answer", None)]

    async def _say(self, session: Session, process: Process, value: Any) -> None:
        schedule, dice = self.schedule, self.schedule.dice
        if value is None:
            words = schedule.new_words(self.index)
            key = words if dice.random() < 0.6 else None
            self._again = ("say", (words, key)) if key else None
        else:
            words, key = value
        times = 2 if key and dice.random() < 0.3 else 1
        deliveries = [self._deliver(session if number == 0 else self._open(process), words, key) for number in range(times)]
        if times == 1:
            await deliveries[0]
        else:
            await asyncio.gather(*deliveries)

    async def _deliver(self, session: Session, words: str, key: str | None) -> None:
        schedule, dice = self.schedule, self.schedule.dice
        count = schedule.said.setdefault(words, [0, 0, int(key is not None)])
        count[0] += 1
        message = schedule.stage.message(words)
        tools = client_tools(words)
        manner = dice.random()
        if manner < 0.6:
            await session.run(message, key=key, tools=tools)
            count[1] += 1
            return
        events, leave = [], dice.randrange(1, 12) if manner > 0.9 else 0
        stream = cast(Any, session.run(message, stream=True, key=key, tools=tools).__aiter__())
        async for event in stream:
            events.append(event)
            if len(events) == leave:
                break
        await stream.aclose()
        if events:
            count[1] += 1
        if not leave:
            schedule.broken += check_stream(events, session.facts)

    async def _answer(self, session: Session, process: Process) -> None:
        dice = self.schedule.dice
        pending = session.pending
        dice.shuffle(pending)
        for request in pending:
            if dice.random() < 0.15:
                continue
            if dice.random() < 0.25:
                other = self._open(process)
                await asyncio.gather(*(self._guarded(self._give, each, request) for each in (session, other)))
            else:
                await self._guarded(self._give, session, request)
        if dice.random() < 0.85:
            await session.resume()

    async def _give(self, session: Session, request: Pending) -> None:
        """One answer of a fitting kind, or, rarely, of one that does not fit."""
        schedule, dice = self.schedule, self.schedule.dice
        key = f"answer {request.id} {dice.random()}" if dice.random() < 0.3 else None
        chance = dice.random()
        what: Pending | str = request if dice.random() < 0.7 else request.id
        match request.kind:
            case "limit":
                await (session.approve(what, key=key) if chance < 0.5 else session.reject(what, "no", key=key))
            case "result":
                await self._give_result(session, request, what, key, chance)
            case "outcome":
                await self._give_outcome(session, request, what, key, chance)
            case _:
                await self._give_verdict(session, request, what, key, chance)
        schedule.accepted[f"{session.id} {request.id}"] += 1
        if schedule.accepted[f"{session.id} {request.id}"] > 1:
            schedule.violate("D3", f"two answers to {request.id} were both accepted")
        if key and dice.random() < 0.3:
            await self._same_key(session, request, key)

    async def _give_result(self, session: Session, request: Pending, what: Pending | str, key: str | None, chance: float) -> None:
        if chance < 0.8:
            offered = client_tools(request.id) if request.for_client and chance < 0.3 else None
            await session.answer(what, {"result": chance}, key=key, tools=offered)
        else:
            await session.reject(what, "none", key=key)

    async def _give_outcome(self, session: Session, request: Pending, what: Pending | str, key: str | None, chance: float) -> None:
        if chance < 0.4:
            await self._approve(session, request, what, key)
        elif chance < 0.8:
            await session.answer(what, "a person says: done", key=key)
        else:
            await session.reject(what, "failed", key=key)

    async def _give_verdict(self, session: Session, request: Pending, what: Pending | str, key: str | None, chance: float) -> None:
        if chance < 0.6:
            await self._approve(session, request, what, key, always=chance < 0.3)
        elif chance < 0.8:
            await self._consent(request, "reject", lambda: session.reject(what, "declined", key=key))
        else:
            await self._edit(session, request, key)

    async def _same_key(self, session: Session, request: Pending, key: str) -> None:
        """The same delivery once more: recorded once, whatever was answered."""

        def recorded() -> int:
            kept = self.schedule.base._ledgers.get(request.session)
            facts = kept.facts if kept is not None else []
            return sum(1 for fact in facts if isinstance(fact, Decided) and fact.key == key)

        before = recorded()
        with suppress(BadInput):  # it was another verdict, and we are told so
            await session.approve(request, key=key)
        after = recorded()
        if before != after or after != 1:
            self.schedule.violate("D6", f"an answer with one key was recorded {after} times")

    async def _edit(self, session: Session, request: Pending, key: str | None) -> None:
        schema = self.schedule.stage.schemas.get(request.tool)
        value = sample(schema, self.schedule.dice) if schema else {"reason": "edited"}
        try:
            await self._consent(request, "edit", lambda: session.edit(request, value, key=key), value)
        except BadInput:
            await self._approve(session, request, request, key)

    async def _approve(self, session: Session, request: Pending, what: Pending | str, key: str | None = None, always: bool = False) -> None:
        await self._consent(request, "approve", lambda: session.approve(what, always=always, key=key), always=always)

    async def _consent(
        self,
        request: Pending,
        verdict: str,
        give: Callable[[], Coroutine[Any, Any, None]],
        arguments: Any = None,
        always: bool = False,
    ) -> None:
        """Answer, and note it in the log that is outside of all ledgers."""
        kept = self.schedule.base._ledgers.get(request.session)
        assert request.call is not None
        key = call_key(kept.facts if kept is not None else [], request.call)
        consent = self.schedule.effects.add_consent(request, key, verdict, arguments, always)
        try:
            await give()
        except (NotPending, BadInput):
            consent.refused = True
            raise
        consent.confirmed = True

    async def _forge(self, session: Session) -> None:
        """Answers that must be refused: for other arguments, for a request of another session, for nothing."""
        await session.refresh()
        dice = self.schedule.dice
        for request in session.pending[:2]:
            false: Pending | str = "x" + request.id[1:]
            if request.digest and dice.random() < 0.5:
                false = msgspec.structs.replace(request, digest="0" * 32)
            try:
                await session.approve(false)
            except NotPending:
                continue
            if request.id in {each.id for each in session.pending}:
                continue
            self.schedule.violate("S2", f"a forged answer to {request.id} was accepted")

    async def _erase(self, session: Session) -> None:
        """Words are erased, whatever is going on: a few, or all of them."""
        dice, schedule = self.schedule.dice, self.schedule
        await session.refresh()
        worded = [position for position, fact in enumerate(session.facts) if has_words(fact)]
        if not worded:
            return
        await asyncio.sleep(dice.random() * 0.1)
        chosen = dice.sample(worded, min(len(worded), dice.choice((1, 1, 2, 4))))
        whole = dice.random() < 0.1
        redaction = await (session.redact(everything=True) if whole else session.redact(*chosen, reason="simulated"))
        schedule.report.erasures += bool(redaction.positions)
        there = schedule.base._ledgers.get(session.id)
        both = (there.facts if there is not None else (), session.facts)
        if any(has_words(each[position]) for each in both for position in redaction.positions if position < len(each)):
            schedule.violate("S5", f"words that were erased in {session.id} are still there")

    async def _settle(self, process: Process, branch: str) -> None:
        """Bring a branch to rest; then a last message must be answered."""
        schedule = self.schedule
        if branch not in schedule.base._ledgers or not schedule.base._ledgers[branch].facts:
            return
        session = await schedule.stage.workflow.session(branch, store=process.store).refresh()
        words = f"last message in {branch}"
        for patience in range(60):
            await asyncio.sleep(0.02 if patience < 20 else 1.0)  # whoever still holds the lease lets go of it
            await session.refresh()
            if session.status in ("pending", "running", "failed"):
                if not await self._go_on(session):
                    return
            elif words in schedule.said:
                break
            else:
                schedule.said[words] = [1, 1, 0]
                await session.run(words)
        else:
            schedule.violate("D4", f"{branch} does not come to rest: {session.status}")
            return
        self._check_answered(session, words)

    async def _go_on(self, session: Session) -> bool:
        """Answer what is asked, if anything, and drive the session. False if it was driven and says that it runs."""
        if session.status == "pending":
            for request in session.pending:
                await self._calm_answer(session, request)
            await session.resume()
            return True
        await session.resume()
        if session.status == "running":
            self.schedule.violate("D4", f"{session.id} was driven and still says that it is running")
            return False
        return True

    def _check_answered(self, session: Session, words: str) -> None:
        """The last message got an answer, unless a guardrail withheld it or a limit was reached for good."""
        facts = session.facts
        at = _find_message(facts, words)
        if at < 0:
            return  # counted with the words that were lost
        replied = any(isinstance(fact, ModelReplied) and fact.upto >= at for fact in facts)
        withheld = any(isinstance(fact, GuardrailJudged) and fact.kind == "input" and fact.stop and fact.position == at for fact in facts)
        # A budget that counts over the whole session may be used up for good.
        spent = any(isinstance(fact, Decided) and fact.kind == "limit" and fact.verdict == "reject" for fact in facts[at:])
        if not (replied or withheld or spent):
            self.schedule.violate("D4", f"the last message in {session.id} got no answer; the session is {session.status}")

    async def _calm_answer(self, session: Session, request: Pending) -> None:
        dice = self.schedule.dice
        with suppress(NotPending):  # an answer before this one has overtaken it
            if request.kind == "result":
                await session.answer(request, "late result")
            elif request.kind == "outcome":
                await session.answer(request, "settled")
            elif request.kind == "limit":
                await (session.approve(request) if dice.random() < 0.5 else session.reject(request))
            elif dice.random() < 0.5:
                await self._approve(session, request, request)
            else:
                await self._consent(request, "reject", lambda: session.reject(request))


def _find_message(facts: Sequence[AnyFact], words: str) -> int:
    """Where a message of these words was recorded; -1 if it was not."""
    return next((index for index, fact in enumerate(facts) if isinstance(fact, MessageReceived) and fact.content == words), -1)
