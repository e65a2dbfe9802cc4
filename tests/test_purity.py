"""legato.core and legato.providers are pure: they use no clock, no randomness and no disk, and print and log nothing.

Two independent checks. The first reads the sources, and is tested with a seeded impurity of every kind. The second runs the modules in a
fresh interpreter in which clock, randomness and disk raise errors.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

SOURCES = Path(__file__).parent.parent / "src" / "legato"
CORE_MODULES = [(package, path) for package in ("core", "providers") for path in sorted((SOURCES / package).rglob("*.py"))]

# The modules that legato.core may import. A list of allowed modules stays valid when the standard library grows.
ALLOWED_IMPORTS = {
    "__future__", "abc", "base64", "bisect", "collections", "copy", "dataclasses", "enum", "functools", "hashlib", "heapq",
    "itertools", "json", "legato.core", "legato.errors", "math", "msgspec", "operator", "re", "string", "textwrap", "types",
    "typing", "unicodedata",
}  # fmt: skip
ALLOWED_PROVIDER_IMPORTS = {
    "legato.providers",
    "weakref",
}  # legato.providers may import these too; legato.core may not

# Builtins that read, write, prompt, run text as code, or return a value that differs from run to run.
FORBIDDEN_CALLS = {"open", "print", "input", "eval", "exec", "compile", "__import__", "breakpoint", "id", "hash"}


def find_impurities(source: str, package: str = "core") -> Iterator[str]:
    """Yield the impurities of a module as 'line: impurity'."""
    allowed = ALLOWED_IMPORTS | ALLOWED_PROVIDER_IMPORTS if package == "providers" else ALLOWED_IMPORTS
    tree = ast.parse(source)
    own = {id(name) for node in ast.walk(tree) for name in _list_local_names(node)}
    for node in ast.walk(tree):
        if id(node) in own:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = ["." * node.level + (node.module or "")]
            if names == ["legato"]:
                names = [f"legato.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Name) and node.id in FORBIDDEN_CALLS and isinstance(node.ctx, ast.Load):
            yield f"{node.lineno}: {node.id}"
            continue
        elif isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
            yield f"{node.lineno}: {type(node).__name__}"
            continue
        elif isinstance(node, ast.Global):
            yield f"{node.lineno}: global {', '.join(node.names)}"
            continue
        else:
            continue
        yield from (f"{node.lineno}: import {name}" for name in names if not _is_allowed(name, allowed))


COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, *COMPREHENSIONS)


def _list_local_names(scope: ast.AST) -> Iterator[ast.Name]:
    """Yield the uses of names that a function or a comprehension binds itself, which may be `input` or `id`."""
    inside: list[ast.AST]
    if isinstance(scope, ast.FunctionDef):
        arguments = scope.args
        names = {each.arg for each in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]}
        names |= {node.id for statement in scope.body for node in _walk_scope(statement) if _is_assigned_name(node)}
        inside = list(scope.body)
    elif isinstance(scope, COMPREHENSIONS):
        names = {node.id for each in scope.generators for node in ast.walk(each.target) if _is_assigned_name(node)}
        inside = [scope]
    else:
        return
    for part in inside:
        yield from (node for node in ast.walk(part) if isinstance(node, ast.Name) and node.id in names)


def _is_assigned_name(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _walk_scope(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and its descendants in the same scope."""
    if not isinstance(node, SCOPES):
        yield node
        for child in ast.iter_child_nodes(node):
            yield from _walk_scope(child)


def _is_allowed(name: str, allowed: set[str]) -> bool:
    parts = name.split(".")
    return any(".".join(parts[:length]) in allowed for length in range(1, len(parts) + 1))


def test_checked_modules_exist_in_both_packages() -> None:
    assert {"facts.py", "codec.py", "digests.py", "rule_set.py", "rules.py"} <= {path.name for _, path in CORE_MODULES}


@pytest.mark.parametrize(("package", "path"), CORE_MODULES, ids=[str(path.relative_to(SOURCES)) for _, path in CORE_MODULES])
def test_module_imports_and_calls_nothing_impure(package: str, path: Path) -> None:
    assert list(find_impurities(path.read_text(encoding="utf-8"), package)) == []


@pytest.mark.parametrize("package", ["core", "providers"])
def test_core_and_providers_cannot_import_the_emulator(package: str) -> None:
    assert list(find_impurities("from legato.emulator import serve", package))


@pytest.mark.parametrize(
    "seeded",
    [
        *(
            f"import {module}"
            for module in (
                "asyncio", "logging", "uuid", "random", "time", "datetime", "os", "os.path", "io", "pathlib", "sqlite3",
                "threading", "socket", "secrets", "tempfile", "subprocess", "sys", "pydantic", "legato.stores", "legato",
                "legato.providers",
            )
        ),
        "from time import monotonic",
        "from os import urandom as dice",
        "from legato import runtime",
        "from . import facts",
        "import json, random",
        "def f():\n    import time\n    return time.time()",
        "if False:\n    from datetime import datetime",
        "def f(path):\n    return open(path)",
        "print('here')",
        "say = print",
        "def f(input):\n    return input\nanswer = input()",
        "def f(items):\n    ids = [id for id in items]\n    return id(ids)",
        "def f(items):\n    def g():\n        id = 1\n    return id(items)",
        "key = hash('a')",
        "__import__('time')",
        "async def f(): ...",
        "count = 0\ndef f():\n    global count\n    count += 1",
    ],
)  # fmt: skip
def test_seeded_impurity_is_found(seeded: str) -> None:
    assert list(find_impurities(seeded))


@pytest.mark.parametrize(
    "pure_code",
    [
        "import msgspec.json\nfrom collections.abc import Mapping",
        "from legato.core.facts import MessageReceived\nfrom legato.errors import BadInput",
        "def f(input):\n    return input",
        "def f(items):\n    return [print_ for print_ in items]",
        "def f(items):\n    for id in items:\n        yield id\n    if open := items:\n        yield from open",
        "def f(items):\n    return {id: 1 for id in items if id}",
        "class A:\n    id: str\n    def open(self): return self.id",
    ],
)
def test_pure_code_passes_the_check(pure_code: str) -> None:
    assert list(find_impurities(pure_code)) == []


POISONED_PROGRAM = """
import asyncio, builtins, importlib, io, logging, os, pkgutil, random, socket, sqlite3, sys, threading, time, uuid

import msgspec
import legato.core
import legato.providers

packages = (legato.core, legato.providers)
names = [module.name for each in packages for module in pkgutil.walk_packages(each.__path__, f"{each.__name__}.")]
for name in names:
    importlib.import_module(name)  # loads the dependencies
for name in names:
    del sys.modules[name]  # the pure modules are loaded again below, after the poisoning


def poisoned(name):
    def raising(*args, **kwargs):
        raise AssertionError(f"a pure module called {name}")

    return raising


# The import system has its own way to the disk, so modules can still be loaded.
for owner, attributes in {
    builtins: "open print input",
    io: "open",
    os: "urandom open getenv getpid listdir stat replace remove",
    time: "time time_ns monotonic monotonic_ns perf_counter sleep",
    random: "random randint choice shuffle getrandbits",
    uuid: "uuid1 uuid4",
    socket: "socket create_connection",
    threading: "Thread Lock",
    sqlite3: "connect",
    asyncio: "run get_running_loop create_task",
    logging: "getLogger info warning",
}.items():
    for attribute in attributes.split():
        setattr(owner, attribute, poisoned(f"{owner.__name__}.{attribute}"))

for name in names:
    importlib.import_module(name)

from legato.core import codec, digests, facts, planner, state, turn_context, view, workflow_graph

exec(sys.argv[1])

call = facts.Call(tool="refund", arguments='{"cents": 250}', call_id="c")
context = turn_context.TurnContext(agent="desk", instructions="Be brief.")
context_digest, _ = turn_context.encode_turn_context(context)
ledger = [
    facts.Opened(at=0, ledger_id="l", workflow="w"),
    facts.MessageReceived(at=1, content="refund me"),
    facts.ModelReplied(at=2, agent="desk", context_digest=context_digest, upto=1, items=(call,)),
    facts.CallReturned(at=3, call=facts.CallRef(2, 0), output="there is no such tool", status="error"),
]
definition = workflow_graph.WorkflowGraph("w", {"desk": workflow_graph.AgentRules("desk")}, "desk")
for fact in ledger:
    assert codec.decode_fact(codec.encode_fact(fact)) == fact
digests.digest_arguments(call.arguments)
for length in range(1, len(ledger) + 1):
    now = state.fold(ledger[:length])
    planner.make_plan(now, definition)
view.build_past_request(now, context, ledger[2])

from legato.providers.rules.anthropic import rules as anthropic
from legato.providers.rules.chat import rules as chat
from legato.providers.rules.responses import rules as responses

hello, called = {"role": "user", "content": "hello"}, {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
assert [each.rule.id for each in responses.check_request({"model": "m", "input": [hello, called]})] == ["T1"]
assert chat.check_request({"model": "m", "messages": [hello]}) == []
messages = [hello, {"role": "assistant", "content": [thought]}, hello]
assert anthropic.check_request({"model": "m", "max_tokens": 1, "messages": messages}) != []
sys.stdout.write("pure")
"""


def run_poisoned(seeded: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", POISONED_PROGRAM, seeded]
    here = {**os.environ, "PYTHONPATH": str(SOURCES.parent)}
    return subprocess.run(command, env=here, capture_output=True, text=True, timeout=60)


def test_core_runs_without_clock_randomness_disk() -> None:
    run = run_poisoned()
    assert (run.stdout, run.stderr) == ("pure", "")


@pytest.mark.parametrize("call", ["time.time()", "os.urandom(8)", "uuid.uuid4()", "open('x')", "print('x')", "random.random()"])
def test_poisoned_run_finds_seeded_call(call: str) -> None:
    run = run_poisoned(f"import hashlib; hashlib.blake2b = lambda *args, **kwargs: {call}")
    assert "AssertionError: a pure module called" in run.stderr
    assert run.stdout == ""
