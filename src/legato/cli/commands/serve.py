"""`legato serve`: workflows over HTTP."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from legato.cli.options import StoreOption

if TYPE_CHECKING:
    from collections.abc import Iterator

    from legato.server import Server
    from legato.workflow.workflow import Workflow


def serve(
    workflows: Annotated[
        list[str], typer.Argument(help="The workflows to serve: module:name, or file.py:name.", metavar="MODULE:WORKFLOW...")
    ],
    store: StoreOption = "",
    engine: Annotated[
        str,
        typer.Option(
            help="An engine whose workers drive the sessions: temporal://... or restate://... Default: this process drives.",
            envvar="LEGATO_ENGINE",
        ),
    ] = "",
    host: Annotated[str, typer.Option(help="The address to listen on. Any but loopback needs --token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on; 0 for any.", min=0, max=65535)] = 8770,
    token: Annotated[
        str,
        typer.Option(help="The token of clients, 16 characters or more. Default: a random one, printed once.", envvar="LEGATO_TOKEN"),
    ] = "",
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another host name of this server, with its port. May be repeated.", metavar="HOST")
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(help="The origin of a web page that may call the server: https://NAME. May be repeated.", metavar="ORIGIN"),
    ] = None,
    context: Annotated[
        str, typer.Option(help="A function that returns the context of a session, given its id.", metavar="MODULE:FUNCTION")
    ] = "",
    stand_in: Annotated[
        bool, typer.Option("--stand-in/--no-stand-in", help="Use the emulator for providers whose API key is not set.")
    ] = True,
    grace: Annotated[float, typer.Option(help="Seconds to finish running work, after SIGTERM or Ctrl-C.", min=0)] = 25.0,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the console in a browser.")] = False,
) -> None:
    """Serve workflows over HTTP: an API, a console in the browser, and endpoints for OpenAI and AG-UI clients.

    A server that was killed continues its conversations when it is started again. After Ctrl-C, it takes no new work, and finishes and
    records what runs; a second Ctrl-C ends it at once.

    \b
    legato serve desk:desk                                       # http://127.0.0.1:8770, for this machine alone
    legato serve desk:desk billing:flow --store desk.sqlite --open
    LEGATO_TOKEN=... legato serve desk:desk --host 0.0.0.0 --allow-host desk.example:8770
    legato serve desk:desk --engine temporal://127.0.0.1:7233 --store postgresql://desk@db/desk
    """
    from legato.cli.missing_providers import emulate_missing_providers
    from legato.cli.workflow_check import find_missing_packages
    from legato.cli.workflow_loader import load_object, load_workflow

    loaded = [load_workflow(each) for each in workflows]
    logging.basicConfig(format="%(asctime)s %(levelname)-7s %(message)s", level=logging.WARNING)
    options = {
        "host": host,
        "port": port,
        "token": token,
        "allow_hosts": allow_host or (),
        "allow_origins": allow_origin or (),
        "context": load_object(context) if context else None,
        "grace": grace,
        "log_tracebacks": bool(os.environ.get("LEGATO_DEBUG")),
    }
    for problem in [problem for each in loaded for problem in find_missing_packages(each)] if not engine else []:
        typer.echo(f"warning: {problem}", err=True)
    with ExitStack() as stack:
        if stand_in and not engine:
            stack.enter_context(emulate_missing_providers())
        asyncio.run(_serve(loaded, store, engine, options, open_browser))


async def _serve(workflows: list[Workflow], store: str, engine: str, options: dict[str, Any], open_browser: bool) -> None:
    from legato.cli.store_locator import open_located_store
    from legato.engines.engine_urls import open_engine
    from legato.server import Server
    from legato.server.server_runner import find_common_store

    workflow_of_store = next((each for each in workflows if each.store is not None), workflows[0])
    if not store:
        find_common_store(workflows)
    engine_client = open_engine(engine) if engine else None
    try:
        async with open_located_store(store, workflow_of_store, create=True) as opened:
            server = Server(workflows, store=opened.store, store_name=opened.name, engine=engine_client, **options)
            server.listen()
            _stop_on_signals(server)
            typer.echo(f"console  {server.console_url if not options['token'] else server.url}", err=True)
            typer.echo(f"API      {server.url}/api", err=True)
            typer.echo(f"store    {opened.name}", err=True)
            typer.echo("Ctrl-C stops", err=True)
            with _open_in_browser(server.console_url) if open_browser else nullcontext():
                await server.run()
    finally:
        if engine_client is not None:
            await engine_client.close()


@contextmanager
def _open_in_browser(address: str) -> Iterator[None]:
    """Open the console in a browser, through a private file: all users of this machine can see the arguments of a process."""
    import tempfile
    import webbrowser
    from html import escape
    from pathlib import Path

    with tempfile.TemporaryDirectory(prefix="legato-") as folder:
        page = Path(folder) / "console.html"
        page.write_text(f'<!doctype html><title>Legato</title><meta http-equiv="refresh" content="0; url={escape(address)}">')
        asyncio.get_running_loop().run_in_executor(None, webbrowser.open, page.as_uri())  # it may wait for the browser
        yield


def _stop_on_signals(server: Server) -> None:
    """Stop taking work at the first SIGTERM or Ctrl-C, and exit at the second: the next process continues from the ledgers."""
    from legato.engines.worker import REPEATED_SIGNAL_S

    signalled_at = 0.0

    def on_signal() -> None:
        nonlocal signalled_at
        if signalled_at:
            if time.monotonic() - signalled_at > REPEATED_SIGNAL_S:
                os._exit(130)
            return
        signalled_at = time.monotonic()
        typer.echo("\nfinishing what runs; Ctrl-C again ends at once", err=True)
        server.request_stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)
