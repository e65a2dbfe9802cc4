"""`legato serve`. May know: workflows by name, and the server. Decides: what is typed to serve them, and what is shown meanwhile."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from legato.cli.options import Stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from legato.server import Server
    from legato.workflow.workflow import Workflow


def serve(
    workflows: Annotated[list[str], typer.Argument(help="What to serve: module:name, or file.py:name.", metavar="MODULE:WORKFLOW...")],
    store: Stored = "",
    engine: Annotated[
        str,
        typer.Option(help="Who drives: temporal://... or restate://..., whose workers do. Default: this process.", envvar="LEGATO_ENGINE"),
    ] = "",
    host: Annotated[str, typer.Option(help="The address to listen on. Another than loopback needs --token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on; 0 for any.", min=0, max=65535)] = 8770,
    token: Annotated[
        str,
        typer.Option(
            help="What clients must send, 16 characters or more. Without it one is made up and shown once.", envvar="LEGATO_TOKEN"
        ),
    ] = "",
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another name that this server goes by, with its port. May be given again.", metavar="HOST")
    ] = None,
    allow_origin: Annotated[
        list[str] | None, typer.Option(help="A page from elsewhere that may ask: https://NAME. May be given again.", metavar="ORIGIN")
    ] = None,
    context: Annotated[
        str, typer.Option(help="A function that makes the caller's context from a session's id.", metavar="MODULE:FUNCTION")
    ] = "",
    stand_in: Annotated[
        bool, typer.Option("--stand-in/--no-stand-in", help="Let the emulator answer in place of providers whose key is not set.")
    ] = True,
    grace: Annotated[float, typer.Option(help="Seconds to finish what runs, after SIGTERM or Ctrl-C.", min=0)] = 25.0,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the console in a browser.")] = False,
) -> None:
    """Serve workflows over HTTP: an API, a console in the browser, and endpoints for OpenAI and AG-UI clients.

    What was begun goes on: a server that was killed takes up its conversations when it is started again. Ctrl-C: no more is taken, and what
    runs is finished and recorded; a second one ends at once.

    \b
    legato serve desk:desk                                       # http://127.0.0.1:8770, for this machine alone
    legato serve desk:desk billing:flow --store desk.sqlite --open
    LEGATO_TOKEN=... legato serve desk:desk --host 0.0.0.0 --allow-host desk.example:8770
    legato serve desk:desk --engine temporal://127.0.0.1:7233 --store postgresql://desk@db/desk
    """
    from legato.cli.chat import standing_in
    from legato.cli.definition import not_installed
    from legato.cli.naming import named, workflow_named

    found = [workflow_named(each) for each in workflows]
    logging.basicConfig(format="%(asctime)s %(levelname)-7s %(message)s", level=logging.WARNING)
    options = {
        "host": host,
        "port": port,
        "token": token,
        "allow_hosts": allow_host or (),
        "allow_origins": allow_origin or (),
        "context": named(context) if context else None,
        "grace": grace,
        "tracebacks": bool(os.environ.get("LEGATO_DEBUG")),
    }
    for problem in [told for each in found for told in not_installed(each)] if not engine else []:
        typer.echo(f"warning: {problem}", err=True)
    with ExitStack() as stack:
        if stand_in and not engine:
            stack.enter_context(standing_in())
        asyncio.run(_serve(found, store, engine, options, open_browser))


async def _serve(workflows: list[Workflow], store: str, engine: str, options: dict[str, Any], open_browser: bool) -> None:
    from legato.cli.places import place
    from legato.engines.address import engine_at
    from legato.server import Server
    from legato.server.running import one_store

    one = next((each for each in workflows if each.store is not None), workflows[0])
    if not store:
        one_store(workflows)
    chosen = engine_at(engine) if engine else None
    try:
        async with place(store, one, make=True) as here:
            server = Server(workflows, store=here.store, place=here.name, engine=chosen, **options)
            server.listen()
            _stopped_by_signals(server)
            typer.echo(f"console  {server.console if not options['token'] else server.url}", err=True)
            typer.echo(f"API      {server.url}/api", err=True)
            typer.echo(f"store    {here.name}", err=True)
            typer.echo("Ctrl-C stops", err=True)
            with _shown_in_a_browser(server.console) if open_browser else nullcontext():
                await server.run()
    finally:
        if chosen is not None:
            await chosen.close()


@contextmanager
def _shown_in_a_browser(address: str) -> Iterator[None]:
    """Open the console. Its address goes through a file that nobody else can read: what a command is started with, everybody here sees."""
    import tempfile
    import webbrowser
    from html import escape
    from pathlib import Path

    with tempfile.TemporaryDirectory(prefix="legato-") as folder:
        page = Path(folder) / "console.html"
        page.write_text(f'<!doctype html><title>Legato</title><meta http-equiv="refresh" content="0; url={escape(address)}">')
        asyncio.get_running_loop().run_in_executor(None, webbrowser.open, page.as_uri())  # it may wait for the browser
        yield


def _stopped_by_signals(server: Server) -> None:
    """One signal: take no more, finish what runs. A second: end now; whoever starts next goes on with what the ledgers have."""
    from legato.engines.worker import ONE_WISH

    told = 0.0

    def signalled() -> None:
        nonlocal told
        if told:
            if time.monotonic() - told > ONE_WISH:
                os._exit(130)
            return
        told = time.monotonic()
        typer.echo("\nfinishing what runs; Ctrl-C again ends at once", err=True)
        server.leave()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, signalled)
