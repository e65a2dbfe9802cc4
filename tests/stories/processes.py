"""Real processes for stories that need more than one."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CHILD = Path(__file__).with_name("child.py")


async def begin(what: str, *arguments: object) -> asyncio.subprocess.Process:
    """Another process, which runs a function of `child.py`."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-W",
        "error",
        str(CHILD),
        what,
        *map(str, arguments),
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 24,
    )


async def end(process: asyncio.subprocess.Process, given: str = "") -> Any:
    """What it told at its end."""
    out, complaints = await asyncio.wait_for(process.communicate(given.encode()), 60)
    assert process.returncode == 0, complaints.decode()
    return json.loads(out.decode().splitlines()[-1])


async def elsewhere(what: str, *arguments: object, given: str = "") -> Any:
    """Do something in another process, and return what it told."""
    return await end(await begin(what, *arguments), given)
