"""`legato seen`: what an agent saw when it replied, and why."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from legato.cli.options import JsonOption, SessionArgument, StoreOption, TenantOption, WorkflowOption


def show_model_input(
    session: SessionArgument,
    call: Annotated[int, typer.Argument(help="The number of the reply, from 0, or from the end. Default: the last.", metavar="N")] = -1,
    body: Annotated[bool, typer.Option("--body", help="Print the request as it was sent to the provider.")] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="Print the differences from the previous request, and from the last one of another agent.")
    ] = False,
    store: StoreOption = "",
    workflow: WorkflowOption = "",
    tenant: TenantOption = "",
    as_json: JsonOption = False,
) -> None:
    """Show what an agent saw when it replied: which parts of the conversation its request had, and by which rule, from the ledger alone.

    \b
    legato seen customer-7                  what the agent of the last reply saw, and what it did not
    legato seen customer-7 0 --body         the first request to the provider
    legato seen customer-7 3 --diff         the differences from earlier requests; with --body, line by line
    legato seen customer-7 -- -2            the last reply but one
    """
    asyncio.run(_show_model_input(session, call, body, diff, store, workflow, tenant, as_json))


async def _show_model_input(id: str, call: int, body: bool, diff: bool, store: str, workflow: str, tenant: str, as_json: bool) -> None:
    from legato.cli.model_input_printer import print_changes, print_model_input
    from legato.cli.store_locator import open_by_options
    from legato.cli.terminal import write_json
    from legato.inspection.model_input_explanation import explain_model_input

    async with open_by_options(store, workflow, tenant) as opened:
        session = await opened.find_session(id)
        explanation = await explain_model_input(session, call)
    if as_json:
        write_json(explanation)
    elif diff:
        print_changes(explanation, session.workflow.agents, body)
    elif body:
        typer.echo(_indent_json(explanation.body))
    else:
        print_model_input(explanation, session.workflow.agents)


def _indent_json(body: str) -> str:
    from legato.inspection.terminal_safe_text import escape_json

    return escape_json(body, indent=2)
