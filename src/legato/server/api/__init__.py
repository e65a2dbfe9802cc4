"""Legato's HTTP API: endpoint definitions (`endpoints.py`), request and response types (`api_types.py`) and the routes."""
