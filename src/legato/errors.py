"""The errors that Legato raises. Each says who is at fault, what was expected, what was found, and what to do next.

All derive from `LegatoError` and have a stable `.code` that programs may branch on. Messages may be reworded between releases; codes
may not.
"""

from __future__ import annotations

from math import inf
from typing import Any


def install_hint(*extras: str) -> str:
    """Return the command that installs these extras."""
    return f"pip install '.[{','.join(extras)}]' in a clone of Legato"


class LegatoError(Exception):
    """The base class of all errors. `str(error)` is for people, `error.code` for programs."""

    code = "legato"

    def __init__(self, summary: str, *, expected: str = "", found: str = "", do: str = "") -> None:
        self.summary = summary
        self.expected = expected
        self.found = found
        self.do = do
        lines = [summary]
        lines += [f"  {label:<9} {text}" for label, text in (("expected", expected), ("found", found), ("do", do)) if text]
        super().__init__("\n".join(lines))


class BadInput(LegatoError):
    """An argument of the caller cannot be used. Nothing was written."""

    code = "bad_input"


class CodecError(BadInput):
    """Stored or imported bytes that do not decode."""

    code = "codec"


class NewerFormat(CodecError):
    """Bytes in a format of a newer Legato. They are refused, never guessed at."""

    code = "newer_format"


class CannotImport(BadInput):
    """Data of another framework that cannot be read, or not safely. None of it was run, and nothing was imported."""

    code = "cannot_import"


class BuildError(BadInput):
    """A workflow definition that cannot work. The message says what to write instead."""

    code = "build"


class IllegalFact(LegatoError):
    """A fact that may not follow in the present state. It was not appended."""

    code = "illegal_fact"


class NotPending(LegatoError):
    """An answer to a request that is not pending: unknown, outdated, or answered already. Nothing was changed."""

    code = "not_pending"


class NotLoaded(LegatoError):
    """A session handle was used before it has read its ledger."""

    code = "not_loaded"


class DefinitionChanged(LegatoError):
    """The ledger needs an agent or a workflow that the present definition does not have. Nothing was lost."""

    code = "definition_changed"


class DrivenElsewhere(LegatoError):
    """Another driver holds the session's lease, and the caller asked to drive only, not to follow. Nothing was changed."""

    code = "driven_elsewhere"


class EngineUnavailable(LegatoError):
    """A durable engine's server cannot be reached, or does not serve the named object. No ledger was changed."""

    code = "engine_unavailable"


class ModelFailed(LegatoError):
    """A model gave no usable reply. `retryable`: the same request may be repeated. `reason` is the provider's own code.

    `status` is the status of the provider's HTTP response, 0 if unknown. `usage` (a `legato.models.Usage`) is the usage of the failed
    request, as far as the provider reported it. `retry_after` is in seconds; a value that is not a finite number from 0 on is dropped.
    `another`: another model is requested next, whatever this failure was. `conversation_unchanged`: the provider's conversation is
    certainly as it was before the request, so the next request may continue it.
    """

    code = "model_failed"

    def __init__(
        self,
        summary: str,
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        reason: str = "",
        status: int = 0,
        usage: Any = None,
        conversation_unchanged: bool = False,
        found: str = "",
        do: str = "",
    ) -> None:
        super().__init__(summary, found=found, do=do)
        self.reason = reason
        self.retryable = retryable
        number = isinstance(retry_after, (int, float)) and not isinstance(retry_after, bool)
        self.retry_after = retry_after if number and 0 <= retry_after < inf else None  # type: ignore[operator]
        self.status = status
        self.usage = usage
        self.conversation_unchanged = conversation_unchanged
        self.another = False


class IllegalRequest(LegatoError):
    """A model request that breaks a rule of the provider. It was not sent; `dump` has its bytes, for a bug report."""

    code = "illegal_request"

    def __init__(self, summary: str, *, expected: str = "", found: str = "", do: str = "", dump: bytes = b"") -> None:
        super().__init__(summary, expected=expected, found=found, do=do)
        self.dump = dump


class MCPFailed(LegatoError):
    """An MCP server cannot be reached, or does not speak the protocol. None of its tools was run."""

    code = "mcp_failed"


class ToolsChanged(MCPFailed):
    """An MCP server's tools differ from the accepted ones. No tool was offered or run; the message lists the changes."""

    code = "tools_changed"


class StoreError(LegatoError):
    """An operation of a store failed. Everything acknowledged before is still there."""

    code = "store"
    store: object = None
    """The store that failed, if it was used for a session; None if other code used it or raised the error."""


class LedgerConflict(StoreError):
    """Another writer appended to the ledger first. Nothing was written."""

    code = "ledger_conflict"

    def __init__(self, ledger: str, expected_position: int, found_position: int) -> None:
        super().__init__(
            f"another writer advanced session {ledger!r} first",
            expected=f"position {expected_position}",
            found=f"position {found_position}",
            do="nothing was written here; refresh the session and look at what is pending",
        )
        self.ledger = ledger
        self.expected_position = expected_position
        self.found_position = found_position


class UnknownLedger(StoreError):
    """The store has no ledger with that name."""

    code = "unknown_ledger"


class LedgerExists(StoreError):
    """The store already has another ledger with that name."""

    code = "ledger_exists"


class DamagedStore(StoreError):
    """Stored bytes have changed since they were written. Facts before the damage are still readable."""

    code = "damaged"

    def __init__(self, summary: str, *, readable: int = 0, found: str = "", do: str = "") -> None:
        super().__init__(summary, found=found, do=do)
        self.readable = readable
        """The number of facts at the start of the ledger that can still be read."""


class StoreFull(StoreError):
    """The disk is full. Nothing of the failed append was recorded."""

    code = "disk_full"


class StoreLocked(StoreError):
    """Another program kept the file locked for longer than the store waits."""

    code = "locked"


class StoreReadOnly(StoreError):
    """The file or its folder cannot be written."""

    code = "read_only"


class StoreUnavailable(StoreError):
    """The database server cannot be reached. Read the ledger to learn if an append in progress was recorded."""

    code = "unavailable"


class StoreRefused(StoreUnavailable):
    """The database server refused the connection: a part of the DSN is wrong, or a permission is missing."""

    code = "refused"
