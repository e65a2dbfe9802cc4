"""What importing Legato brings along, counted and not timed (docs/PERFORMANCE.md has the times).

Every import is looked at in a fresh interpreter, because this one has imported everything long ago.
"""

from __future__ import annotations

import json
import pydoc
import subprocess
import sys
from pathlib import Path

import pytest

import legato
import legato.models
import legato.stores

SOURCES = Path(__file__).parent.parent / "src"

MOST_MODULES = 82
"""How many modules `import legato` may bring beyond `asyncio, json, sqlite3`, which most programs have anyway. There are 82 on Python 3.11:
62 of Legato and 20 of msgspec with what that imports."""

HEAVY = {
    "pydantic": "with the first tool, output type or result that is data",
    "pydantic_core": "with the first tool, output type or result that is data",
    "annotated_types": "with pydantic",
    "genai_prices": "with the first reply, or the first cost limit",
    "openai": "with the first client",
    "anthropic": "with the first client",
    "httpx2": "with the first client",
    "sqlite3": "with SQLiteStore",
    "dataclasses": "nowhere: defining one costs as much as defining 25 structs",
    "hashlib": "with the first digest",
    "hmac": "with the first session that is moved as text",
    "difflib": "with the first option that nobody knows",
    "urllib.request": "nowhere",
    "http": "with the first client",
    "email": "with the first client",
    "multiprocessing": "nowhere",
    "importlib.metadata": "nowhere",
    "legato.wire": "with a provider's model",
    "mcp": "with legato.mcp",
    "jsonschema": "with legato.mcp",
    "re2": "with legato.mcp",
    "opentelemetry": "with legato.telemetry",
    "legato.mcp": "by name only",
    "legato.telemetry": "by name only",
    "legato.tools.mcp": "with legato.mcp",
    "legato.emulator": "by name only",
    "legato.testing": "by name only",
    "legato.compat": "by name only",
    "legato.tools.schema": "with the first tool",
    "legato.drive.driver": "with the first workflow that is built",
    "legato.stores.sqlite": "with SQLiteStore",
    "legato.stores.postgres": "with PostgresStore",
    "psycopg": "with PostgresStore",
    "legato.portable": "with the first session that is moved as text",
}


def imported_by(code: str) -> set[str]:
    """The modules that are there after this code, in an interpreter that had done nothing else."""
    asked = f"import sys; sys.path.insert(0, {str(SOURCES)!r})\n{code}\nimport json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def brought_by(code: str) -> set[str]:
    """The same without what a bare interpreter in this environment has: `.pth` files may import what they like."""
    return imported_by(code) - imported_by("pass")


@pytest.mark.parametrize("code", ["import legato", "from legato import Agent, HandoffBuilder, tool", "from legato import *"])
def test_what_is_heavy_is_imported_when_it_is_first_needed(code: str) -> None:
    brought = brought_by(code)
    assert "legato.workflow" in brought, "the test looks at nothing"
    assert not {name: HEAVY[name] for name in HEAVY if name in brought}


def test_importing_legato_brings_few_modules_beyond_those_of_asyncio_json_and_sqlite3() -> None:
    beyond = imported_by("import legato") - imported_by("import asyncio, json, sqlite3")
    assert len(beyond) <= MOST_MODULES, f"{len(beyond)}: {sorted(beyond)}"


def test_a_store_or_a_providers_model_is_imported_without_pydantic_and_sdks() -> None:
    brought = brought_by("from legato.stores import SQLiteStore; from legato.models import Anthropic, OpenAIChat, OpenAIResponses")
    assert {"sqlite3", "legato.wire.responses.compile", "legato.wire.anthropic.compile"} <= brought
    assert not brought & {"openai", "anthropic", "genai_prices", "httpx2", "pydantic", "pydantic_core", "legato.tools.schema"}


def test_making_a_model_needs_no_sdk_before_its_first_request() -> None:
    brought = brought_by("from legato.models import OpenAIResponses; OpenAIResponses('gpt-5.1')")
    assert not brought & {"openai", "genai_prices", "httpx2", "pydantic"}


def test_a_first_run_imports_nothing_that_building_its_workflow_did_not() -> None:
    code = """
import asyncio, sys
from legato import Agent, HandoffBuilder
from legato.models import Reply, Words

class Echo:
    name = "echo"
    async def reply(self, request, emit):
        return Reply(items=(Words("hello"),))

workflow = HandoffBuilder(name="desk", participants=[Agent(name="a", model=Echo())]).build()
asyncio.run(asyncio.sleep(0))
before = set(sys.modules)
assert workflow.run_sync("Hi").text == "hello"
assert set(sys.modules) <= before, sorted(set(sys.modules) - before)
"""
    assert "legato.drive.driver" in imported_by(code)


def test_a_conversation_without_tools_never_imports_pydantic() -> None:
    code = """
import asyncio
from legato import Agent, HandoffBuilder
from legato.models import Reply, Words

class Echo:
    name = "echo"
    async def reply(self, request, emit):
        return Reply(items=(Words("hello"),))

from legato.stores import SQLiteStore
import tempfile
async def talk():
    with tempfile.TemporaryDirectory() as folder:
        async with SQLiteStore(folder + "/s.db") as store:
            workflow = HandoffBuilder(name="desk", participants=[Agent(name="a", model=Echo())]).build()
            assert (await workflow.session("one", store=store).run("Hi")).text == "hello"
asyncio.run(talk())
"""
    assert not brought_by(code) & {"pydantic", "pydantic_core", "dataclasses", "legato.wire"}


@pytest.mark.parametrize("module", [legato, legato.models, legato.stores])
def test_every_public_name_is_there_is_listed_and_can_be_asked_for_help(module: object) -> None:
    names = getattr(module, "__all__")  # noqa: B009 - of any module
    assert set(names) <= set(dir(module))
    for name in names:
        assert pydoc.render_doc(getattr(module, name))


@pytest.mark.parametrize("module", [legato.models, legato.stores])
def test_a_name_that_a_module_does_not_have_is_told_as_ever(module: object) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nonesuch'"):
        module.Nonesuch  # type: ignore[attr-defined]
