"""`legato check`: a static check of a workflow, or of one request by the provider's rules."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from legato.cli.commands.emulator import parse_switches
from legato.cli.workflow_loader import is_workflow_name
from legato.errors import BadInput
from legato.providers.rules.rule_set import RuleViolation

APIS = ("responses", "chat", "anthropic")


class AssumedProviderState(StrEnum):
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
            help="For a request: the API whose rules apply: responses, chat or anthropic. Default: the API of the line of a log, or the "
            "one that the body looks like."
        ),
    ] = "",
    switch: Annotated[
        list[str] | None,
        typer.Option(help="For a request: set a switch of the rules: responses.unique_call_ids=true. May be repeated."),
    ] = None,
    state: Annotated[
        AssumedProviderState | None,
        typer.Option(
            "--provider-state",
            help="For a request: what the provider has stored. unknown (the default): every id may exist, and stored content is not "
            "checked; empty: nothing is stored, so no id exists.",
            show_default=False,
        ),
    ] = None,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="For a workflow: print its graph as Mermaid.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Check a workflow and draw its graph; or check one request by the provider's rules. Nothing is sent.

    An argument like module:workflow is a workflow, unless a file has this name. Any other argument is a request: a file, or -.

    \b
    legato check desk:desk                       agents, handoffs, tools, and what cannot work
    legato check desk:desk --mermaid             the graph, for a page
    legato check request.json --api anthropic    the rules that a request breaks, and where

    A request does not show what the provider has stored. So the ids of stored responses, conversations, items and prompts count as
    existing, and signatures and encrypted reasoning as valid; only the request itself is checked. If the result depends on stored
    content, the output says so. A model that the emulator knows has its own rules; any other model may do everything.
    Exit codes: 0: no problem; 1: a rule is broken, or something cannot work; 2: the check was not possible.
    """
    if is_workflow_name(what):
        if api or switch or state:
            raise BadInput("--api, --switch and --provider-state are for requests", found=f"{what}, a workflow")
        _check_workflow(what, mermaid, as_json)
    elif mermaid:
        raise BadInput("--mermaid is for workflows", expected="module:workflow, or file.py:workflow", found=what)
    else:
        _check_request(Path(what), api, switch, as_json, state or AssumedProviderState.unknown)


def _check_workflow(name: str, mermaid: bool, as_json: bool) -> None:
    from legato.cli.terminal import get_symbol, print_line, write_json
    from legato.cli.workflow_check import check_workflow, list_build_problems
    from legato.cli.workflow_loader import load_workflow
    from legato.errors import BuildError

    try:
        is_valid = check_workflow(load_workflow(name), mermaid=mermaid, as_json=as_json)
    except BuildError as error:
        is_valid, problems = False, list_build_problems(error)
        if as_json:
            write_json({"problems": problems})
        for problem in problems if not as_json else ():
            print_line((f"{get_symbol('failed')} ", "red"), problem)
    if not is_valid:
        raise typer.Exit(1)


def _check_request(request: Path, api: str, switch: list[str] | None, as_json: bool, state: AssumedProviderState) -> None:
    body = _read_request(request)
    if body.get("api") in APIS and isinstance(body.get("request"), dict):
        api, body = body["api"], body["request"]
    elif not api:
        api = _guess_api(body) or "responses"
        if api != "responses":
            typer.echo(f"legato: checked by the rules of {api}: it looks like a request of that API; --api chooses another", err=True)
    switches = parse_switches(switch)
    violations = find_violations(body, api, switches, state)
    if as_json:
        from legato.cli.terminal import write_json

        write_json([_violation_to_json(violation) for violation in violations])
    elif not violations and (if_empty := find_violations(body, api, switches, AssumedProviderState.empty)):
        typer.secho("legal, if the provider has stored what it refers to", fg="green")
        typer.echo(f"     if not {if_empty[0].rule.id} {if_empty[0].status} {if_empty[0].message}")
    elif not violations:
        typer.secho("legal", fg="green")
    else:
        for violation in violations:
            typer.secho(f"{violation.rule.id} ", fg="red", bold=True, nl=False)
            typer.echo(f"{violation.status} {violation.message}")
            typer.echo(f"     at     {violation.path or 'the request'}")
            typer.echo(f"     rule   {violation.rule.statement} (grade {violation.rule.grade}, seen {violation.rule.as_of})")
        if (likely_api := _guess_api(body)) not in ("", api):
            typer.echo(f"this looks like a request of another API: try --api {likely_api}", err=True)
    if violations:
        raise typer.Exit(1)


def find_violations(
    body: dict[str, Any], api: str, switches: dict[str, str], state: AssumedProviderState = AssumedProviderState.unknown
) -> Sequence[RuleViolation]:
    """Return the violations of one API's rules in a request on its own.

    Only the Responses API stores what a request can refer to. A model that the emulator does not know is assumed to do everything.
    """
    from legato.emulator.model_catalogue import ModelCatalogue
    from legato.emulator.options import RuleSwitches
    from legato.providers.rules.anthropic import betas
    from legato.providers.rules.anthropic import rules as anthropic
    from legato.providers.rules.chat import model_info as chat_models
    from legato.providers.rules.chat import rules as chat
    from legato.providers.rules.responses import provider_state as responses_state
    from legato.providers.rules.responses import rules as responses

    class Empty(responses_state.EmptyResponsesState):
        """A provider that has stored nothing, with the emulator's models."""

        def find_model(self, name: str) -> responses_state.ResponsesModelInfo:
            return find_model(name)

    def find_model(name: str) -> responses_state.ResponsesModelInfo:
        return catalogue.find_responses_info(name) or responses_state.ResponsesModelInfo(name)

    def find_chat_model(name: str) -> chat_models.ChatModelInfo:
        return catalogue.find_chat_info(name) or chat_models.ChatModelInfo(name)

    catalogue = ModelCatalogue()
    profiles = RuleSwitches.from_switches(switches)
    match api:
        case "responses":
            is_empty = state == AssumedProviderState.empty or profiles.responses.zero_data_retention
            provider_state = Empty() if is_empty else responses_state.UnknownResponsesState(find_model)
            return responses.check_request(body, provider_state, profiles.responses)
        case "chat":
            return chat.check_request(body, find_model=find_chat_model, switches=profiles.chat)
        case "anthropic":
            headers = {
                "anthropic-version": "2023-06-01",
                "anthropic-beta": betas.ALL_BETAS,
            }  # the body does not show which it was sent with
            return anthropic.check_request(body, headers, switches=profiles.anthropic)
    raise BadInput(f"there are no rules for the API {api!r}", expected="responses, chat or anthropic")


def _guess_api(body: dict[str, Any]) -> str:
    """Return the API that a request looks like; empty if there is no sign."""
    if "messages" not in body:
        return "responses" if "input" in body else ""
    is_anthropic = str(body.get("model", "")).startswith("claude") or "system" in body or "stop_sequences" in body
    return "anthropic" if is_anthropic else "chat"


def _read_request(path: Path) -> dict[str, Any]:
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read", found=str(error)) from None
    try:
        body = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))  # some editors begin a file with this mark
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise BadInput(f"{path} is not JSON", found=str(error)) from None
    if not isinstance(body, dict):
        raise BadInput(f"{path} is not a request", expected="a JSON object, the body as it would be sent", found=type(body).__name__)
    return body


def _violation_to_json(violation: RuleViolation) -> dict[str, Any]:
    return {
        "clause": violation.rule.id,
        "rule": violation.rule.statement,
        "grade": violation.rule.grade,
        "status": violation.status,
        "message": violation.message,
        "param": violation.param,
        "code": violation.code,
        "path": violation.path,
    }
