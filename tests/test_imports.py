"""What importing Legato brings along, counted and not timed (docs/PERFORMANCE.md has the times).

Every import is looked at in a fresh interpreter, because this one has imported everything long ago.
"""

from __future__ import annotations

import copy
import inspect
import json
import os
import pickle
import pkgutil
import pydoc
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import legato
import legato.models
import legato.stores

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src"
TOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
CONTRACTS = {each["id"]: each for each in TOOLS["importlinter"]["contracts"]}

MOST_MODULES = 84
"""How many modules all names of `legato` may bring beyond `asyncio, json, sqlite3`, which most programs have anyway. There are 84 on Python
3.11: 64 of Legato and 20 of msgspec with what that imports."""

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
    "legato.providers": "with a provider's model",
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
    "legato.tools.signature_arguments": "with the first tool",
    "legato.runtime.driver": "with the first workflow that is built",
    "legato.stores.sqlite.store": "with SQLiteStore",
    "legato.stores.postgres.store": "with PostgresStore",
    "psycopg": "with PostgresStore",
    "legato.runtime.transfer": "with the first session that is moved as text",
}


def imported_by(code: str) -> set[str]:
    """The modules that are there after this code, in an interpreter that had done nothing else."""
    asked = f"import sys; sys.path.insert(0, {str(SOURCES)!r})\n{code}\nimport json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def brought_by(code: str) -> set[str]:
    """The same without what a bare interpreter in this environment has: `.pth` files may import what they like."""
    return imported_by(code) - imported_by("pass")


@pytest.mark.parametrize("code", ["import legato; legato.Workflow", "from legato import Agent, HandoffBuilder", "from legato import *"])
def test_what_is_heavy_is_imported_when_it_is_first_needed(code: str) -> None:
    brought = brought_by(code)
    assert "legato.workflow.workflow" in brought, "the test looks at nothing"
    assert not {name: HEAVY[name] for name in HEAVY if name in brought}


def test_all_names_of_legato_bring_few_modules() -> None:
    beyond = imported_by("from legato import *") - imported_by("import asyncio, json, sqlite3")
    assert len(beyond) <= MOST_MODULES, f"{len(beyond)}: {sorted(beyond)}"


def legato_modules_of(code: str) -> set[str]:
    return {name for name in imported_by(code) if name.partition(".")[0] == "legato"}


def test_legato_itself_imports_none_of_its_modules() -> None:
    """A name is imported when it is first used."""
    assert legato_modules_of("import legato") == {"legato"}
    assert legato_modules_of("import legato; legato.LegatoError") == {"legato", "legato.errors"}


THREADS = """
import legato, sys, threading, time

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("legato."):
            importing.append(threading.get_ident())
            time.sleep(0)

def use(name):
    together.wait()
    getattr(legato, name)

importing, together = [], threading.Barrier(8)
sys.meta_path.insert(0, Finder())
threads = [threading.Thread(target=use, args=[name]) for name in legato.__all__[:8]]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
turns = 1 + sum(one != other for one, other in zip(importing, importing[1:]))
assert turns == len(set(importing)), f"{turns} turns of {len(set(importing))} threads"
"""


def test_threads_import_names_one_after_the_other() -> None:
    """Python gives up an import, or leaves it half done, where threads meet in modules that import one another."""
    assert "legato.workflow.agent" in legato_modules_of(THREADS)


ALLOWED_FOR_EMULATOR = ("asgi", "emulator", "errors", "private_files", "providers")


def test_a_running_emulator_loads_no_runtime() -> None:
    loaded = legato_modules_of("from legato.emulator import serve\nwith serve() as emulator: emulator.openai_url")
    rooms = {name.split(".")[1] for name in loaded if "." in name}
    assert {"emulator", "providers"} <= rooms, "the test looks at nothing"
    assert rooms <= set(ALLOWED_FOR_EMULATOR)
    assert not {name for name in loaded if name.startswith("legato.providers.formats")}


@pytest.mark.parametrize("api", ["responses", "chat", "anthropic"])
def test_a_providers_rules_load_nothing_but_rules(api: str) -> None:
    loaded = legato_modules_of(f"from legato.providers.rules.{api}.rules import check_request\nassert check_request({{}})")
    assert f"legato.providers.rules.{api}.rules" in loaded
    assert {name for name in loaded if not name.startswith("legato.providers")} == {"legato"}
    assert not {name for name in loaded if name.startswith("legato.providers.formats")}


@pytest.mark.parametrize(("contract", "allowed"), [("rules", ("providers",)), ("emulator", ALLOWED_FOR_EMULATOR)])
def test_a_contract_names_every_module_that_it_forbids(contract: str, allowed: tuple[str, ...]) -> None:
    """A new module of the package is forbidden to the rules and to the emulator until a contract says otherwise."""
    modules = {module.name for module in pkgutil.iter_modules(legato.__path__)}
    expected = {f"legato.{name}" for name in modules.difference(allowed)} | {"legato.providers.formats"}
    assert set(CONTRACTS[contract]["forbidden_modules"]) == expected


@pytest.mark.parametrize("module", ["errors", "history", "models", "stores", "tools"])
def test_a_module_is_an_attribute_before_it_is_imported(module: str) -> None:
    assert f"legato.{module}" in legato_modules_of(f"import legato; legato.{module}.__name__")


def test_names_survive_pickling_and_copying() -> None:
    found = [getattr(legato, name) for name in legato.__all__]
    for each in filter(lambda each: inspect.isclass(each) or inspect.isfunction(each), found):
        assert pickle.loads(pickle.dumps(each)) is each
        assert copy.deepcopy(each) is each


def test_a_type_checker_sees_what_a_name_is(tmp_path: Path) -> None:
    """A module with a `__getattr__` that a checker can see has every name, and of no type."""
    program = tmp_path / "program.py"
    lines = ["import legato.models", "reveal_type(legato.Agent.run)", "legato.Agnt", "legato.models.Anthropc", "from legato import Agnt"]
    program.write_text("\n".join(lines))
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", f"--cache-dir={tmp_path}", "--config-file=", str(program)]
    here = {**os.environ, "MYPYPATH": str(SOURCES)}
    said = subprocess.run(command, capture_output=True, text=True, check=False, env=here).stdout
    assert "Revealed type is" in said
    assert "Any" not in said.partition("Revealed type is")[2].partition("\n")[0].partition("->")[2]
    assert said.count("Agnt") == 2
    assert said.count("Anthropc") == 1


def test_a_store_or_a_providers_model_is_imported_without_pydantic_and_sdks() -> None:
    brought = brought_by("from legato.stores import SQLiteStore; from legato.models import Anthropic, OpenAIChat, OpenAIResponses")
    assert {"sqlite3", "legato.providers.formats.responses.encode", "legato.providers.formats.anthropic.encode"} <= brought
    assert not brought & {"openai", "anthropic", "genai_prices", "httpx2", "pydantic", "pydantic_core", "legato.tools.signature_arguments"}


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
    assert "legato.runtime.driver" in imported_by(code)


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
    assert not brought_by(code) & {"pydantic", "pydantic_core", "dataclasses", "legato.providers"}


@pytest.mark.parametrize("module", [legato, legato.models, legato.stores])
def test_every_public_name_is_there_is_listed_and_can_be_asked_for_help(module: object) -> None:
    names = getattr(module, "__all__")  # noqa: B009 - of any module
    assert set(names) <= set(dir(module))
    for name in names:
        assert pydoc.render_doc(getattr(module, name))


@pytest.mark.parametrize("module", [legato, legato.models, legato.stores])
def test_a_name_that_a_module_does_not_have_is_told_as_ever(module: object) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nonesuch'"):
        module.Nonesuch  # type: ignore[attr-defined]
