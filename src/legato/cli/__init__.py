"""The `legato` command. May know: everything. Decides: what people type and what they read."""

from __future__ import annotations

import sys

NEEDS = {"typer": "cli", "rich": "cli", "starlette": "emulator", "uvicorn": "emulator", "yaml": "emulator", "mcp": "mcp"}


def main() -> None:
    """Run the command. What it needs beyond the core is named if it is missing."""
    try:
        from legato.cli.app import run

        run()
    except ModuleNotFoundError as missing:
        extra = NEEDS.get((missing.name or "").partition(".")[0])
        if extra is None:
            raise
        do = f"pip install '.[{','.join(dict.fromkeys(('cli', extra)))}]' in a clone of Legato"
        sys.exit(f"this command needs {missing.name}, which is not installed\n  do        {do}")
