"""The check of encoded requests against the provider's rules, before they are sent.

Unchanged parts are not checked again: a group is checked when it is first encoded, a turn context when it is first sent. The parts are
legal together (each call has one later output, ids are unique) because of the way in which requests are joined.
"""

from __future__ import annotations

import warnings
from typing import Literal, TypeAlias

from legato.errors import IllegalRequest
from legato.providers.formats.encoded_request import EncodedRequest

CheckMode: TypeAlias = Literal["strict", "warn"]
CERTAIN_GRADES = ("A", "B")


class DoubtfulRequest(UserWarning):
    """A warning: a request breaks a rule of the provider that is not certain."""


def check_request(request: EncodedRequest, mode: CheckMode = "strict") -> None:
    """Raise `IllegalRequest` if the provider would certainly refuse a request; warn if it may refuse it."""
    for violation in request.violations:
        if mode == "strict" and violation.rule.grade in CERTAIN_GRADES:
            raise IllegalRequest(
                f"the request breaks the provider's rule {violation.rule.id}: {violation.message}",
                expected=violation.rule.statement,
                found=f"at {violation.path or 'the request'}",
                do="nothing was sent; if you did not pass extra={...} or tools by hand, this is a bug in Legato: please report it",
                dump=request.body,
            )
        warnings.warn(DoubtfulRequest(str(violation)), stacklevel=3)
