"""A server that runs `python -m legato.cli` in forked children, so that each run saves half a second of imports.

Each command has a process of its own, with its own folder, environment, standard streams and exit code.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import runpy
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile

import legato.cli

LIBRARIES = ("openai", "pydantic", "sqlite3", "uvicorn", "starlette.applications", "rich.console", "legato.emulator")
TIMEOUT_S = 600
MAX_INPUT_BYTES = 32_768
"""Less than any pipe holds, so that writing it waits for no reader."""


class CommandServer:
    """The forking process, started with an environment."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.settings = select_python_variables(environment)
        self._channel, child_end = socket.socketpair()
        self._channel.settimeout(TIMEOUT_S)
        with child_end:
            number = child_end.fileno()
            command = [sys.executable, "-W", "error", str(Path(__file__)), str(number)]
            self._process = subprocess.Popen(command, env=dict(environment), pass_fds=[number])

    def run(self, arguments: Sequence[str], stdin: bytes, folder: Path, environment: Mapping[str, str]) -> tuple[int, bytes, bytes]:
        """Run one command and return its exit code, output and errors."""
        assert len(stdin) <= MAX_INPUT_BYTES
        reading, writing = os.pipe()
        with TemporaryFile() as out, TemporaryFile() as err:
            with open(reading, "rb") as stdin_file:
                with open(writing, "wb") as stdin_pipe:
                    stdin_pipe.write(stdin)
                socket.send_fds(self._channel, [b"\0"], [stdin_file.fileno(), out.fileno(), err.fileno()])
            command = {"arguments": list(arguments), "folder": str(folder), "environment": dict(environment)}
            self._channel.sendall(json.dumps(command).encode() + b"\n")
            code = int.from_bytes(self._channel.recv(4), signed=True)
            out.seek(0)
            err.seek(0)
            return code, out.read(), err.read()

    def close(self) -> None:
        self._channel.close()
        self._process.wait(TIMEOUT_S)


def select_python_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that an interpreter reads when it starts."""
    return {name: value for name, value in environment.items() if name.startswith("PYTHON")}


def fork_commands(channel: socket.socket) -> bool:
    """Fork a child for each command. Return True in a child, with everything set up, and False when the tests are over."""
    with channel, channel.makefile("rb") as lines:
        while streams := socket.recv_fds(channel, 1, 3)[1]:
            command = json.loads(lines.readline())
            child = os.fork()
            for number, stream in enumerate(streams):
                if child == 0:
                    os.dup2(stream, number)
                os.close(stream)
            if child == 0:
                os.chdir(command["folder"])
                os.environ.clear()
                os.environ.update(command["environment"])
                sys.path[0] = command["folder"]
                sys.argv[1:] = command["arguments"]
                return True
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            channel.sendall(code.to_bytes(4, signed=True))
    return False


if __name__ == "__main__":
    for module in pkgutil.walk_packages(legato.cli.__path__, "legato.cli."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for library in LIBRARIES:
        importlib.import_module(library)
    gc.freeze()
    if fork_commands(socket.socket(fileno=int(sys.argv[1]))):
        runpy.run_module("legato.cli", run_name="__main__", alter_sys=True)
