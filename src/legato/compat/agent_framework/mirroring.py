"""What the framework has and this facade has not. May know: the tables of it. Decides: which errors tell it."""

from __future__ import annotations

from legato.compat.agent_framework.not_here import INSTEAD, NAMES, NOTHING
from legato.compat.gaps import Gaps
from legato.errors import BadInput

GAPS = Gaps(INSTEAD, NOTHING, NAMES, {}, AttributeError, ImportError, BadInput)
mirrors, weigh = GAPS.mirrors, GAPS.weigh
