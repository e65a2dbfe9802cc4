"""The environment of one check: stores in this and in other processes, and the errors by which a check fails or is skipped."""

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

StoreFactory: TypeAlias = Callable[[str], Store | Awaitable[Store]]


class CheckOptions(NamedTuple):
    """The options of `check_store`."""

    processes: bool
    persistent: bool
    damage: Callable[[str], None] | None
    fill: Callable[[str], AbstractContextManager[None]] | None


class ContractBroken(Exception):
    """The store does not do what the contract says."""


class CheckSkipped(Exception):
    """The check is impossible with the options of `check_store`."""


def expect(actual: object, expected: object, subject: str) -> None:
    """Fail the check unless the two are equal. `subject` names what is compared."""
    if actual != expected:
        raise ContractBroken(f"{subject}: expected {_truncate(expected)}, found {_truncate(actual)}")


@contextlib.asynccontextmanager
async def expect_error(kind: type[Exception], subject: str) -> AsyncIterator[None]:
    """Fail the check unless the block raises this kind of error."""
    try:
        yield
    except kind:
        return
    except Exception as error:
        raise ContractBroken(f"{subject}: expected {kind.__name__}, found {type(error).__name__}: {error}") from error
    raise ContractBroken(f"{subject}: expected {kind.__name__}, found no error")


class CheckEnvironment:
    """The stores of one check, on data that no other check uses."""

    def __init__(self, name: str, factory: StoreFactory, hooks: CheckOptions) -> None:
        self.name = name
        self.options = hooks
        self._factory = factory
        self._open_stores: list[Store] = []
        self._other_processes: list[OtherProcess] = []

    async def open(self) -> Store:
        """Open another handle on the same data."""
        store = self._factory(self.name)
        opened = await store if inspect.isawaitable(store) else store
        self._open_stores.append(opened)
        return opened

    async def reopen(self) -> Store:
        """Close all handles, and open a new one."""
        if not self.options.persistent:
            raise CheckSkipped("the store keeps nothing when it is closed (persistent=False)")
        await self.close()
        return await self.open()

    async def start_other_process(self) -> OtherProcess:
        """Open a handle on the same data in another process."""
        if not self.options.processes:
            raise CheckSkipped("the store is used in one process only (processes=False)")
        try:
            other = OtherProcess(self._factory, self.name)
        except Exception as error:
            raise CheckSkipped("the factory cannot be sent to another process: pass a function of a module, or a partial of one") from error
        self._other_processes.append(other)
        return other

    async def close(self) -> None:
        while self._other_processes:
            await self._other_processes.pop().kill()
        while self._open_stores:
            await self._open_stores.pop().close()


class OtherProcess:
    """A store in another process, which executes operations on request and can be killed."""

    def __init__(self, factory: StoreFactory, name: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other_end = context.Pipe()
        self._process = context.Process(target=_serve_operations, args=(factory, name, other_end), daemon=True)
        self._process.start()
        other_end.close()

    async def invoke(self, operation: str, *arguments: Any) -> Any:
        """Call a method of the store there, and return its result."""
        self._connection.send((operation, arguments))
        result = await asyncio.to_thread(self._connection.recv)
        if isinstance(result, Exception):
            raise result
        return result

    async def append(self, ledger: str, expected: int, facts: list[AnyFact]) -> int:
        return int(await self.invoke("append", ledger, expected, [codec.encode_fact(fact) for fact in facts]))

    async def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self._process.kill()
        await asyncio.to_thread(self._process.join)
        self._connection.close()


def _serve_operations(factory: StoreFactory, name: str, connection: Connection) -> None:
    """Execute operations until the connection ends. Runs in the other process."""

    async def main() -> None:
        opened = factory(name)
        store = await opened if inspect.isawaitable(opened) else opened
        while True:
            operation, arguments = connection.recv()
            try:
                if operation == "append":
                    ledger, expected, bodies = arguments
                    arguments = (ledger, expected, [codec.decode_fact(body) for body in bodies])
                result = await getattr(store, operation)(*arguments)
                connection.send((result.ledger, result.epoch) if operation == "lease" and result is not None else result)
            except Exception as error:
                connection.send(RuntimeError(f"{type(error).__name__}: {error}"))

    with contextlib.suppress(EOFError, KeyboardInterrupt):
        asyncio.run(main())


def _truncate(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 300 else text[:300] + " ..."
