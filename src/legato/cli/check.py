"""`legato check`. May know: the law books, workflows. Decides: what is to be checked, and how a verdict is shown.

Exit code 0: all is well; 1: a clause is broken, or something cannot work; 2: it could not be judged.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from legato.cli.emulator import switches_of
from legato.cli.naming import is_name
from legato.errors import BadInput
from legato.providers.rules.rule_set import Complaint

APIS = ("responses", "chat", "anthropic")


class ProviderState(StrEnum):
    """The assumption about stored responses, conversations, items and prompts that a request refers to."""

    unknown = "unknown"
    empty = "empty"


def check(
    what: Annotated[
        str,
        typer.Argument(
            help="module:workflow or file.py:workflow; or a JSON file with a request or a line of an emulator's log; - for standard input.",
            metavar="WHAT",
        ),
    ],
    api: Annotated[
        str,
        typer.Option(
            help="Of a request: which law book: responses, chat or anthropic. Without it, the one that fits the body. A line of a log says "
            "so itself."
        ),
    ] = "",
    switch: Annotated[
        list[str] | None,
        typer.Option(help="Of a request: turn a switch of a law book: responses.unique_call_ids=true. May be given again."),
    ] = None,
    state: Annotated[
        ProviderState | None,
        typer.Option(
            "--provider-state",
            help="Of a request: what the provider holds. unknown (the default): every id may exist, and what is stored under it is not "
            "judged; empty: nothing is stored, so no id exists.",
            show_default=False,
        ),
    ] = None,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Of a workflow: print its graph as Mermaid.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
) -> None:
    """Check a workflow, with its picture; or judge one request by the provider's rules. Nothing is sent.

    What is written as module:workflow is a workflow, unless it is a file that is there. Everything else is a request: a file, or -.

    \b
    legato check desk:desk                       who there is, who hands over to whom, what cannot work
    legato check desk:desk --mermaid             the graph for a page
    legato check request.json --api anthropic    which clauses a request breaks, and where

    A request alone does not show what the provider holds. So the ids of stored responses, conversations, items and prompts count as
    existing, and signatures and encrypted reasoning as sound; what the request itself shows is judged. If its verdict hangs on stored
    things, that is said. A model that the emulator knows is held to its own rules; any other may do everything.
    Exit code 0: all is well; 1: it is not; 2: it could not be judged.
    """
    if is_name(what):
        if api or switch or state:
            raise BadInput("--api, --switch and --provider-state are for requests", found=f"{what}, a workflow")
        _check_workflow(what, mermaid, as_json)
    elif mermaid:
        raise BadInput("--mermaid is for workflows", expected="module:workflow, or file.py:workflow", found=what)
    else:
        _check_request(Path(what), api, switch, as_json, state or ProviderState.unknown)


def _check_workflow(name: str, picture: bool, as_json: bool) -> None:
    from legato.cli.definition import build_error, check_workflow
    from legato.cli.naming import workflow_named
    from legato.cli.telling import symbol, tell, write_json
    from legato.errors import BuildError

    try:
        fine = check_workflow(workflow_named(name), picture=picture, as_json=as_json)
    except BuildError as error:
        fine, problems = False, build_error(error)
        if as_json:
            write_json({"problems": problems})
        for problem in problems if not as_json else ():
            tell((f"{symbol('failed')} ", "red"), problem)
    if not fine:
        raise typer.Exit(1)


def _check_request(request: Path, api: str, switch: list[str] | None, as_json: bool, state: ProviderState) -> None:
    body = _read(request)
    if body.get("api") in APIS and isinstance(body.get("request"), dict):
        api, body = body["api"], body["request"]
    elif not api:
        api = _likely(body) or "responses"
        if api != "responses":
            typer.echo(f"legato: judged by the rules of {api}, since it looks like a request of that API; --api chooses another", err=True)
    switches = switches_of(switch)
    complaints = judge(body, api, switches, state)
    if as_json:
        from legato.cli.telling import write_json

        write_json([_plain(complaint) for complaint in complaints])
    elif not complaints and (otherwise := judge(body, api, switches, ProviderState.empty)):
        typer.secho("legal, if the provider holds what it refers to", fg="green")
        typer.echo(f"     if not {otherwise[0].clause.id} {otherwise[0].status} {otherwise[0].message}")
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


def judge(body: dict[str, Any], api: str, switches: dict[str, str], state: ProviderState = ProviderState.unknown) -> Sequence[Complaint]:
    """Return the complaints of one law book about a request on its own.

    Only the Responses API keeps things that a request can refer to. A model that the emulator does not know is taken to do everything.
    """
    from legato.emulator.models import Catalogue
    from legato.emulator.options import Profiles
    from legato.providers.rules.anthropic import betas
    from legato.providers.rules.anthropic import laws as anthropic
    from legato.providers.rules.chat import held as chat_held
    from legato.providers.rules.chat import laws as chat
    from legato.providers.rules.responses import held as responses_held
    from legato.providers.rules.responses import laws as responses

    class Empty(responses_held.Nothing):
        """A provider that holds nothing, and knows what the emulator knows of models."""

        def model(self, name: str) -> responses_held.ModelInfo:
            return find_model(name)

    def find_model(name: str) -> responses_held.ModelInfo:
        return catalogue.openai(name) or responses_held.ModelInfo(name)

    def find_chat_model(name: str) -> chat_held.ModelInfo:
        return catalogue.chat(name) or chat_held.ModelInfo(name)

    catalogue = Catalogue()
    profiles = Profiles.of(switches)
    match api:
        case "responses":
            keeps_nothing = state == ProviderState.empty or profiles.responses.zero_data_retention
            held = Empty() if keeps_nothing else responses_held.UnknownProviderState(find_model)
            return responses.judge(body, held, profiles.responses)
        case "chat":
            return chat.judge(body, models=find_chat_model, profile=profiles.chat)
        case "anthropic":
            headers = {"anthropic-version": "2023-06-01", "anthropic-beta": betas.ALL}  # the body does not show which it was sent with
            return anthropic.judge(body, headers, profile=profiles.anthropic)
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
