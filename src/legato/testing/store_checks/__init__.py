"""The checks of `check_store`, in the order of the rules in `legato.stores.contract`.

A check is an async function of a `CheckEnvironment`. It uses the operations of the contract only, and raises if the store breaks the rule.
"""

from legato.testing.store_checks import (  # noqa: F401 - importing a module registers its checks
    append_and_read_checks,
    failure_checks,
    fork_and_deletion_checks,
    lease_and_watch_checks,
    ledger_id_checks,
    redaction_checks,
    runnable_checks,
    tenant_checks,
)
from legato.testing.store_checks.check_helpers import CHECKS

CHECKS.sort(key=lambda check: check[0])

__all__ = ["CHECKS"]
