"""`legato doctor`. May know: the environment, stores. Decides: what is looked at, and that no key is ever shown."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer

from legato.cli.options import Json, Stored
from legato.errors import install_hint

EXTRAS = {
    "openai": ("openai",),
    "anthropic": ("anthropic",),
    "emulator": ("starlette", "uvicorn", "pyyaml"),
    "tokens": ("tiktoken",),
    "postgres": ("psycopg",),
    "cli": ("typer", "rich"),
    "temporal": ("temporalio",),
    "restate": ("restate-sdk", "hypercorn", "httpx2"),
    "mcp": ("mcp",),
    "telemetry": ("opentelemetry-api",),
    "server": ("starlette", "uvicorn", "ag-ui-protocol"),
}
NEEDED = ("msgspec", "pydantic")


def doctor(
    store: Stored = "",
    limit: Annotated[int, typer.Option(help="How many sessions of the store are read whole, the most recent first.", min=0)] = 100,
    as_json: Json = False,
) -> None:
    """Look at what Legato finds here: versions, extras, which keys are set (never their values), and whether the store is sound.

    Exit code 0: all is well; 1: something is wrong.
    """
    from legato.cli.telling import symbol, tell, write_json

    found = {"python": _python(), "packages": _packages(), "providers": _providers(), "store": _store(store, limit)}
    problems = [*found["python"]["problems"], *found["packages"]["problems"], *found["store"]["problems"]]
    if as_json:
        write_json({**found, "problems": problems})
    else:
        _tell(found)
        for problem in problems:
            tell((f"{symbol('failed')} ", "red"), problem)
        if not problems:
            tell((f"{symbol('done')} ", "green"), "nothing wrong found")
    if problems:
        raise typer.Exit(1)


def _python() -> dict[str, Any]:
    old = sys.version_info < (3, 11)
    return {
        "version": platform.python_version(),
        "at": sys.executable,
        "system": platform.platform(),
        "problems": ["Legato needs Python 3.11 or newer"] if old else [],
    }


def _packages() -> dict[str, Any]:
    extras = {name: {package: _version(package) for package in packages} for name, packages in EXTRAS.items()}
    needed = {package: _version(package) for package in NEEDED}
    missing = [package for package, found in needed.items() if not found]
    return {
        "legato": version("legato"),
        "needed": needed,
        "extras": extras,
        "problems": [f"{package} is missing: install Legato again" for package in missing],
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _providers() -> dict[str, Any]:
    """Which providers a program would reach from here: names of variables, and no values."""
    from legato.emulator.standing_in import PROVIDERS

    found = {}
    for provider in PROVIDERS:
        chosen = provider.chosen(os.environ)
        found[provider.name] = {"set": chosen, "variable": provider.key, "address": bool(os.environ.get(provider.address))}
    return found


def _store(given: str, limit: int) -> dict[str, Any]:
    from legato.cli.places import sqlite_path, store_url

    path = sqlite_path(store_url(given))
    if path is None:
        return asyncio.run(_read(given, limit))
    if not path.exists():
        folder = next(each for each in path.absolute().parents if each.exists())
        cannot = [] if os.access(folder, os.W_OK) else [f"the store {path} is not there, and {folder} cannot be written"]
        return {"at": str(path), "there": False, "sessions": 0, "read": 0, "facts": 0, "problems": cannot}
    found = asyncio.run(_read(given, limit))
    if not (os.access(path, os.W_OK) and os.access(path.absolute().parent, os.W_OK)):
        found["problems"].append(f"{path} cannot be written")
    return found


async def _read(given: str, limit: int) -> dict[str, Any]:
    """Open the store, and read sessions whole: what is damaged shows."""
    from legato.cli.places import place, shown_url, store_url
    from legato.errors import LegatoError

    problems: list[str] = []
    sessions = read = facts = 0
    name = shown_url(store_url(given))
    try:
        async with place(given) as here:
            name = here.name
            infos = await here.store.list(1_000_000)
            sessions = len(infos)
            for info in infos[:limit]:
                try:
                    facts += (await here.session(info.ledger)).state.length
                    read += 1
                except LegatoError as error:
                    problems.append(f"session {info.ledger!r} cannot be read: {error.summary}")
    except LegatoError as error:
        problems.append(f"the store {name} cannot be opened: {error.summary}")
    return {"at": name, "there": True, "sessions": sessions, "read": read, "facts": facts, "problems": problems}


def _tell(found: dict[str, Any]) -> None:
    from legato.cli.telling import tell
    from legato.inspection.plain import counted

    python, packages, store = found["python"], found["packages"], found["store"]
    tell(("legato     ", "dim"), f"{packages['legato']}, Python {python['version']} on {python['system']}")
    for name, parts in packages["extras"].items():
        there = all(parts.values())
        told = ", ".join(f"{package} {version or 'missing'}" for package, version in parts.items())
        tell((f"{name:<11}", "dim"), told if there else (f"{told} ({install_hint(name)})", "yellow"))
    there = all(packages["extras"]["emulator"].values())
    stands_in = "the emulator stands in" if there else "nobody answers, and the emulator that would stand in is not installed"
    for name, provider in found["providers"].items():
        address = ", at an address of its own" if provider["address"] else ""
        told = f"{provider['set']} is set{address}" if provider["set"] else f"{provider['variable']} is not set: {stands_in}"
        tell((f"{name:<11}", "dim"), told)
    if store["there"]:
        tell(
            ("store      ", "dim"),
            f"{store['at']}: {counted(store['sessions'], 'session')}; {store['read']} read whole, {counted(store['facts'], 'fact')}",
        )
    else:
        tell(("store      ", "dim"), f"{store['at']}: not there yet; `legato chat` makes it")
