"""Where a check is made, and how it says what it found. May know: how to open a store, here and in another process."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import multiprocessing
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, TypeAlias

from legato.core import codec
from legato.core.facts import AnyFact
from legato.stores.contract import Store

Factory: TypeAlias = Callable[[str], Store | Awaitable[Store]]


class Hooks(NamedTuple):
    """What the caller lets the checks do."""

    processes: bool
    persistent: bool
    damage: Callable[[str], None] | None
    fill: Callable[[str], AbstractContextManager[None]] | None


class Unmet(Exception):
    """A store did something else than the contract says."""


class LeftOut(Exception):
    """A check that cannot be made with what the caller gave."""


def expect(found: object, wanted: object, what: str) -> None:
    """Fail the check unless the two are equal."""
    if found != wanted:
        raise Unmet(f"{what}: expected {_short(wanted)}, found {_short(found)}")


@contextlib.asynccontextmanager
async def expect_error(kind: type[Exception], what: str) -> AsyncIterator[None]:
    """Fail the check unless the block raises this kind of error."""
    try:
        yield
    except kind:
        return
    except Exception as error:
        raise Unmet(f"{what}: expected {kind.__name__}, found {type(error).__name__}: {error}") from error
    raise Unmet(f"{what}: expected {kind.__name__}, found no error")


class Place:
    """Where one check is made: stores on data that no other check uses."""

    def __init__(self, name: str, factory: Factory, hooks: Hooks) -> None:
        self.name = name
        self.hooks = hooks
        self._factory = factory
        self._opened: list[Store] = []
        self._others: list[OtherProcess] = []

    async def open(self) -> Store:
        """Another handle on the same data."""
        store = self._factory(self.name)
        opened = await store if inspect.isawaitable(store) else store
        self._opened.append(opened)
        return opened

    async def reopen(self) -> Store:
        """Close all handles and open one."""
        if not self.hooks.persistent:
            raise LeftOut("the store keeps nothing when it is closed (persistent=False)")
        await self.close()
        return await self.open()

    async def other_process(self) -> OtherProcess:
        """A handle on the same data in another process."""
        if not self.hooks.processes:
            raise LeftOut("the store is used in one process only (processes=False)")
        try:
            other = OtherProcess(self._factory, self.name)
        except Exception as error:
            raise LeftOut("the factory cannot be sent to another process: give a function of a module, or a partial of one") from error
        self._others.append(other)
        return other

    async def close(self) -> None:
        while self._others:
            await self._others.pop().kill()
        while self._opened:
            await self._opened.pop().close()


class OtherProcess:
    """A store in a process of its own, operated from here, and killed without warning."""

    def __init__(self, factory: Factory, name: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_operate, args=(factory, name, theirs), daemon=True)
        self._process.start()
        theirs.close()

    async def ask(self, operation: str, *arguments: Any) -> Any:
        """Call the store's method there."""
        self._ours.send((operation, arguments))
        answer = await asyncio.to_thread(self._ours.recv)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def append(self, ledger: str, expected: int, facts: list[AnyFact]) -> int:
        return int(await self.ask("append", ledger, expected, [codec.encode(fact) for fact in facts]))

    async def kill(self) -> None:
        """`kill -9`."""
        self._process.kill()
        await asyncio.to_thread(self._process.join)
        self._ours.close()


def _operate(factory: Factory, name: str, orders: Connection) -> None:
    """The other process: does what it is told until its end."""

    async def main() -> None:
        made = factory(name)
        store = await made if inspect.isawaitable(made) else made
        while True:
            operation, arguments = orders.recv()
            try:
                if operation == "append":
                    ledger, expected, bodies = arguments
                    arguments = (ledger, expected, [codec.decode(body) for body in bodies])
                answer = await getattr(store, operation)(*arguments)
                orders.send((answer.ledger, answer.epoch) if operation == "lease" and answer is not None else answer)
            except Exception as error:
                orders.send(RuntimeError(f"{type(error).__name__}: {error}"))

    with contextlib.suppress(EOFError, KeyboardInterrupt):
        asyncio.run(main())


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 300 else text[:300] + " ..."
