"""The checks of `check_store`, in the order of the contract. May know: the contract's operations, and nothing of any store.

A check is an async function of a `Place`; it raises if the store does something else than the contract says.
"""

from legato.testing.store_checks import (  # noqa: F401 - each enters its checks
    appending,
    driving,
    failing,
    forking,
    identity,
    redacting,
    resting,
    tenants,
)
from legato.testing.store_checks.parts import CHECKS

CHECKS.sort(key=lambda check: check[0])

__all__ = ["CHECKS"]
