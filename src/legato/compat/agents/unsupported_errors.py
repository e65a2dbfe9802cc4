"""The error types and checks for the SDK's names and arguments that this facade does not support."""

from __future__ import annotations

from legato.compat.agents.exceptions import UserError
from legato.compat.agents.unsupported import AS_HERE, INSTEAD, NOTHING
from legato.compat.agents.unsupported_names import NAMES
from legato.compat.gaps import Gaps


class NotHere(UserError, AttributeError):
    """A part of one of the SDK's classes that cannot be had here. `hasattr` says so too."""


class NameNotHere(UserError, ImportError):
    """A name of the SDK's that cannot be had here."""


GAPS = Gaps(INSTEAD, NOTHING, NAMES, AS_HERE, NotHere, NameNotHere, UserError)
mirrors, check_arguments, absent_module = GAPS.mirrors, GAPS.check_arguments, GAPS.of_module
absent_name = GAPS.of_module("legato.compat.agents")
