"""What the SDK has and this facade has not, told as the SDK's own errors. May know: the tables of it. Decides: which errors."""

from __future__ import annotations

from legato.compat.agents.exceptions import UserError
from legato.compat.agents.names_not_here import NAMES
from legato.compat.agents.not_here import AS_HERE, INSTEAD, NOTHING
from legato.compat.gaps import Gaps


class NotHere(UserError, AttributeError):
    """A part of one of the SDK's classes that cannot be had here. `hasattr` says so too."""


class NameNotHere(UserError, ImportError):
    """A name of the SDK's that cannot be had here."""


GAPS = Gaps(INSTEAD, NOTHING, NAMES, AS_HERE, NotHere, NameNotHere, UserError)
mirrors, weigh, absent_module = GAPS.mirrors, GAPS.weigh, GAPS.of_module
absent_name = GAPS.of_module("legato.compat.agents")
