"""`legato mcp`. May know: workflows by name, and how they are offered. Decides: what is offered to whom, and what is shown."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import ExitStack
from typing import Annotated

import typer

from legato.cli.naming import workflow_named
from legato.cli.places import place


def mcp(
    target: Annotated[str, typer.Argument(help="The workflow: module:name, as Python imports it from the current folder.")],
    store: Annotated[
        str, typer.Option(help="Where sessions live: a SQLite file or postgres://... Default: the workflow's own.", envvar="LEGATO_STORE")
    ] = "",
    http: Annotated[bool, typer.Option("--http", help="Serve over streamable HTTP in place of standard input and output.")] = False,
    host: Annotated[str, typer.Option(help="With --http: the address to listen on. Another than loopback needs --token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="With --http: the port to listen on.", min=1, max=65535)] = 8766,
    token: Annotated[
        str,
        typer.Option(
            help="With --http: what clients must send, 16 characters or more. Without it one is made up.", envvar="LEGATO_MCP_TOKEN"
        ),
    ] = "",
    origin: Annotated[list[str] | None, typer.Option(help="With --http: a web page's origin that may call it. May be given again.")] = None,
    answers: Annotated[bool, typer.Option(help="Offer the tool that answers requests, and not only ask people through the client.")] = True,
    stand_in: Annotated[
        bool, typer.Option("--stand-in/--no-stand-in", help="Let the emulator answer in place of providers whose key is not set.")
    ] = True,
) -> None:
    """Offer a workflow to MCP clients: a tool to talk to it, one to see what waits for people, one to answer.

    \b
    legato mcp shop:desk                        # for a client that starts it and talks over standard input and output
    legato mcp shop:desk --http --port 8766     # http://127.0.0.1:8766/mcp, with a token
    """
    from legato.cli.chat import standing_in
    from legato.mcp.offering import Offered

    offered_workflow = workflow_named(target)

    async def serve() -> None:
        async with place(store, offered_workflow, make=True) as at:
            offered = Offered(offered_workflow, at.store, answers=answers)
            if http:
                await _over_http(offered, host, port, token, origin or [])
            else:
                from legato.mcp.serving import serve_stdio

                await serve_stdio(offered)

    with ExitStack() as stack:
        if stand_in:
            stack.enter_context(standing_in())  # what it says goes to standard error: standard output is the protocol's
        asyncio.run(serve())


async def _over_http(offered: object, host: str, port: int, token: str, origins: list[str]) -> None:
    from legato.asgi.hosts import bracketed, check_reach
    from legato.asgi.running import bound
    from legato.mcp.offering import Offered
    from legato.mcp.serving import PATH, server

    assert isinstance(offered, Offered)
    check_reach(host, token, "--token", "LEGATO_MCP_TOKEN")
    running = server(offered, token or (made := secrets.token_urlsafe(24)), host, port, origins)
    listening = bound(host, port, "the MCP server")
    typer.echo(f"MCP      http://{bracketed(host)}:{port}{PATH}", err=True)
    if not token:
        typer.echo(f"token    {made}", err=True)
    typer.echo("send it as Authorization: Bearer TOKEN; Ctrl-C stops", err=True)
    await running.serve(sockets=[listening])
