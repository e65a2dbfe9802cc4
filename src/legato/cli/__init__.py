"""The `legato` command."""

from __future__ import annotations

import sys

from legato.errors import install_hint

EXTRA_BY_PACKAGE = {
    "typer": "cli",
    "rich": "cli",
    "starlette": "emulator",
    "uvicorn": "emulator",
    "yaml": "emulator",
    "ag_ui": "server",
    "mcp": "mcp",
}
EXTRA_BY_COMMAND = {"serve": "server", "mcp": "mcp"}
"""Extras of whole commands. They bring more than the package that was found missing first."""


def main() -> None:
    """Run the command. If a package of an extra is missing, print how to install it."""
    try:
        from legato.cli.app import run

        run()
    except ModuleNotFoundError as missing:
        extra = EXTRA_BY_PACKAGE.get((missing.name or "").partition(".")[0])
        if extra is None:
            raise
        extra = next((EXTRA_BY_COMMAND[word] for word in sys.argv[1:] if word in EXTRA_BY_COMMAND), extra) if extra != "cli" else extra
        do = install_hint(*dict.fromkeys(("cli", extra)))
        print(f"error: this command needs {missing.name}, which is not installed\n  do        {do}", file=sys.stderr)
        sys.exit(2)
