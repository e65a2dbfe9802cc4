"""`legato mcp`: a workflow as an MCP server, over standard input and output or HTTP."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from legato.cli.store_locator import open_located_store
from legato.cli.workflow_loader import load_workflow

if TYPE_CHECKING:
    from legato.mcp.workflow_server import WorkflowServer


def mcp(
    target: Annotated[str, typer.Argument(help="The workflow: module:name, as Python imports it from the current folder.")],
    store: Annotated[
        str,
        typer.Option(help="The store of the sessions: a SQLite file or postgres://... Default: the workflow's own.", envvar="LEGATO_STORE"),
    ] = "",
    http: Annotated[bool, typer.Option("--http", help="Serve over streamable HTTP in place of standard input and output.")] = False,
    host: Annotated[str, typer.Option(help="With --http: the address to listen on. Any but loopback needs --token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="With --http: the port to listen on.", min=1, max=65535)] = 8766,
    token: Annotated[
        str,
        typer.Option(help="With --http: the token of clients, 16 characters or more. Default: a random one.", envvar="LEGATO_MCP_TOKEN"),
    ] = "",
    origin: Annotated[
        list[str] | None, typer.Option(help="With --http: the origin of a web page that may call the server. May be repeated.")
    ] = None,
    answers: Annotated[
        bool, typer.Option(help="Offer a tool that answers requests, in addition to asking users through the client.")
    ] = True,
    stand_in: Annotated[
        bool, typer.Option("--stand-in/--no-stand-in", help="Use the emulator for providers whose API key is not set.")
    ] = True,
) -> None:
    """Offer a workflow to MCP clients: a tool to send messages, one to list pending requests, one to answer them.

    \b
    legato mcp shop:desk                        # for a client that starts it and talks over standard input and output
    legato mcp shop:desk --http --port 8766     # http://127.0.0.1:8766/mcp, with a token
    """
    from legato.cli.missing_providers import emulate_missing_providers
    from legato.mcp.workflow_server import WorkflowServer

    loaded = load_workflow(target)

    async def serve() -> None:
        async with open_located_store(store, loaded, create=True) as opened:
            workflow_server = WorkflowServer(loaded, opened.store, answers=answers)
            if http:
                await _serve_http(workflow_server, host, port, token, origin or [])
            else:
                from legato.mcp.transports import serve_stdio

                await serve_stdio(workflow_server)

    with ExitStack() as stack:
        if stand_in:
            stack.enter_context(emulate_missing_providers())  # it prints to standard error: standard output belongs to the protocol
        asyncio.run(serve())


async def _serve_http(workflow_server: WorkflowServer, host: str, port: int, token: str, origins: list[str]) -> None:
    from legato.asgi.exposure import bracket_ipv6_host, check_exposure
    from legato.asgi.uvicorn_server import open_listening_socket
    from legato.mcp.transports import MCP_PATH, make_http_server

    check_exposure(host, token, "--token", "LEGATO_MCP_TOKEN")
    http_server = make_http_server(workflow_server, token or (random_token := secrets.token_urlsafe(24)), host, port, origins)
    listening_socket = open_listening_socket(host, port, "the MCP server")
    typer.echo(f"MCP      http://{bracket_ipv6_host(host)}:{port}{MCP_PATH}", err=True)
    if not token:
        typer.echo(f"token    {random_token}", err=True)
    typer.echo("send it as Authorization: Bearer TOKEN; Ctrl-C stops", err=True)
    await http_server.serve(sockets=[listening_socket])
