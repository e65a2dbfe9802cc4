"""`legato replay`. May know: sessions, wires. Decides: what a recorded session is compared with, and how a difference is shown.

Each reply of a ledger is taken again from the facts before it: what was sent then, compiled from the ledger alone; and what the workflow,
as it is now, would send in its place. No model is asked and no tool runs. Functions that give instructions or context, or choose history,
are called, as they are for every request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import typer

from legato.cli.options import Json, Named, SessionId, Stored, Tenant

if TYPE_CHECKING:
    from legato.core.facts import ModelReplied
    from legato.core.state import State
    from legato.core.view import Request
    from legato.inspection.looking import Contents
    from legato.inspection.wired import Wired
    from legato.runtime.ledger import Ledger
    from legato.runtime.session import Session


def replay(
    session: SessionId,
    store: Stored = "",
    workflow: Named = "",
    tenant: Tenant = "",
    as_json: Json = False,
) -> None:
    """Run a recorded session again, without models and tools, and compare every request byte by byte.

    Without --workflow, every request is compiled again from the ledger, and compared with the digests that were recorded with replies,
    as far as there are any. With it, each is compared with what the workflow would send now; the first difference is shown.

    Exit code 0: all is the same; 1: something differs.
    """
    same = asyncio.run(_replay(session, store, workflow, tenant, as_json))
    if not same:
        raise typer.Exit(1)


async def _replay(id: str, store: str, workflow: str, tenant: str, as_json: bool) -> bool:
    from legato.cli.places import looked_into
    from legato.cli.telling import write_json

    async with looked_into(store, workflow, tenant) as here:
        session = await here.session(id)
        steps = [step async for step in _steps(session, here.workflow is not None)]
    if as_json:
        write_json({"session": id, "compared": bool(workflow), "same": all(step["same"] for step in steps), "requests": steps})
    else:
        _tell(id, steps, bool(workflow))
    return all(step["same"] for step in steps)


async def _steps(session: Session, compare: bool) -> AsyncIterator[dict[str, Any]]:
    """One for each reply."""
    from legato.core.facts import ModelReplied, Opened
    from legato.inspection.looking import Contents
    from legato.runtime.ledger import Ledger
    from legato.stores import MemoryStore

    facts, known = session.facts, Contents(session)
    opened = facts[0]
    assert isinstance(opened, Opened)
    again = MemoryStore()
    ledger = Ledger(again, session.id, session.workflow.name)
    number = 0
    for position, fact in enumerate(facts):
        if not isinstance(fact, ModelReplied):
            continue
        state = ledger.state
        contents = {fact.frame: await known.read(fact.frame)}
        if state.length <= fact.upto:
            await again.append(session.id, state.length, facts[state.length : fact.upto + 1], contents=contents, born=opened.ledger)
            state = await ledger.refresh()
        yield {
            "call": number,
            "position": position,
            "agent": fact.agent,
            **await _step(session, ledger, fact, known, compare),
        }
        number += 1


async def _step(session: Session, ledger: Ledger, fact: ModelReplied, known: Contents, compare: bool) -> dict[str, Any]:
    from legato.core.view import request_seen
    from legato.inspection.hiding import shown_seen
    from legato.inspection.wired import sent, shown_sent

    graph = session.workflow.definition.graph
    then = await known.add_to(request_seen(ledger.state, await known.frame(fact.frame), fact))
    was = sent(then, fact)
    told: dict[str, Any] = {
        "wire": was.wire,
        "bytes": len(was.body),
        "proof": was.proof,
        "same": was.proof != "refuted",
        "why": "",
        "diff": [],
    }
    if was.proof == "refuted":
        told["why"] = "the digest that was recorded with the reply does not fit what the ledger says was sent"
    if not compare:
        return told
    now, why = await _now(session, ledger, fact, known)
    if now is None:
        return {**told, "same": False, "why": why}
    is_ = _sent_now(session, now, fact)
    if is_.body != was.body or is_.wire != was.wire:
        diff = _diff(shown_sent(was, then, shown_seen(then, graph)), shown_sent(is_, now, shown_seen(now, graph)))
        told |= {"same": False, "why": "the workflow would send another request", "diff": diff or ["they differ in a secret"]}
    return told


async def _now(session: Session, ledger: Ledger, fact: ModelReplied, known: Contents) -> tuple[Request | None, str]:
    """What the workflow would ask in this state; or why it would not."""
    from legato.core.planner import CallModel, plan
    from legato.runtime.model_requests import request_now
    from legato.runtime.turn_contexts import Frames

    definition, state = session.workflow.definition, ledger.state
    if fact.agent not in definition.agents:
        return None, f"the workflow has no agent {fact.agent!r}"
    owed = plan(state, definition.graph)
    if not any(isinstance(effect, CallModel) and effect.agent == fact.agent for effect in owed.effects):
        instead = (
            [_in_words(effect, state) for effect in owed.effects] or [request.prompt for request in owed.requests] or ["wait for the user"]
        )
        return None, f"the workflow would not ask {fact.agent!r} here, but {'; '.join(instead)}"
    digest, frame, _ = await Frames(definition, ledger, None).in_force(fact.agent)
    return await known.add_to(request_now(definition, state, fact.agent, digest, frame)[0]), ""


def _in_words(effect: Any, state: State) -> str:
    return f"{type(effect).__name__}({', '.join(f'{name}={getattr(effect, name)}' for name in effect.__struct_fields__)})"


def _sent_now(session: Session, request: Request, fact: ModelReplied) -> Wired:
    """As the agent's model would be sent it now. Where it is sent to is no part of the definition: the address stays as it was."""
    from legato.cli.definition import model_of
    from legato.inspection.wired import would_be_sent
    from legato.providers.formats.options import options_from

    model = model_of(session.workflow.definition.agents[fact.agent], fact.origin)
    if model is None:
        return would_be_sent(request, None, "", fact)
    wire, options = model
    address = fact.origin.split(" ", 2)[1] if fact.origin.count(" ") >= 2 else "nowhere"
    return would_be_sent(request, options_from(options.recorded()), f"{wire} {address} {options.model}", fact)


def _diff(was: Wired, is_: Wired) -> list[str]:
    import msgspec

    from legato.inspection.differences import unified
    from legato.inspection.plain import harmless

    before, after = (msgspec.json.format(each.body, indent=1).decode() for each in (was, is_))
    return harmless(unified(before, after, "as it was sent", "as it would be sent"), joiners="").splitlines()


def _tell(id: str, steps: list[dict[str, Any]], compared: bool) -> None:
    from legato.cli.telling import symbol, tell

    wrong = [step for step in steps if not step["same"]]
    for step in steps:
        mark = (f"{symbol('done')} ", "green") if step["same"] else (f"{symbol('failed')} ", "red")
        proof = {"proved": ", proved by a digest", "refuted": ", refuted by a digest"}.get(step["proof"], "")
        tell(mark, f"{step['call']:>3}  {step['agent']}", (f"  {step['wire'] or 'own model'}, {step['bytes']} bytes{proof}", "dim"))
    if wrong:
        first = wrong[0]
        tell((f"request {first['call']}: ", "red"), first["why"])
        for line in first["diff"]:
            tell((line, "green" if line.startswith("+") else "red" if line.startswith("-") else "dim"))
        tell(f"{len(wrong)} of {len(steps)} requests of {id} differ; the first is shown")
        return
    proved = sum(step["proof"] == "proved" for step in steps)
    how = "the workflow would send the same bytes" if compared else "compiled again from the ledger"
    tell(f"{len(steps)} requests of {id}: {how}{f'; {proved} proved by digests' if proved else ''}")
