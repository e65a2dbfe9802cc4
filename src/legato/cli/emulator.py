"""`legato emulator`. May know: the emulator. Decides: what is shown while it runs."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from legato.errors import BadInput


def emulator(
    port: Annotated[int, typer.Option(help="The port to listen on; 0 for any.", min=0, max=65535)] = 8765,
    host: Annotated[str, typer.Option(help="The address to listen on. Another than loopback needs --key.")] = "127.0.0.1",
    mind: Annotated[
        str, typer.Option(help="What the model says: a script (FILE.yaml), a recorded log (FILE.jsonl), or desk: a support desk.")
    ] = "desk",
    seed: Annotated[int, typer.Option(help="Everything that looks random follows from it.")] = 0,
    fault: Annotated[
        list[str] | None, typer.Option(help="A fault: 'rate_limit@3', 'cut event=5~10%'. May be given again. See --faults.")
    ] = None,
    state: Annotated[Path | None, typer.Option(help="Keep what is stored in this file, so that it survives a restart.")] = None,
    log: Annotated[Path | None, typer.Option(help="Append every exchange to this file, one JSON object per line.")] = None,
    switch: Annotated[
        list[str] | None, typer.Option(help="Turn a switch of a law book: responses.zero_data_retention=true. May be given again.")
    ] = None,
    key: Annotated[list[str] | None, typer.Option(help="Accept this key and no other. May be given again.")] = None,
    latency: Annotated[float, typer.Option(help="Seconds before every answer.", min=0)] = 0.0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not show the exchanges.")] = False,
    faults: Annotated[bool, typer.Option("--faults", help="Show the faults there are, and exit.")] = False,
) -> None:
    """A strict provider on this machine: OpenAI's Responses and Chat, Anthropic's Messages, and the Azure paths.

    Point any client's base_url at it. What the provider would refuse is refused, with the same words.
    """
    from legato.emulator import serve
    from legato.emulator.exchanges import Exchange
    from legato.emulator.faults import KINDS

    if faults:
        for name, kind in KINDS.items():
            typer.echo(f"  {name:<20} {kind.tells}" + (f"  [{kind.written}]" if kind.options else ""))
        return
    if mind != "desk" and Path(mind).suffix.lower() not in (".yaml", ".yml", ".jsonl"):
        do = "a function or a list of replies is for serve(mind=...)"
        raise BadInput("this is no mind for the emulator", expected="desk, or a file: .yaml, .yml or .jsonl", found=repr(mind), do=do)
    server = serve(
        port=port,
        host=host,
        mind=mind,
        seed=seed,
        faults=fault or [],
        state=state,
        log=log,
        switches=switches_of(switch),
        keys=key or [],
        latency=latency,
    )

    def show(exchange: Exchange) -> None:
        typer.echo(f"{exchange.number:>5}  {exchange.api:<10} ", nl=False)
        typer.secho(f"{exchange.status}", fg="green" if exchange.status < 400 else "red", nl=False)
        typer.echo(f"  {exchange.told}"[:160])

    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    with server:
        typer.echo(f"OpenAI      base_url={server.openai_url}")
        typer.echo(f"Anthropic   base_url={server.url}")
        typer.echo(f"Azure       azure_endpoint={server.url}")
        typer.echo(f"live page   {server.page}")
        typer.echo("any key is accepted; Ctrl-C stops" if not key else "Ctrl-C stops")
        if not quiet:
            server.log.listen(show)
        while not stopped.wait(0.5):
            pass
    typer.echo("\n" + server.summary())


def switches_of(texts: list[str] | None) -> dict[str, str]:
    """Switches as they are typed: `responses.tools_limit=64`."""
    switches: dict[str, str] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise BadInput(f"the switch {text!r} has no value", do=f"write it as {text}=true")
        switches[name.strip()] = value.strip()
    return switches
