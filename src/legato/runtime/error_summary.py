"""Summaries of errors without their message: the class, the codes, and the place where the error was raised.

The message of an error may quote the conversation. So logs, engines and the ledger's `ModelRequestFailed.cause` contain summaries only.
"""

from __future__ import annotations

import re
from pathlib import Path
from traceback import extract_tb

from legato.errors import LegatoError, ModelFailed


def describe_error_kind(error: BaseException) -> str:
    """Return the class of an error and its codes. A code of a provider is included only if it looks like a code, not like text.

    >>> describe_error_kind(ModelFailed("the order of Jane Doe", reason="overloaded", status=529))
    'ModelFailed (overloaded, HTTP:529)'
    """
    codes = [error.code] if isinstance(error, LegatoError) else []
    if isinstance(error, ModelFailed):
        codes = [error.reason or error.code, f"HTTP:{error.status}" if error.status else ""]
    known = [code for code in codes if re.fullmatch(r"[\w.:-]{1,60}", code)]
    name = type(error).__name__
    return f"{name} ({', '.join(known)})" if known else name


def describe_error_without_message(error: BaseException) -> str:
    """Return the class and codes of an error, and the place where it was raised.

    >>> try:
    ...     raise ValueError("order 7 of Jane Doe")
    ... except ValueError as error:
    ...     print(describe_error_without_message(error))
    ValueError at <doctest legato.runtime.error_summary.describe_error_without_message[0]>:2 in <module>
    """
    frames = extract_tb(error.__traceback__)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno} in {frames[-1].name}" if frames else ""
    return f"{describe_error_kind(error)}{where}"
