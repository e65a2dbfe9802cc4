"""The error types and checks for the framework's names and arguments that this facade does not support."""

from __future__ import annotations

from legato.compat.agent_framework.unsupported import INSTEAD, NAMES, NOTHING
from legato.compat.gaps import Gaps
from legato.errors import BadInput

GAPS = Gaps(INSTEAD, NOTHING, NAMES, {}, AttributeError, ImportError, BadInput)
mirrors, check_arguments = GAPS.mirrors, GAPS.check_arguments
