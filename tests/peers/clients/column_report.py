"""The report of a client's program: one JSON object on a line for each column that the client has.

Imported by programs that run in environments of their own, which have no Legato.
"""

import inspect
import json
import sys
import traceback


def report(columns):
    """Run the function of each column, and print its result at once: {"report": ...} or {"failed": ...}."""
    base_url, key, api = sys.argv[1:4]
    for column, run_column in columns(base_url, key, api).items():
        try:
            result = {"report": _run(run_column)}
        except Exception as error:
            result = {"failed": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
        print(json.dumps({"column": column, **result}), flush=True)


def _run(run_column):
    import asyncio

    return asyncio.run(run_column()) if inspect.iscoroutinefunction(run_column) else run_column()
