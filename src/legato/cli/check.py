"""`legato check`. May know: the law books. Decides: how a verdict is shown.

Exit code 0: legal; 1: a clause is broken; 2: the request could not be judged.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from legato.cli.emulator import switches_of
from legato.errors import BadInput
from legato.wire.law import Complaint

APIS = ("responses", "chat", "anthropic")


def check(
    request: Annotated[
        Path, typer.Argument(help="A JSON file with the body of one request, or with one line of an emulator's log; - for standard input.")
    ],
    api: Annotated[str, typer.Option(help="Which law book: responses, chat or anthropic. A line of a log says so itself.")] = "responses",
    switch: Annotated[
        list[str] | None, typer.Option(help="Turn a switch of a law book: responses.unique_call_ids=true. May be given again.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
) -> None:
    """Judge one request by the provider's rules, without sending it: which clauses it breaks, and where.

    What the provider holds (stored responses, conversations, thinking blocks) is unknown here: ids of stored things count as not
    found, signatures and encrypted reasoning as sound.
    """
    body = _read(request)
    if body.get("api") in APIS and isinstance(body.get("request"), dict):
        api, body = body["api"], body["request"]
    complaints = judge(body, api, switches_of(switch))
    if as_json:
        typer.echo(msgspec.json.encode([_plain(complaint) for complaint in complaints]).decode())
    elif not complaints:
        typer.secho("legal", fg="green")
    else:
        for complaint in complaints:
            typer.secho(f"{complaint.clause.id} ", fg="red", bold=True, nl=False)
            typer.echo(f"{complaint.status} {complaint.message}")
            typer.echo(f"     at     {complaint.path or 'the request'}")
            typer.echo(f"     rule   {complaint.clause.rule} (grade {complaint.clause.grade}, seen {complaint.clause.seen})")
        if (likely := _likely(body)) not in ("", api):
            typer.echo(f"this looks like a request of another API: try --api {likely}", err=True)
    if complaints:
        raise typer.Exit(1)


def judge(body: dict[str, Any], api: str, switches: dict[str, str]) -> Sequence[Complaint]:
    """The complaints of one law book about a request on its own."""
    from legato.emulator.options import Profiles
    from legato.wire.anthropic import laws as anthropic
    from legato.wire.chat import laws as chat
    from legato.wire.responses import laws as responses

    profiles = Profiles.of(switches)
    match api:
        case "responses":
            return responses.judge(body, profile=profiles.responses)
        case "chat":
            return chat.judge(body, profile=profiles.chat)
        case "anthropic":
            return anthropic.judge(body, {"anthropic-version": "2023-06-01"}, profile=profiles.anthropic)
    raise BadInput(f"there is no law book {api!r}", expected="responses, chat or anthropic")


def _likely(body: dict[str, Any]) -> str:
    """Whose request it looks like; empty if nothing tells."""
    if "messages" not in body:
        return "responses" if "input" in body else ""
    theirs = str(body.get("model", "")).startswith("claude") or "system" in body or "stop_sequences" in body
    return "anthropic" if theirs else "chat"


def _read(path: Path) -> dict[str, Any]:
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read", found=str(error)) from None
    try:
        body = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))  # some editors begin a file with this mark
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise BadInput(f"{path} is no JSON", found=str(error)) from None
    if not isinstance(body, dict):
        raise BadInput(f"{path} is no request", expected="a JSON object, the body as it would be sent", found=type(body).__name__)
    return body


def _plain(complaint: Complaint) -> dict[str, Any]:
    return {
        "clause": complaint.clause.id,
        "rule": complaint.clause.rule,
        "grade": complaint.clause.grade,
        "status": complaint.status,
        "message": complaint.message,
        "param": complaint.param,
        "code": complaint.code,
        "path": complaint.path,
    }
