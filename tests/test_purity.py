"""The centre is pure: legato.core and the provider rules of legato.providers read no clock, roll no dice, touch no disk, and say nothing.

Two proofs that do not rest on one another. The first reads the sources; it is itself shown to see a seeded offence of every
kind. The second runs the centre in a fresh interpreter whose clock, dice and disk are poisoned.
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
MODULES = [(room, path) for room in ("core", "providers") for path in sorted((SOURCES / room).rglob("*.py"))]

# What the centre may import. A list of what is allowed cannot be outrun by the standard library.
ALLOWED = {
    "__future__", "abc", "base64", "bisect", "collections", "copy", "dataclasses", "enum", "functools", "hashlib", "heapq",
    "itertools", "json", "legato.core", "legato.errors", "math", "msgspec", "operator", "re", "string", "textwrap", "types",
    "typing", "unicodedata",
}  # fmt: skip
PROVIDERS = {
    "legato.providers",
    "weakref",
}  # the provider rules may know one another, and what the core may know; the core may not know them

# Builtins that read, write, ask, run text as code, or give an answer that differs from run to run.
FORBIDDEN_CALLS = {"open", "print", "input", "eval", "exec", "compile", "__import__", "breakpoint", "id", "hash"}


def offences(source: str, room: str = "core") -> Iterator[str]:
    """What a module of the centre may not do, as 'line: what'."""
    allowed = ALLOWED | PROVIDERS if room == "providers" else ALLOWED
    tree = ast.parse(source)
    own = {id(name) for node in ast.walk(tree) for name in _own_names(node)}
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
        yield from (f"{node.lineno}: import {name}" for name in names if not _allowed(name, allowed))


COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, *COMPREHENSIONS)


def _own_names(scope: ast.AST) -> Iterator[ast.Name]:
    """Where a function or a comprehension means a name of its own, which may well be `input` or `id`."""
    inside: list[ast.AST]
    if isinstance(scope, ast.FunctionDef):
        arguments = scope.args
        names = {each.arg for each in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]}
        names |= {node.id for statement in scope.body for node in _directly_in(statement) if _stored(node)}
        inside = list(scope.body)
    elif isinstance(scope, COMPREHENSIONS):
        names = {node.id for each in scope.generators for node in ast.walk(each.target) if _stored(node)}
        inside = [scope]
    else:
        return
    for part in inside:
        yield from (node for node in ast.walk(part) if isinstance(node, ast.Name) and node.id in names)


def _stored(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _directly_in(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all that it holds, but not what has names of its own."""
    if not isinstance(node, SCOPES):
        yield node
        for child in ast.iter_child_nodes(node):
            yield from _directly_in(child)


def _allowed(name: str, allowed: set[str]) -> bool:
    parts = name.split(".")
    return any(".".join(parts[:length]) in allowed for length in range(1, len(parts) + 1))


def test_there_is_a_centre_to_check() -> None:
    assert {"facts.py", "codec.py", "digests.py", "rule_set.py", "rules.py"} <= {path.name for _, path in MODULES}


@pytest.mark.parametrize(("room", "path"), MODULES, ids=[str(path.relative_to(SOURCES)) for _, path in MODULES])
def test_a_module_of_the_centre_imports_and_calls_nothing_impure(room: str, path: Path) -> None:
    assert list(offences(path.read_text(encoding="utf-8"), room)) == []


@pytest.mark.parametrize("room", ["core", "providers"])
def test_no_room_of_the_centre_may_know_the_emulator(room: str) -> None:
    assert list(offences("from legato.emulator import serve", room))


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
        "from legato import drive",
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
def test_the_check_sees_a_seeded_offence(seeded: str) -> None:
    assert list(offences(seeded))


@pytest.mark.parametrize(
    "innocent",
    [
        "import msgspec.json\nfrom collections.abc import Mapping",
        "from legato.core.facts import Said\nfrom legato.errors import BadInput",
        "def f(input):\n    return input",
        "def f(items):\n    return [print_ for print_ in items]",
        "def f(items):\n    for id in items:\n        yield id\n    if open := items:\n        yield from open",
        "def f(items):\n    return {id: 1 for id in items if id}",
        "class A:\n    id: str\n    def open(self): return self.id",
    ],
)
def test_the_check_lets_pure_code_pass(innocent: str) -> None:
    assert list(offences(innocent)) == []


RUN = """
import asyncio, builtins, importlib, io, logging, os, pkgutil, random, socket, sqlite3, sys, threading, time, uuid

import msgspec
import legato.core
import legato.providers

names = [module.name for room in (legato.core, legato.providers) for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}.")]
for name in names:
    importlib.import_module(name)  # so that everything from elsewhere is loaded
for name in names:
    del sys.modules[name]  # and the centre itself is loaded again below, poisoned


def poisoned(name):
    def raising(*args, **kwargs):
        raise AssertionError(f"the centre called {name}")

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
told = turn_context.TurnContext(agent="desk", instructions="Be brief.")
context_digest, _ = turn_context.encode_turn_context(told)
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
view.build_past_request(now, told, ledger[2])

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
    command = [sys.executable, "-W", "error", "-c", RUN, seeded]
    here = {**os.environ, "PYTHONPATH": str(SOURCES.parent)}
    return subprocess.run(command, env=here, capture_output=True, text=True, timeout=60)


def test_the_centre_runs_without_clock_dice_and_disk() -> None:
    run = run_poisoned()
    assert (run.stdout, run.stderr) == ("pure", "")


@pytest.mark.parametrize("call", ["time.time()", "os.urandom(8)", "uuid.uuid4()", "open('x')", "print('x')", "random.random()"])
def test_the_poisoned_run_sees_a_seeded_call(call: str) -> None:
    run = run_poisoned(f"import hashlib; hashlib.blake2b = lambda *args, **kwargs: {call}")
    assert "AssertionError: the centre called" in run.stderr
    assert run.stdout == ""
