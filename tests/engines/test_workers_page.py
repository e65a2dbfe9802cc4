"""The program of docs/workers.md, over real engines: the documentation tests cannot run it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from legato.engines import Worker
from tests.docs.pages import find_examples
from tests.engines.conftest import EngineSetup
from tests.engines.servers import ROOT


async def test_page_program_prints_the_shown_output(
    setup: EngineSetup, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs/workers.md").read_text(encoding="utf-8")
    program: dict[str, Any] = {"__name__": "page"}
    for example in find_examples(text):
        exec(compile(example.code, "workers.md", "exec"), program)
    worker = Worker(program["desk"], engine=setup.engine, store=setup.store)
    running = asyncio.ensure_future(worker.run(signals=False))
    await asyncio.wait_for(program["ask"](setup.engine, setup.store), 20)
    worker.stop()
    await asyncio.wait_for(running, 20)
    printed = capsys.readouterr().out
    assert printed == "pending ['refund']\nYour money is on its way.\n"
    assert printed in text
