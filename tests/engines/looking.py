"""What an engine knows, read from its server: for tests that say what is there, and what is not."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from legato.engines import Engine, RestateEngine, TemporalEngine


async def nothing_open(engine: Engine) -> bool:
    """Whether nothing of this engine's queue is open on the server: no run, no invocation."""
    return await _open(engine) == 0


async def nothing_dead(engine: Engine) -> bool:
    """Whether no session is set aside."""
    return not await engine.dead()


async def _open(engine: Engine) -> int:
    if isinstance(engine, TemporalEngine):
        query = f"TaskQueue = '{engine.queue}' AND ExecutionStatus = 'Running'"
        return (await (await engine.client()).count_workflows(query)).count
    assert isinstance(engine, RestateEngine)
    statement = f"SELECT id FROM sys_invocation WHERE target_service_name = '{engine.service}' AND status != 'completed'"
    return len(await rows(engine, statement))


async def everything_told(engine: Engine) -> str:
    """All that the server has of this engine's queue, as text."""
    if isinstance(engine, TemporalEngine):
        client = await engine.client()
        found = []
        async for run in client.list_workflows(f"TaskQueue = '{engine.queue}'"):
            history = await client.get_workflow_handle(run.id, run_id=run.run_id).fetch_history()
            found.append(f"{run.id} {await run.memo()} {_plain(history.to_json_dict())}")
        return "\n".join(found)
    assert isinstance(engine, RestateEngine)
    found = []
    for table, column in (("state", "service_name"), ("sys_invocation", "target_service_name")):
        found += await rows(engine, f"SELECT * FROM {table} WHERE {column} = '{engine.service}'")
    found += await rows(engine, "SELECT * FROM sys_journal")
    return _plain(found)


async def rows(engine: RestateEngine, statement: str) -> list[dict[str, Any]]:
    """What Restate's admin API answers to a question in SQL."""
    response = await engine._http().post(f"{engine._admin}/query", json={"query": statement}, headers={"accept": "application/json"})
    response.raise_for_status()
    found: list[dict[str, Any]] = response.json()["rows"]
    return found


def _plain(value: Any) -> str:
    """JSON in which what is base64 or hexadecimal is readable too."""
    text = json.dumps(value)
    decoded = []
    for piece in re.findall(r'"([A-Za-z0-9+/=]{8,})"', text):
        for decode in (base64.b64decode, bytes.fromhex):
            try:
                decoded.append(decode(piece).decode("utf-8", "replace"))
            except ValueError:
                continue
    return "\n".join([text, *decoded])
