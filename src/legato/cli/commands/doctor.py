"""`legato doctor`: versions, extras, the names of the API keys that are set, and a check of the store. It never shows a key."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer

from legato.cli.options import JsonOption, StoreOption
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
REQUIRED_PACKAGES = ("msgspec", "pydantic")


def doctor(
    store: StoreOption = "",
    limit: Annotated[int, typer.Option(help="The number of sessions to read completely, the newest first.", min=0)] = 100,
    as_json: JsonOption = False,
) -> None:
    """Check this installation: versions, extras, which API keys are set (never their values), and whether the store can be read.

    Exit codes: 0: no problem; 1: a problem was found.
    """
    from legato.cli.terminal import get_symbol, print_line, write_json

    findings = {
        "python": _check_python(),
        "packages": _check_packages(),
        "providers": _check_providers(),
        "store": _check_store(store, limit),
    }
    problems = [*findings["python"]["problems"], *findings["packages"]["problems"], *findings["store"]["problems"]]
    if as_json:
        write_json({**findings, "problems": problems})
    else:
        _print_findings(findings)
        for problem in problems:
            print_line((f"{get_symbol('failed')} ", "red"), problem)
        if not problems:
            print_line((f"{get_symbol('done')} ", "green"), "no problem found")
    if problems:
        raise typer.Exit(1)


def _check_python() -> dict[str, Any]:
    is_too_old = sys.version_info < (3, 11)
    return {
        "version": platform.python_version(),
        "at": sys.executable,
        "system": platform.platform(),
        "problems": ["Legato needs Python 3.11 or newer"] if is_too_old else [],
    }


def _check_packages() -> dict[str, Any]:
    extras = {name: {package: _find_version(package) for package in packages} for name, packages in EXTRAS.items()}
    needed = {package: _find_version(package) for package in REQUIRED_PACKAGES}
    missing = [package for package, found in needed.items() if not found]
    return {
        "legato": version("legato"),
        "needed": needed,
        "extras": extras,
        "problems": [f"{package} is missing: install Legato again" for package in missing],
    }


def _find_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _check_providers() -> dict[str, Any]:
    """Return the providers that a program would reach from here: the names of environment variables, and no values."""
    from legato.emulator.fallback_emulator import PROVIDERS

    providers = {}
    for provider in PROVIDERS:
        key = provider.find_credential(os.environ)
        providers[provider.name] = {"set": key, "variable": provider.key_variable, "address": bool(os.environ.get(provider.url_variable))}
    return providers


def _check_store(store_option: str, limit: int) -> dict[str, Any]:
    from legato.cli.store_locator import parse_sqlite_path, resolve_store_url

    path = parse_sqlite_path(resolve_store_url(store_option))
    if path is None:
        return asyncio.run(_read_sessions(store_option, limit))
    if not path.exists():
        folder = next(each for each in path.absolute().parents if each.exists())
        problems = [] if os.access(folder, os.W_OK) else [f"the store {path} does not exist, and {folder} cannot be written"]
        return {"at": str(path), "there": False, "sessions": 0, "read": 0, "facts": 0, "problems": problems}
    findings = asyncio.run(_read_sessions(store_option, limit))
    if not (os.access(path, os.W_OK) and os.access(path.absolute().parent, os.W_OK)):
        findings["problems"].append(f"{path} cannot be written")
    return findings


async def _read_sessions(store_option: str, limit: int) -> dict[str, Any]:
    """Open the store and read sessions completely, to find damaged ones."""
    from legato.cli.store_locator import hide_password, open_located_store, resolve_store_url
    from legato.errors import LegatoError

    problems: list[str] = []
    sessions = read = facts = 0
    name = hide_password(resolve_store_url(store_option))
    try:
        async with open_located_store(store_option) as opened:
            name = opened.name
            infos = await opened.store.list(1_000_000)
            sessions = len(infos)
            for info in infos[:limit]:
                try:
                    facts += (await opened.find_session(info.ledger)).state.length
                    read += 1
                except LegatoError as error:
                    problems.append(f"session {info.ledger!r} cannot be read: {error.summary}")
    except LegatoError as error:
        problems.append(f"the store {name} cannot be opened: {error.summary}")
    return {"at": name, "there": True, "sessions": sessions, "read": read, "facts": facts, "problems": problems}


def _print_findings(findings: dict[str, Any]) -> None:
    from legato.cli.terminal import print_line
    from legato.inspection.terminal_safe_text import format_count

    python, packages, store = findings["python"], findings["packages"], findings["store"]
    print_line(("legato     ", "dim"), f"{packages['legato']}, Python {python['version']} on {python['system']}")
    for name, parts in packages["extras"].items():
        is_complete = all(parts.values())
        versions = ", ".join(f"{package} {version or 'missing'}" for package, version in parts.items())
        print_line((f"{name:<11}", "dim"), versions if is_complete else (f"{versions} ({install_hint(name)})", "yellow"))
    has_emulator = all(packages["extras"]["emulator"].values())
    stand_in = "the emulator stands in" if has_emulator else "the emulator, which could stand in, is not installed"
    for name, provider in findings["providers"].items():
        address = ", at an address of its own" if provider["address"] else ""
        status = f"{provider['set']} is set{address}" if provider["set"] else f"{provider['variable']} is not set: {stand_in}"
        print_line((f"{name:<11}", "dim"), status)
    if store["there"]:
        sessions, facts = format_count(store["sessions"], "session"), format_count(store["facts"], "fact")
        print_line(("store      ", "dim"), f"{store['at']}: {sessions}; {store['read']} read completely, {facts}")
    else:
        print_line(("store      ", "dim"), f"{store['at']}: does not exist yet; `legato chat` creates it")
