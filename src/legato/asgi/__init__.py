"""Parts that all HTTP servers of Legato share.

`tokens.py` checks hosts and tokens, `request_bodies.py` refuses and drains request bodies, `uvicorn_server.py` starts and stops a
server, `server_context.py` makes a server a context manager.
"""

HANG_UP_SCOPE_KEY = "legato.hang_up"
"""The key in a request's scope of a function that closes its connection. ASGI has no message for that, so the server adds the function."""
