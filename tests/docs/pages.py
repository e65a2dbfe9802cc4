"""Runs the examples of a documentation page. The rules, which CONTRIBUTING.md repeats:

- every ```python block runs, in the page's order, in one namespace, in an empty folder; top-level `await` is allowed;
- the ```text block after it is its output, with `...` for any text; a block that prints without such an output is wrong, and so is an
  output with more than the block prints.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import io
import re
import sys
import types
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


class WrongExample(AssertionError):
    """The output of an example differs from its page."""


@dataclass(frozen=True)
class Example:
    """One block of code and its expected output."""

    line: int
    code: str
    expected: str


def find_examples(text: str) -> Iterator[Example]:
    """Yield the examples of a page."""
    blocks = list(FENCE.finditer(text))
    for number, block in enumerate(blocks):
        if block[1] != "python":
            continue
        after = blocks[number + 1] if number + 1 < len(blocks) else None
        expected = after[2] if after is not None and after[1] == "text" else ""
        yield Example(text[: block.start()].count("\n") + 2, block[2], expected)


def run_page(path: Path, name: str = "page") -> int:
    """Run all examples of a page and return their number; raise `WrongExample` if one prints something else."""
    module = types.ModuleType(name)
    sys.modules[name] = module  # pydantic and typing look up names there
    count = 0
    try:
        with asyncio.Runner() as runner:
            for example in find_examples(path.read_text(encoding="utf-8")):
                printed = _run_example(example, path, module, runner)
                if not matches_output(example.expected, printed):
                    raise WrongExample(
                        f"{path.name}:{example.line} prints something else\n--- expected\n{example.expected}--- printed\n{printed}"
                    )
                count += 1
    finally:
        del sys.modules[name]
    return count


def _run_example(example: Example, path: Path, module: types.ModuleType, runner: asyncio.Runner) -> str:
    # With the blank lines, tracebacks have the line numbers of the page.
    source = "\n" * (example.line - 1) + example.code.replace('if __name__ == "__main__":', "if True:")  # an example is a program
    code = compile(source, str(path), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    out = io.StringIO()
    with redirect_stdout(out):
        if code.co_flags & inspect.CO_COROUTINE:
            runner.run(eval(code, module.__dict__))
        else:
            exec(code, module.__dict__)
    return out.getvalue()


def matches_output(expected: str, printed: str) -> bool:
    pattern = r".*?".join(re.escape(piece) for piece in _trim_lines(expected).split("..."))
    return re.fullmatch(pattern, _trim_lines(printed), re.DOTALL) is not None


def _trim_lines(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())
