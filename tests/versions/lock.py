"""`make lock`: compile the files in `requirements/` anew, with the newest versions that `pyproject.toml` allows.

They name exact versions and hashes, and are valid for every Python that Legato supports, on Linux and macOS. They name no package index,
so each machine uses the one that it is configured for.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib

from tests.versions.uv import ROOT, find_uv

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

EXTRAS = {"dev": ["dev"], "base": ["emulator", "openai"], "faces": ["faces"]}
"""The extras in each file. The others take the versions that `dev` has."""


def compile_file(uv: str, name: str, extras: list[str]) -> int:
    """Write one file; return uv's exit code."""
    path = f"requirements/{name}.txt"
    command = [uv, "pip", "compile", "--quiet", "--universal", "--upgrade", "--generate-hashes", "--no-emit-index-url"]
    command += ["--python-version", PROJECT["project"]["requires-python"].removeprefix(">=")]
    command += ["--custom-compile-command", "make lock", "--output-file", path]
    command += ["pyproject.toml", "-", *(f"--extra={extra}" for extra in extras)]
    if name != "dev":
        command += ["--constraints", "requirements/dev.txt"]
    # The build requirements are locked too: the package is installed without build isolation.
    build = "\n".join(PROJECT["build-system"]["requires"])
    done = subprocess.run(command, cwd=ROOT, input=build, stdout=subprocess.PIPE, text=True)
    if done.returncode == 0:
        print(f"wrote {path}")
    return done.returncode


def main() -> int:
    uv = find_uv()
    return max(compile_file(uv, name, extras) for name, extras in EXTRAS.items())


if __name__ == "__main__":
    sys.exit(main())
