"""The data of an engine, read from its server."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from legato.engines import Engine, RestateEngine, TemporalEngine


async def has_no_open_runs(engine: Engine) -> bool:
    """Return True if no workflow run or invocation of this engine's queue is open."""
    return await _count_open_runs(engine) == 0


async def has_no_parked_sessions(engine: Engine) -> bool:
    """Return True if no session is parked."""
    return not await engine.list_parked()


async def _count_open_runs(engine: Engine) -> int:
    if isinstance(engine, TemporalEngine):
        query = f"TaskQueue = '{engine.queue}' AND ExecutionStatus = 'Running'"
        return (await (await engine.client()).count_workflows(query)).count
    assert isinstance(engine, RestateEngine)
    statement = f"SELECT id FROM sys_invocation WHERE target_service_name = '{engine.service}' AND status != 'completed'"
    return len(await query_restate(engine, statement))


async def read_all_data(engine: Engine) -> str:
    """Return all data of this engine's queue, as text."""
    if isinstance(engine, TemporalEngine):
        client = await engine.client()
        found = []
        async for run in client.list_workflows(f"TaskQueue = '{engine.queue}'"):
            history = await client.get_workflow_handle(run.id, run_id=run.run_id).fetch_history()
            found.append(f"{run.id} {await run.memo()} {_decode_payloads(history.to_json_dict())}")
        return "\n".join(found)
    assert isinstance(engine, RestateEngine)
    found = []
    for table, column in (("state", "service_name"), ("sys_invocation", "target_service_name")):
        found += await query_restate(engine, f"SELECT * FROM {table} WHERE {column} = '{engine.service}'")
    found += await query_restate(engine, "SELECT * FROM sys_journal")
    return _decode_payloads(found)


async def query_restate(engine: RestateEngine, statement: str) -> list[dict[str, Any]]:
    """Return the rows of an SQL query from Restate's admin API."""
    response = await engine._http_client().post(f"{engine._admin}/query", json={"query": statement}, headers={"accept": "application/json"})
    response.raise_for_status()
    found: list[dict[str, Any]] = response.json()["rows"]
    return found


def _decode_payloads(value: Any) -> str:
    """Return JSON with decoded base64 and hexadecimal strings behind it."""
    text = json.dumps(value)
    decoded = []
    for piece in re.findall(r'"([A-Za-z0-9+/=]{8,})"', text):
        for decode in (base64.b64decode, bytes.fromhex):
            try:
                decoded.append(decode(piece).decode("utf-8", "replace"))
            except ValueError:
                continue
    return "\n".join([text, *decoded])
