"""Every error Legato raises. Each says who is at fault, what was expected, what came, and what to do next.

All derive from `LegatoError` and carry a stable `.code` that programs may branch on; messages may be reworded
between releases, codes may not.
"""

from __future__ import annotations

from math import inf
from typing import Any


def install_hint(*extras: str) -> str:
    """Say how to install what these extras bring."""
    return f"pip install '.[{','.join(extras)}]' in a clone of Legato"


class LegatoError(Exception):
    """The root of the tree. `str(error)` is written for a person; `error.code` for a program."""

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
    """The caller gave something that cannot be used. Nothing was written."""

    code = "bad_input"


class CodecError(BadInput):
    """Stored or imported bytes are not a fact that this version knows."""

    code = "codec"


class NewerFormat(CodecError):
    """The bytes were written by a newer Legato; they are refused by name, never guessed at."""

    code = "newer_format"


class CannotImport(BadInput):
    """Another framework's data that cannot be read, or not safely. Nothing of it was run, and nothing imported."""

    code = "cannot_import"


class BuildError(BadInput):
    """A workflow's definition cannot work; raised by `build()` with what to write instead."""

    code = "build"


class IllegalFact(LegatoError):
    """A fact that the state does not allow. It was not appended."""

    code = "illegal_fact"


class NotPending(LegatoError):
    """An answer to a request that is not pending: wrong, stale or repeated. Nothing was changed."""

    code = "not_pending"


class NotLoaded(LegatoError):
    """A session handle was asked about a ledger that it has not read yet."""

    code = "not_loaded"


class DefinitionChanged(LegatoError):
    """The ledger needs an agent or workflow that the present definition does not have. Nothing was lost."""

    code = "definition_changed"


class DrivenElsewhere(LegatoError):
    """Another driver holds the session's lease, and the caller wanted to lead or nothing. Nothing was changed."""

    code = "driven_elsewhere"


class EngineUnavailable(LegatoError):
    """The server of a durable engine cannot be reached, or does not serve what was named. What is in ledgers is as it was."""

    code = "engine_unavailable"


class ModelFailed(LegatoError):
    """A model gave no usable reply. `retryable` says whether the same call may go again; `reason` is the provider's own code.

    `status`: of the provider's HTTP answer, 0 if it is not known. `usage`: what the failed call cost, as far as the provider told (a
    `legato.models.Usage`). `retry_after`: seconds; what is no finite number from 0 on is dropped. `another`: another model stands by, and
    is asked next, whatever this failure was. `conversation_unchanged`: the provider's conversation is certain to be as it was before the
    request, so the next one may go on in it.
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
    """A request to a model that breaks a rule. It was not sent; `dump` is what would have been, for a report."""

    code = "illegal_request"

    def __init__(self, summary: str, *, expected: str = "", found: str = "", do: str = "", dump: bytes = b"") -> None:
        super().__init__(summary, expected=expected, found=found, do=do)
        self.dump = dump


class MCPFailed(LegatoError):
    """An MCP server cannot be reached, or does not speak the protocol. No tool of it was run by this."""

    code = "mcp_failed"


class ToolsChanged(MCPFailed):
    """An MCP server's tools are not those that were accepted. Nothing was offered or run; the changes are listed."""

    code = "tools_changed"


class StoreError(LegatoError):
    """A store could not do what was asked. What was acknowledged before is still there."""

    code = "store"
    store: object = None
    """The store that could not, where it was used for a session; None where somebody else used it, or made up the error."""


class LedgerConflict(StoreError):
    """Somebody else appended first. Nothing was written."""

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
    """No ledger of that name is in this store."""

    code = "unknown_ledger"


class LedgerExists(StoreError):
    """A ledger of that name is already in this store, and it is another one."""

    code = "ledger_exists"


class DamagedStore(StoreError):
    """Stored bytes changed since they were written. Facts before the damage are still readable."""

    code = "damaged"

    def __init__(self, summary: str, *, readable: int = 0, found: str = "", do: str = "") -> None:
        super().__init__(summary, found=found, do=do)
        self.readable = readable
        """How many facts from the start of the ledger can still be read."""


class StoreFull(StoreError):
    """The disk is full. Nothing of the refused append was recorded."""

    code = "disk_full"


class StoreLocked(StoreError):
    """Another program holds the file locked for longer than the store waits."""

    code = "locked"


class StoreReadOnly(StoreError):
    """The file or its folder cannot be written."""

    code = "read_only"


class StoreUnavailable(StoreError):
    """The database's server cannot be reached. Whether what was under way was recorded, only reading tells."""

    code = "unavailable"


class StoreRefused(StoreUnavailable):
    """The database's server is there, and does not let in whoever comes so: a part of the DSN is wrong, or a right is missing."""

    code = "refused"
