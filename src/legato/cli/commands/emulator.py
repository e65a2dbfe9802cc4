"""`legato emulator`: a strict provider on this machine."""

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
    host: Annotated[str, typer.Option(help="The address to listen on. Any but loopback needs --key.")] = "127.0.0.1",
    fake_model: Annotated[
        str, typer.Option(help="The replies of the model: a script (FILE.yaml), a recorded log (FILE.jsonl), or desk: a support desk.")
    ] = "desk",
    seed: Annotated[int, typer.Option(help="The seed of everything that looks random.")] = 0,
    fault: Annotated[
        list[str] | None, typer.Option(help="A fault: 'rate_limit@3', 'cut event=5~10%'. May be repeated. See --faults.")
    ] = None,
    state: Annotated[Path | None, typer.Option(help="Keep the provider's storage in this file, so that it survives a restart.")] = None,
    log: Annotated[Path | None, typer.Option(help="Append every exchange to this file, one JSON object per line.")] = None,
    switch: Annotated[
        list[str] | None, typer.Option(help="Set a switch of the provider rules: responses.zero_data_retention=true. May be repeated.")
    ] = None,
    key: Annotated[list[str] | None, typer.Option(help="Accept this key and no other. May be repeated.")] = None,
    latency: Annotated[float, typer.Option(help="Seconds before every answer.", min=0)] = 0.0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not show the exchanges.")] = False,
    faults: Annotated[bool, typer.Option("--faults", help="Show all faults, and exit.")] = False,
) -> None:
    """Run a strict provider on this machine: OpenAI's Responses and Chat, Anthropic's Messages, and the Azure paths.

    Point any client's base_url at it. It refuses what the provider would refuse, with the same error message.
    """
    from legato.emulator import serve
    from legato.emulator.exchanges import Exchange
    from legato.emulator.faults import FAULT_KINDS

    if faults:
        for name, kind in FAULT_KINDS.items():
            typer.echo(f"  {name:<20} {kind.description}" + (f"  [{kind.option_syntax}]" if kind.options else ""))
        return
    if fake_model != "desk" and Path(fake_model).suffix.lower() not in (".yaml", ".yml", ".jsonl"):
        do = "a function or a list of replies is for serve(fake_model=...)"
        raise BadInput(
            "--fake-model does not name a fake model", expected="desk, or a file: .yaml, .yml or .jsonl", found=repr(fake_model), do=do
        )
    server = serve(
        port=port,
        host=host,
        fake_model=fake_model,
        seed=seed,
        faults=fault or [],
        state=state,
        log=log,
        switches=parse_switches(switch),
        keys=key or [],
        latency=latency,
    )

    def print_exchange(exchange: Exchange) -> None:
        typer.echo(f"{exchange.number:>5}  {exchange.api:<10} ", nl=False)
        typer.secho(f"{exchange.status}", fg="green" if exchange.status < 400 else "red", nl=False)
        typer.echo(f"  {exchange.summary_line}"[:160])

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
            server.log.listen(print_exchange)
        while not stopped.wait(0.5):
            pass
    typer.echo("\n" + server.summary())


def parse_switches(texts: list[str] | None) -> dict[str, str]:
    """Parse switches from the command line, such as `responses.tools_limit=64`."""
    switches: dict[str, str] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise BadInput(f"the switch {text!r} has no value", do=f"write it as {text}=true")
        switches[name.strip()] = value.strip()
    return switches
