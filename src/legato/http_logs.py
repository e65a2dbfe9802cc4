"""Masking of credentials in the logs of HTTP clients. httpx and httpx2 log the URL of every request at INFO."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

MASK = "***"

HARMLESS_PARAMETERS = frozenset(("api-version", "beta"))
"""Query parameters whose values are not secret."""


def mask_logged_urls() -> None:
    """Mask the credentials of URLs in the log of HTTP clients, in this process, from now on."""
    for name in ("httpx", "httpx2"):
        logging.getLogger(name).addFilter(_mask_urls)  # adding it again changes nothing


def mask_url(url: Any) -> str:
    """Return a URL with its user, password and query values masked.

    >>> mask_url("https://ann:s3cret@gateway.example/v1?api-version=1&code=abc")
    'https://***@gateway.example/v1?api-version=1&code=***'
    """
    parts = urlsplit(str(url))
    user, _, host = parts.netloc.rpartition("@")
    values = parse_qsl(parts.query, keep_blank_values=True)
    query = urlencode([(name, value if name.lower() in HARMLESS_PARAMETERS else MASK) for name, value in values], safe="*")
    return urlunsplit(parts._replace(netloc=f"{MASK}@{host}" if user else host, query=query))


def _mask_urls(record: logging.LogRecord) -> bool:
    if isinstance(record.args, tuple):
        record.args = tuple(mask_url(each) if hasattr(each, "userinfo") else each for each in record.args)
    return True
