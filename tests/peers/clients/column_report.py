"""How a client's program tells what it saw: one JSON object, with an entry for each column that it has.

Imported by programs that run in environments of their own, which have no Legato.
"""

import inspect
import json
import sys
import traceback


def report(columns):
    """Run the function of each column, and print what each saw: {"saw": ...} or {"failed": ...}, a line as soon as it is known."""
    base_url, key, api = sys.argv[1:4]
    for column, look in columns(base_url, key, api).items():
        try:
            found = {"saw": _looked(look)}
        except Exception as error:
            found = {"failed": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
        print(json.dumps({"column": column, **found}), flush=True)


def _looked(look):
    import asyncio

    return asyncio.run(look()) if inspect.iscoroutinefunction(look) else look()
