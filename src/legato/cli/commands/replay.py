"""`legato replay`: a check of each recorded model request against digests, and against what the workflow would send now.

For each reply, the request is encoded again from the facts before it, and compared with the request that the current workflow would send.
No model is requested and no tool runs. The user's functions for instructions, context and history are called, as for every request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import typer

from legato.cli.options import JsonOption, SessionArgument, StoreOption, TenantOption, WorkflowOption

if TYPE_CHECKING:
    from legato.core.facts import ModelReplied
    from legato.core.state import State
    from legato.core.view import ModelRequest
    from legato.inspection.model_inputs import ContentReader
    from legato.inspection.sent_bodies import SentBody
    from legato.runtime.ledger import Ledger
    from legato.runtime.session import Session


def replay(
    session: SessionArgument,
    store: StoreOption = "",
    workflow: WorkflowOption = "",
    tenant: TenantOption = "",
    as_json: JsonOption = False,
) -> None:
    """Replay a recorded session without models and tools, and compare every request byte by byte.

    Without --workflow, every request is encoded again from the ledger and compared with the digest that was recorded with its reply, if
    there is one. With it, every request is compared with what the workflow would send now; the first difference is printed.

    Exit codes: 0: no difference; 1: a request differs.
    """
    is_same = asyncio.run(_replay(session, store, workflow, tenant, as_json))
    if not is_same:
        raise typer.Exit(1)


async def _replay(id: str, store: str, workflow: str, tenant: str, as_json: bool) -> bool:
    from legato.cli.store_locator import open_by_options
    from legato.cli.terminal import write_json

    async with open_by_options(store, workflow, tenant) as opened:
        session = await opened.find_session(id)
        steps = [step async for step in _replay_requests(session, opened.workflow is not None)]
    if as_json:
        write_json({"session": id, "compared": bool(workflow), "same": all(step["same"] for step in steps), "requests": steps})
    else:
        _print_steps(id, steps, bool(workflow))
    return all(step["same"] for step in steps)


async def _replay_requests(session: Session, compare: bool) -> AsyncIterator[dict[str, Any]]:
    """Yield the result for each reply, as data."""
    from legato.core.facts import ModelReplied, Opened
    from legato.inspection.model_inputs import ContentReader
    from legato.runtime.ledger import Ledger
    from legato.stores import MemoryStore

    facts, reader = session.facts, ContentReader(session)
    opened = facts[0]
    assert isinstance(opened, Opened)
    replay_store = MemoryStore()
    ledger = Ledger(replay_store, session.id, session.workflow.name)
    number = 0
    for position, fact in enumerate(facts):
        if not isinstance(fact, ModelReplied):
            continue
        state = ledger.state
        contents = {fact.context_digest: await reader.read(fact.context_digest)}
        if state.length <= fact.upto:
            await replay_store.append(
                session.id, state.length, facts[state.length : fact.upto + 1], contents=contents, ledger_id=opened.ledger_id
            )
            state = await ledger.refresh()
        yield {
            "call": number,
            "position": position,
            "agent": fact.agent,
            **await _replay_request(session, ledger, fact, reader, compare),
        }
        number += 1


async def _replay_request(session: Session, ledger: Ledger, fact: ModelReplied, reader: ContentReader, compare: bool) -> dict[str, Any]:
    from legato.core.view import build_past_request
    from legato.inspection.secret_masks import mask_request
    from legato.inspection.sent_bodies import encode_sent_request, mask_sent_body

    graph = session.workflow.definition.graph
    exact_request = await reader.attach_contents(
        build_past_request(ledger.state, await reader.read_turn_context(fact.context_digest), fact)
    )
    sent = encode_sent_request(exact_request, fact)
    result: dict[str, Any] = {
        "wire": sent.provider_format,
        "bytes": len(sent.body),
        "proof": sent.digest_check,
        "same": sent.digest_check != "refuted",
        "why": "",
        "diff": [],
    }
    if sent.digest_check == "refuted":
        result["why"] = "the digest that was recorded with the reply does not match the request that the ledger describes"
    if not compare:
        return result
    current_request, reason = await _rebuild_current_request(session, ledger, fact, reader)
    if current_request is None:
        return {**result, "same": False, "why": reason}
    current_body = _encode_current_request(session, current_request, fact)
    if current_body.body != sent.body or current_body.provider_format != sent.provider_format:
        before = mask_sent_body(sent, exact_request, mask_request(exact_request, graph))
        after = mask_sent_body(current_body, current_request, mask_request(current_request, graph))
        diff_lines = _diff_bodies(before, after) or ["they differ in a secret"]
        result |= {"same": False, "why": "the workflow would send another request", "diff": diff_lines}
    return result


async def _rebuild_current_request(
    session: Session, ledger: Ledger, fact: ModelReplied, reader: ContentReader
) -> tuple[ModelRequest | None, str]:
    """Return the request that the workflow would send in this state, or the reason why it would send none."""
    from legato.core.planner import RequestModel, make_plan
    from legato.runtime.model_requests import build_model_request
    from legato.runtime.turn_contexts import TurnContexts

    definition, state = session.workflow.definition, ledger.state
    if fact.agent not in definition.agents:
        return None, f"the workflow has no agent {fact.agent!r}"
    next_plan = make_plan(state, definition.graph)
    if not any(isinstance(effect, RequestModel) and effect.agent == fact.agent for effect in next_plan.effects):
        alternatives = (
            [_describe_effect(effect, state) for effect in next_plan.effects]
            or [request.prompt for request in next_plan.requests]
            or ["wait for the user"]
        )
        return None, f"the workflow would not request a reply of {fact.agent!r} here, but {'; '.join(alternatives)}"
    digest, turn_context, _ = await TurnContexts(definition, ledger, None).get_current(fact.agent)
    return await reader.attach_contents(build_model_request(definition, state, fact.agent, digest, turn_context)[0]), ""


def _describe_effect(effect: Any, state: State) -> str:
    return f"{type(effect).__name__}({', '.join(f'{name}={getattr(effect, name)}' for name in effect.__struct_fields__)})"


def _encode_current_request(session: Session, request: ModelRequest, fact: ModelReplied) -> SentBody:
    """Encode the request for the agent's current model. The address is not part of the definition, so the recorded one stays."""
    from legato.cli.workflow_check import find_model_options
    from legato.inspection.sent_bodies import encode_with_options
    from legato.providers.formats.request_options import decode_options

    model = find_model_options(session.workflow.definition.agents[fact.agent], fact.origin)
    if model is None:
        return encode_with_options(request, None, "", fact)
    provider_format, options = model
    address = fact.origin.split(" ", 2)[1] if fact.origin.count(" ") >= 2 else "nowhere"
    return encode_with_options(request, decode_options(options.to_masked_json()), f"{provider_format} {address} {options.model}", fact)


def _diff_bodies(recorded: SentBody, current: SentBody) -> list[str]:
    import msgspec

    from legato.inspection.terminal_safe_text import escape_unprintable
    from legato.inspection.unified_diff import render_unified_diff

    before, after = (msgspec.json.format(each.body, indent=1).decode() for each in (recorded, current))
    return escape_unprintable(render_unified_diff(before, after, "as it was sent", "as it would be sent"), joiners="").splitlines()


def _print_steps(id: str, steps: list[dict[str, Any]], compared: bool) -> None:
    from legato.cli.terminal import get_symbol, print_line

    different = [step for step in steps if not step["same"]]
    for step in steps:
        mark = (f"{get_symbol('done')} ", "green") if step["same"] else (f"{get_symbol('failed')} ", "red")
        check = {"proved": ", confirmed by a digest", "refuted": ", refuted by a digest"}.get(step["proof"], "")
        print_line(mark, f"{step['call']:>3}  {step['agent']}", (f"  {step['wire'] or 'own model'}, {step['bytes']} bytes{check}", "dim"))
    if different:
        first = different[0]
        print_line((f"request {first['call']}: ", "red"), first["why"])
        for line in first["diff"]:
            print_line((line, "green" if line.startswith("+") else "red" if line.startswith("-") else "dim"))
        print_line(f"{len(different)} of {len(steps)} requests of {id} differ; the first is shown")
        return
    confirmed_count = sum(step["proof"] == "proved" for step in steps)
    summary = "the workflow would send the same bytes" if compared else "encoded again from the ledger"
    suffix = f"; {confirmed_count} confirmed by digests" if confirmed_count else ""
    print_line(f"{len(steps)} requests of {id}: {summary}{suffix}")
