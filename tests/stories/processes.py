"""Real processes for stories that need more than one."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CHILD = Path(__file__).with_name("child_process.py")


async def start_process(function: str, *arguments: object) -> asyncio.subprocess.Process:
    """Start a process that runs a function of `child_process.py`."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-W",
        "error",
        str(CHILD),
        function,
        *map(str, arguments),
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 24,
    )


async def finish_process(process: asyncio.subprocess.Process, stdin: str = "") -> Any:
    """Return the JSON that a process printed at its end."""
    out, errors = await asyncio.wait_for(process.communicate(stdin.encode()), 60)
    assert process.returncode == 0, errors.decode()
    return json.loads(out.decode().splitlines()[-1])


async def run_in_process(function: str, *arguments: object, stdin: str = "") -> Any:
    """Run a function of `child_process.py` in another process, and return its result."""
    return await finish_process(await start_process(function, *arguments), stdin)
