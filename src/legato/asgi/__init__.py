"""What every server of ours has in common: `hosts.py` who can reach it, `bodies.py` which request bodies are refused,
`running.py` how it starts and stops, `blocks.py` that it does so in with blocks."""

HANG_UP = "legato.hang_up"
"""Where a request's scope has a function that closes its connection: ASGI has no word for that, so whoever serves puts it there."""
