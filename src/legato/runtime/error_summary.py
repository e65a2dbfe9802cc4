"""What may be said of an error without its words: its kind, its codes, and where it was raised.

The words of an error may be those of the conversation. Logs, engines and the ledger's `ModelRequestFailed.cause` have none of them.
"""

from __future__ import annotations

import re
from pathlib import Path
from traceback import extract_tb

from legato.errors import LegatoError, ModelFailed


def error_kind(error: BaseException) -> str:
    """The class of an error and its codes. A code that a provider chose is among them if it looks like one, and not like words.

    >>> error_kind(ModelFailed("the order of Jane Doe", reason="overloaded", status=529))
    'ModelFailed (overloaded, HTTP:529)'
    """
    codes = [error.code] if isinstance(error, LegatoError) else []
    if isinstance(error, ModelFailed):
        codes = [error.reason or error.code, f"HTTP:{error.status}" if error.status else ""]
    known = [code for code in codes if re.fullmatch(r"[\w.:-]{1,60}", code)]
    name = type(error).__name__
    return f"{name} ({', '.join(known)})" if known else name


def describe_error(error: BaseException) -> str:
    """The kind of an error, and where it was raised.

    >>> try:
    ...     raise ValueError("order 7 of Jane Doe")
    ... except ValueError as error:
    ...     print(describe_error(error))
    ValueError at <doctest legato.runtime.error_summary.describe_error[0]>:2 in <module>
    """
    frames = extract_tb(error.__traceback__)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno} in {frames[-1].name}" if frames else ""
    return f"{error_kind(error)}{where}"
