"""The `legato` command. May know: everything. Decides: what people type and what they read."""

from __future__ import annotations

import sys

from legato.errors import install_hint

NEEDS = {"typer": "cli", "rich": "cli", "starlette": "emulator", "uvicorn": "emulator", "yaml": "emulator", "ag_ui": "server", "mcp": "mcp"}
FOR_VERBS = {"serve": "server", "mcp": "mcp"}
"""Verbs that have an extra of their own: it brings more than the package that happened to be missed first."""


def main() -> None:
    """Run the command. What it needs beyond the core is named if it is missing."""
    try:
        from legato.cli.app import run

        run()
    except ModuleNotFoundError as missing:
        extra = NEEDS.get((missing.name or "").partition(".")[0])
        if extra is None:
            raise
        extra = next((FOR_VERBS[word] for word in sys.argv[1:] if word in FOR_VERBS), extra) if extra != "cli" else extra
        do = install_hint(*dict.fromkeys(("cli", extra)))
        print(f"error: this command needs {missing.name}, which is not installed\n  do        {do}", file=sys.stderr)
        sys.exit(2)
