"""`legato seen`. May know: requests. Decides: how what an agent saw is shown."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from legato.cli.options import Json, Named, SessionId, Stored

if TYPE_CHECKING:
    from legato.core.facts import Answered
    from legato.core.view import Request
    from legato.session import Session
    from legato.shown.wired import Wired


def seen(
    session: SessionId,
    call: Annotated[int, typer.Argument(help="Which reply: from 0, or from the end. The last, by default.", metavar="N")] = -1,
    body: Annotated[bool, typer.Option("--body", help="The request as the provider was sent it.")] = False,
    store: Stored = "",
    workflow: Named = "",
    as_json: Json = False,
) -> None:
    """Show what an agent saw when it replied: the exact request behind a reply, from the ledger alone.

    \b
    legato seen customer-7           what the last reply's agent saw
    legato seen customer-7 0 --body  what the provider was sent first
    legato seen customer-7 -- -2     the last but one
    """
    asyncio.run(_seen(session, call, body, store, workflow, as_json))


async def _seen(id: str, call: int, body: bool, store: str, workflow: str, as_json: bool) -> None:
    from legato.cli.places import looked_into
    from legato.cli.telling import write_json

    async with looked_into(store, workflow) as here:
        session = await here.session(id)
        number, fact, request = await looked_up(session, call)
    wired = wired_shown(session, request, fact)
    if as_json:
        write_json(plain_seen(session, number, fact, request, wired))
    elif body:
        typer.echo(_indented(wired.body))
    else:
        tell_seen(session, number, fact, request)


async def looked_up(session: Session, call: int) -> tuple[int, Answered, Request]:
    """The number of a reply, the reply, and its request; with digests in place of secrets."""
    from legato.core.facts import Answered
    from legato.shown.hiding import shown_seen

    request = await session.seen(call)
    replies = [fact for fact in session.facts if isinstance(fact, Answered)]
    number = call if call >= 0 else len(replies) + call
    return number, replies[number], shown_seen(request, session.workflow.definition.graph)


def wired_shown(session: Session, request: Request, fact: Answered) -> Wired:
    """The request as bytes, for people: compiled from what may be shown."""
    from legato.shown.wired import sent

    return sent(request, fact)


def plain_seen(session: Session, number: int, fact: Answered, request: Request, wired: Wired) -> dict[str, Any]:
    """The same as data."""
    import msgspec

    return {
        "session": session.id,
        "call": number,
        "agent": fact.agent,
        "model": fact.model,
        "upto": fact.upto,
        "frame": request.frame,
        "messages": request.messages,
        "wire": wired.wire,
        "body": msgspec.Raw(wired.body),
    }


def tell_seen(session: Session, number: int, fact: Answered, request: Request) -> None:
    """What an agent saw, for people."""
    import msgspec

    from legato.cli.telling import Colours, tell

    colours = Colours(session.workflow.agents)
    frame = request.frame
    tell((f"reply {number} ", "bold"), "of ", (fact.agent, colours.of(fact.agent)), f" by {fact.model}; it saw the facts 0 to {fact.upto}")
    tell(("instructions  ", "dim"), frame.instructions or "none")
    for text in frame.messages:
        tell(("added         ", "dim"), text)
    tell(("tools         ", "dim"), ", ".join(tool.name for tool in frame.tools) or "none")
    policy = msgspec.to_builtins(frame.history)
    more = ", ".join(f"{name} {value}" for name, value in policy.items() if name != "policy")
    out = _left_out(session, fact, request)
    tell(("history       ", "dim"), f"{policy['policy']}{f' ({more})' if more else ''}{f'; {out} left out by it' if out else ''}")
    for message in request.messages:
        who = message.author_name or message.role
        tell(
            (f"  {who}: ", colours.of(who) if message.role == "assistant" else "bold" if message.role == "user" else "dim"),
            message.text,
            end="",
        )
        for each in message.calls:
            tell((f" [{each.tool}({each.arguments})]", "dim"), end="")
        tell(("  (nobody said this)", "dim") if message.synthetic else "")


def _left_out(session: Session, fact: Answered, request: Request) -> str:
    """What the policy kept from the agent: groups of the conversation that it did not see, or only the words of."""
    from legato.core.history import Everything
    from legato.core.state import fold
    from legato.core.view import visible

    everything = visible(fold(session.facts[: fact.upto + 1], session.id), Everything(), fact.agent)
    shown = {group.position: len(group.calls) for group in request.groups}
    missing = sum(group.position not in shown for group in everything)
    bare = sum(bool(group.calls) and shown.get(group.position) == 0 for group in everything)
    told = [f"{missing} of {len(everything)} groups"] if missing else []
    return " and ".join([*told, *([f"the calls of {bare}"] if bare else [])])


def _indented(body: bytes) -> str:
    import json

    from legato.shown.plain import harmless

    return harmless(json.dumps(json.loads(body), indent=2, ensure_ascii=False), joiners="")
