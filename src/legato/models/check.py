"""Whether a compiled request may be sent. May know: complaints. Decides: which of them stop it.

What was judged and is unchanged is not judged again: a group is judged when it is first written, a frame when it is first sent. That
the parts are legal together (each call answered once, after it, ids unique) follows from how requests are joined.
"""

from __future__ import annotations

import warnings
from typing import Literal, TypeAlias

from legato.errors import IllegalRequest
from legato.providers.formats.compiled import Compiled

Check: TypeAlias = Literal["strict", "warn"]
CERTAIN = ("A", "B")


class DoubtfulRequest(UserWarning):
    """A request breaks a clause of the provider's that is not certain."""


def check(compiled: Compiled, how: Check = "strict") -> None:
    """Refuse a request that the provider would certainly refuse; warn of one that it may."""
    for complaint in compiled.complaints:
        if how == "strict" and complaint.clause.grade in CERTAIN:
            raise IllegalRequest(
                f"the request breaks clause {complaint.clause.id} of the provider: {complaint.message}",
                expected=complaint.clause.rule,
                found=f"at {complaint.path or 'the request'}",
                do="nothing was sent; if you did not pass extra={...} or tools by hand, this is a bug in Legato: please report it",
                dump=compiled.body,
            )
        warnings.warn(DoubtfulRequest(str(complaint)), stacklevel=3)
