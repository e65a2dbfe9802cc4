"""The modules that importing Legato loads, counted and not timed (docs/PERFORMANCE.md has the times).

Every import runs in a fresh interpreter, because this one has already imported everything.
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

MAX_MODULES = 84
"""How many modules all names of `legato` may load beyond `asyncio, json, sqlite3`, which most programs load anyway. There are 84 on Python
3.11: 64 of Legato, and 20 of msgspec and its imports."""

HEAVY_MODULES = {
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
    "difflib": "with the first unknown option",
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


def list_imported_modules(code: str) -> set[str]:
    """Return the modules that are loaded after this code in a fresh interpreter."""
    program = f"import sys; sys.path.insert(0, {str(SOURCES)!r})\n{code}\nimport json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def list_added_modules(code: str) -> set[str]:
    """Return the same modules without those of a bare interpreter in this environment: `.pth` files may import anything."""
    return list_imported_modules(code) - list_imported_modules("pass")


@pytest.mark.parametrize("code", ["import legato; legato.Workflow", "from legato import Agent, HandoffBuilder", "from legato import *"])
def test_heavy_modules_are_imported_on_first_use(code: str) -> None:
    added = list_added_modules(code)
    assert "legato.workflow.workflow" in added, "the test checks nothing"
    assert not {name: HEAVY_MODULES[name] for name in HEAVY_MODULES if name in added}


def test_star_import_loads_few_modules() -> None:
    further = list_imported_modules("from legato import *") - list_imported_modules("import asyncio, json, sqlite3")
    assert len(further) <= MAX_MODULES, f"{len(further)}: {sorted(further)}"


def list_legato_modules(code: str) -> set[str]:
    return {name for name in list_imported_modules(code) if name.partition(".")[0] == "legato"}


def test_legato_itself_imports_none_of_its_modules() -> None:
    """A name is imported when it is first used."""
    assert list_legato_modules("import legato") == {"legato"}
    assert list_legato_modules("import legato; legato.LegatoError") == {"legato", "legato.errors"}


THREADED_IMPORTS = """
import legato, sys, threading, time

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("legato."):
            importing.append(threading.get_ident())
            time.sleep(0)

def use(name):
    barrier.wait()
    getattr(legato, name)

importing, barrier = [], threading.Barrier(8)
sys.meta_path.insert(0, Finder())
threads = [threading.Thread(target=use, args=[name]) for name in legato.__all__[:8]]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
turns = 1 + sum(one != other for one, other in zip(importing, importing[1:]))
assert turns == len(set(importing)), f"{turns} turns of {len(set(importing))} threads"
"""


def test_concurrent_threads_import_names_one_by_one() -> None:
    """Python fails, or leaves a module half initialized, when threads concurrently import modules that import one another."""
    assert "legato.workflow.agent" in list_legato_modules(THREADED_IMPORTS)


ALLOWED_FOR_EMULATOR = ("asgi", "emulator", "errors", "private_files", "providers")


def test_a_running_emulator_loads_no_runtime() -> None:
    loaded = list_legato_modules("from legato.emulator import serve\nwith serve() as emulator: emulator.openai_url")
    packages = {name.split(".")[1] for name in loaded if "." in name}
    assert {"emulator", "providers"} <= packages, "the test checks nothing"
    assert packages <= set(ALLOWED_FOR_EMULATOR)
    assert not {name for name in loaded if name.startswith("legato.providers.formats")}


@pytest.mark.parametrize("api", ["responses", "chat", "anthropic"])
def test_a_providers_rules_load_nothing_but_rules(api: str) -> None:
    loaded = list_legato_modules(f"from legato.providers.rules.{api}.rules import check_request\nassert check_request({{}})")
    assert f"legato.providers.rules.{api}.rules" in loaded
    assert {name for name in loaded if not name.startswith("legato.providers")} == {"legato"}
    assert not {name for name in loaded if name.startswith("legato.providers.formats")}


@pytest.mark.parametrize(("contract", "allowed"), [("rules", ("providers",)), ("emulator", ALLOWED_FOR_EMULATOR)])
def test_import_contracts_list_every_forbidden_module(contract: str, allowed: tuple[str, ...]) -> None:
    """The rules and the emulator may not import a new module of the package until a contract allows it."""
    modules = {module.name for module in pkgutil.iter_modules(legato.__path__)}
    expected = {f"legato.{name}" for name in modules.difference(allowed)} | {"legato.providers.formats"}
    assert set(CONTRACTS[contract]["forbidden_modules"]) == expected


@pytest.mark.parametrize("module", ["errors", "history", "models", "stores", "tools"])
def test_submodules_are_attributes_of_legato(module: str) -> None:
    assert f"legato.{module}" in list_legato_modules(f"import legato; legato.{module}.__name__")


def test_names_survive_pickling_and_copying() -> None:
    found = [getattr(legato, name) for name in legato.__all__]
    for each in filter(lambda each: inspect.isclass(each) or inspect.isfunction(each), found):
        assert pickle.loads(pickle.dumps(each)) is each
        assert copy.deepcopy(each) is each


def test_a_type_checker_sees_what_a_name_is(tmp_path: Path) -> None:
    """If a checker saw the module's `__getattr__`, it would accept every name, without a type."""
    program = tmp_path / "program.py"
    lines = ["import legato.models", "reveal_type(legato.Agent.run)", "legato.Agnt", "legato.models.Anthropc", "from legato import Agnt"]
    program.write_text("\n".join(lines))
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", f"--cache-dir={tmp_path}", "--config-file=", str(program)]
    here = {**os.environ, "MYPYPATH": str(SOURCES)}
    output = subprocess.run(command, capture_output=True, text=True, check=False, env=here).stdout
    assert "Revealed type is" in output
    assert "Any" not in output.partition("Revealed type is")[2].partition("\n")[0].partition("->")[2]
    assert output.count("Agnt") == 2
    assert output.count("Anthropc") == 1


def test_stores_and_models_need_no_pydantic() -> None:
    added = list_added_modules("from legato.stores import SQLiteStore; from legato.models import Anthropic, OpenAIChat, OpenAIResponses")
    assert {"sqlite3", "legato.providers.formats.responses.encode", "legato.providers.formats.anthropic.encode"} <= added
    assert not added & {"openai", "anthropic", "genai_prices", "httpx2", "pydantic", "pydantic_core", "legato.tools.signature_arguments"}


def test_creating_a_model_imports_no_sdk() -> None:
    added = list_added_modules("from legato.models import OpenAIResponses; OpenAIResponses('gpt-5.1')")
    assert not added & {"openai", "genai_prices", "httpx2", "pydantic"}


def test_first_run_imports_no_further_modules() -> None:
    code = """
import asyncio, sys
from legato import Agent, HandoffBuilder
from legato.models import ModelReply, OutputText

class Echo:
    name = "echo"
    async def reply(self, request, emit):
        return ModelReply(items=(OutputText("hello"),))

workflow = HandoffBuilder(name="desk", participants=[Agent(name="a", model=Echo())]).build()
asyncio.run(asyncio.sleep(0))
before = set(sys.modules)
assert workflow.run_sync("Hi").text == "hello"
assert set(sys.modules) <= before, sorted(set(sys.modules) - before)
"""
    assert "legato.runtime.driver" in list_imported_modules(code)


def test_a_conversation_without_tools_never_imports_pydantic() -> None:
    code = """
import asyncio
from legato import Agent, HandoffBuilder
from legato.models import ModelReply, OutputText

class Echo:
    name = "echo"
    async def reply(self, request, emit):
        return ModelReply(items=(OutputText("hello"),))

from legato.stores import SQLiteStore
import tempfile
async def talk():
    with tempfile.TemporaryDirectory() as folder:
        async with SQLiteStore(folder + "/s.db") as store:
            workflow = HandoffBuilder(name="desk", participants=[Agent(name="a", model=Echo())]).build()
            assert (await workflow.session("one", store=store).run("Hi")).text == "hello"
asyncio.run(talk())
"""
    assert not list_added_modules(code) & {"pydantic", "pydantic_core", "dataclasses", "legato.providers"}


@pytest.mark.parametrize("module", [legato, legato.models, legato.stores])
def test_every_public_name_has_rendered_help(module: object) -> None:
    names = getattr(module, "__all__")  # noqa: B009 - of any module
    assert set(names) <= set(dir(module))
    for name in names:
        assert pydoc.render_doc(getattr(module, name))


@pytest.mark.parametrize("module", [legato, legato.models, legato.stores])
def test_unknown_name_raises_attribute_error(module: object) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nonesuch'"):
        module.Nonesuch  # type: ignore[attr-defined]
