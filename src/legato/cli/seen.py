"""`legato seen`. May know: what is shown of model calls. Decides: how that reads at a terminal."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from legato.cli.options import Json, Named, SessionId, Stored, Tenant

if TYPE_CHECKING:
    from legato.cli.telling import Colours
    from legato.core.explanation import Mark
    from legato.inspection.seen import Diff, Item, Seen


def seen(
    session: SessionId,
    call: Annotated[int, typer.Argument(help="Which reply: from 0, or from the end. The last, by default.", metavar="N")] = -1,
    body: Annotated[bool, typer.Option("--body", help="The request as the provider was sent it.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="What was different from the call before, and from another agent's.")] = False,
    store: Stored = "",
    workflow: Named = "",
    tenant: Tenant = "",
    as_json: Json = False,
) -> None:
    """Show what an agent saw when it replied, and why: what of the conversation was in its request, by which rule, from the ledger alone.

    \b
    legato seen customer-7                  what the last reply's agent saw, and what it did not
    legato seen customer-7 0 --body         what the provider was sent first
    legato seen customer-7 3 --diff         what was different from the calls before it; with --body, line by line
    legato seen customer-7 -- -2            the last but one
    """
    asyncio.run(_seen(session, call, body, diff, store, workflow, tenant, as_json))


async def _seen(id: str, call: int, body: bool, diff: bool, store: str, workflow: str, tenant: str, as_json: bool) -> None:
    from legato.cli.places import looked_into
    from legato.cli.telling import write_json
    from legato.inspection.seen import seen

    async with looked_into(store, workflow, tenant) as here:
        session = await here.session(id)
        told = await seen(session, call)
    if as_json:
        write_json(told)
    elif diff:
        tell_changes(told, session.workflow.agents, body)
    elif body:
        typer.echo(_indented(told.body))
    else:
        tell_seen(told, session.workflow.agents)


def tell_seen(told: Seen, agents: list[str]) -> None:
    """What an agent saw, and what it did not, for people."""
    from legato.cli.telling import Colours, tell

    colours = Colours(agents)
    tell((f"reply {told.n} ", "bold"), "of ", (told.agent, colours.of(told.agent)), f" by {told.model}; it saw the facts 0 to {told.upto}")
    tell(("instructions  ", "dim"), told.instructions or "none")
    for text in told.added:
        tell(("added         ", "dim"), text)
    tell(("tools         ", "dim"), ", ".join(tool.name for tool in told.tools) or "none")
    rule = f"{told.history.policy['policy']}: {told.history.told}"
    tell(("history       ", "dim"), rule)
    if told.summary:
        tell(("summary       ", "dim"), told.summary)
    for item in told.items:
        if item.rule != rule:
            tell((f"  {item.rule}", "dim"))
        rule = item.rule
        _tell_item(item, colours)


MARKS = {"whole": "green", "words": "yellow", "no": "red"}


def _tell_item(item: Item, colours: Colours) -> None:
    from legato.cli.telling import tell
    from legato.core.explanation import SIGNS

    faint = "dim" if item.shown == "no" else ""
    spoken = {"said": "bold", "reply": colours.of(item.author)}.get(item.kind, "dim")
    who = item.author if item.kind in ("said", "reply") else f"{item.kind}, which nobody said"
    words = _inset(f" {item.text}") if item.text else ""
    tell((f"  {SIGNS[item.shown]} ", MARKS[item.shown]), (f"{who}:", faint or spoken), (words, faint))
    for call in item.calls:
        mark: Mark = "whole" if item.shown == "whole" else "no"  # also of a reply whose words were shown
        output = (_inset(call.output), "" if mark == "whole" else "dim")
        tell((f"    {SIGNS[mark]} ", MARKS[mark]), (f"{call.tool}({call.arguments}) = ", "dim"), output)


def _inset(text: str) -> str:
    """Further lines of a text, so that none looks like something else."""
    return text.replace("\n", "\n      ")


def tell_changes(told: Seen, agents: list[str], body: bool) -> None:
    """What had changed when an agent was asked."""
    from legato.cli.telling import Colours, tell

    colours = Colours(agents)
    tell((f"reply {told.n} ", "bold"), "of ", (told.agent, colours.of(told.agent)))
    call, agent = told.changes.call, told.changes.agent
    if call is None:
        tell("it was the first call: there is nothing to compare it with")
    if call is not None and (agent is None or agent.with_ != call.with_):
        _tell_diff(call, "the call before", body)
    if agent is not None:
        both = call is not None and call.with_ == agent.with_
        _tell_diff(agent, "the call before, of another agent" if both else "the last call of another agent", body)


def _tell_diff(diff: Diff, which: str, body: bool) -> None:
    from legato.cli.telling import tell

    tell((f"since reply {diff.with_} of {diff.agent}", "bold"), f", {which}")
    if body:
        _tell_lines(diff.body or "the requests are the same")
        return
    _tell_lines(diff.instructions)
    for name, changed in (("added", diff.added), ("history", diff.history), ("options", diff.options)):
        if changed is not None:
            tell((f"{name:<14}", "dim"), f"{_short(changed.before)} -> {_short(changed.after)}")
    names = [*_marked("+", diff.tools.added), *_marked("-", diff.tools.removed), *_marked("~", diff.tools.changed)]
    items = [*_marked("+", diff.items.added), *_marked("-", diff.items.removed), *_marked("~", diff.items.changed)]
    tell(("tools         ", "dim"), " ".join(names) or "the same")
    tell(("facts         ", "dim"), " ".join(items) or "the same")


def _marked(mark: str, named: tuple[str, ...] | tuple[int, ...]) -> list[str]:
    return [f"{mark}{each}" for each in named]


def _short(value: object) -> str:
    import msgspec

    from legato.inspection.plain import one_line

    return one_line(value if isinstance(value, str) else msgspec.json.encode(value).decode(), 200)


def _tell_lines(diff: str) -> None:
    from legato.cli.telling import tell
    from legato.inspection.plain import harmless

    for line in diff.splitlines():
        colour = "green" if line.startswith("+") else "red" if line.startswith("-") else "dim"
        tell((harmless(line, joiners=""), colour))


def _indented(body: str) -> str:
    from legato.inspection.plain import escaped_json

    return escaped_json(body, indent=2)
