"""The program of docs/workers.md, over real engines: its page can only show it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from legato.engines import Worker
from tests.docs.pages import examples
from tests.engines.conftest import Place
from tests.engines.servers import ROOT


async def test_the_program_of_the_page_prints_what_the_page_says(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs/workers.md").read_text(encoding="utf-8")
    program: dict[str, Any] = {"__name__": "page"}
    for example in examples(text):
        exec(compile(example.code, "workers.md", "exec"), program)
    worker = Worker(program["desk"], engine=place.engine, store=place.store)
    running = asyncio.ensure_future(worker.run(signals=False))
    await asyncio.wait_for(program["ask"](place.engine, place.store), 20)
    worker.stop()
    await asyncio.wait_for(running, 20)
    printed = capsys.readouterr().out
    assert printed == "pending ['refund']\nYour money is on its way.\n"
    assert printed in text
