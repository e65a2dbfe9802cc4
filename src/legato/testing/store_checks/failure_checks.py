"""Checks of rules 11 and 12: damage, full disks, event loops, closing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from legato.core.facts import MessageReceived
from legato.errors import DamagedStore, StoreError, StoreFull
from legato.testing.store_checks.check_environment import CheckEnvironment, CheckSkipped, ContractBroken, expect, expect_error
from legato.testing.store_checks.check_helpers import checks_rule, make_messages, read_facts


@checks_rule(11, "damage is reported, with the number of facts before it")
async def _check_damage(environment: CheckEnvironment) -> None:
    if environment.options.damage is None:
        raise CheckSkipped("`check_store` was called without `damage`")
    store = await environment.open()
    facts = [*make_messages(*range(12)), MessageReceived(at=1, content="flip me"), *make_messages(*range(13, 20))]
    await store.append("s", 0, facts)
    await store.append("t", 0, make_messages(0))
    await environment.reopen()
    await environment.close()
    environment.options.damage(environment.name)
    store = await environment.open()
    try:
        await store.read("s")
    except DamagedStore as damage:
        if not 0 <= damage.readable <= 12:
            raise ContractBroken(f"12 facts lie before the damage, and {damage.readable} are reported as readable") from None
    else:
        raise ContractBroken("a changed byte was not detected")
    if (salvage := getattr(store, "salvage", None)) is not None:
        expect(list(await salvage("s")), facts[:12], "the facts before the damage")
    expect(await read_facts(store, "t"), make_messages(0), "another ledger")


@checks_rule(11, "a full disk is reported and loses nothing, and the store works again when there is room")
async def _check_full_disk(environment: CheckEnvironment) -> None:
    if environment.options.fill is None:
        raise CheckSkipped("`check_store` was called without `fill`")
    store = await environment.open()
    length = await store.append("s", 0, make_messages(0))
    big = MessageReceived(at=1, content="x" * 50_000)
    with environment.options.fill(environment.name):
        try:
            while length < 500:
                length = await store.append("s", length, [big])
        except StoreFull:
            pass
        else:
            raise ContractBroken("the disk was full, and 500 large appends were acknowledged")
        expect(len(await store.read("s")), length, "facts after the refusal")
    expect(await store.append("s", length, [big]), length + 1, "an append when there is room again")
    expect(await read_facts(store, "s"), [*make_messages(0), *[big] * length], "the facts")


@checks_rule(12, "one store serves several event loops at once")
async def _check_event_loops(environment: CheckEnvironment) -> None:
    store = await environment.open()

    async def append_and_wait(ledger: str) -> None:
        for position in range(20):
            await store.append(ledger, position, make_messages(position))
        await store.wait("end", 0, 10)

    def run_in_new_loop(ledger: str) -> None:
        asyncio.run(append_and_wait(ledger))

    threads = [asyncio.ensure_future(asyncio.to_thread(run_in_new_loop, name)) for name in "abc"]
    for position in range(20):
        await store.append("here", position, make_messages(position))
    await asyncio.sleep(0.05)
    await store.append("end", 0, make_messages(0))
    await asyncio.gather(*threads)
    for ledger in ("a", "b", "c", "here"):
        expect(await read_facts(store, ledger), make_messages(*range(20)), f"the facts of {ledger!r}")


@checks_rule(12, "a closed store raises errors, and may be closed twice")
async def _check_closed_store(environment: CheckEnvironment) -> None:
    store = await environment.open()
    await store.append("s", 0, make_messages(0))
    await store.close()
    await store.close()

    async def watch() -> None:
        store.watch("s", 0, print)

    operations: dict[str, Callable[[], Awaitable[Any]]] = {
        "append": lambda: store.append("s", 1, make_messages(1)),
        "read": lambda: store.read("s"),
        "ledger_id": lambda: store.ledger_id("s"),
        "list": lambda: store.list(),
        "fork": lambda: store.fork("s", 1, "fork", []),
        "delete": lambda: store.delete("s"),
        "lease": lambda: store.lease("s"),
        "list_runnable": lambda: store.list_runnable(),
        "wait": lambda: store.wait("s", 0, 0),
        "watch": watch,
    }
    for name, operation in operations.items():
        async with expect_error(StoreError, f"{name} on a closed store"):
            await operation()
