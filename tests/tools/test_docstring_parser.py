"""Docstrings in all common styles are parsed."""

from __future__ import annotations

from inspect import cleandoc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.tools.docstring_parser import parse_docstring

GOOGLE = """
    Refund an order,
    once.

    Only for managers.

    Args:
        order_id (str): which: the one
            on the receipt

        cents: how much
        **options (dict): more

    Returns:
        what: happened
"""

NUMPY = """
    Refund an order,
    once.

    Only for managers.

    Parameters
    ----------
    order_id : str
        which: the one
        on the receipt
    cents
        how much
    **options : dict
        more

    Returns
    -------
    str
        what happened
"""

SPHINX = """
    Refund an order,
    once.

    Only for managers.

    :param str order_id: which: the one
        on the receipt
    :param cents: how much
    :type cents: int
    :param dict options:
        more
    :returns: what happened
"""


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_each_docstring_style_is_parsed(docstring: str) -> None:
    found = parse_docstring(cleandoc(docstring))
    assert found.summary == "Refund an order, once."
    assert found.arguments == {"order_id": "which: the one on the receipt", "cents": "how much", "options": "more"}


@pytest.mark.parametrize(
    ("docstring", "summary", "arguments"),
    [
        ("", "", {}),
        ("Only this.", "Only this.", {}),
        ("Args:\n    a: one", "", {"a": "one"}),
        ("Do it.\nArgs:\n    a: one", "Do it.", {"a": "one"}),
        ("Do it.\n\nArgs:\n    a:\n        one\n        two", "Do it.", {"a": "one two"}),
        ("Do it.\n\nArgs:\n    nothing to see", "Do it.", {}),
        ("Note: this is no section.\n\na: nor this", "Note: this is no section.", {}),
        (":param a: one", "", {"a": "one"}),
    ],
)
def test_undescribed_arguments_are_left_out(docstring: str, summary: str, arguments: dict[str, str]) -> None:
    found = parse_docstring(docstring)
    assert (found.summary, found.arguments) == (summary, arguments)


@given(st.text(st.sampled_from("Args:Parameters-\n :param a()*")) | st.text())
def test_no_docstring_is_an_error(docstring: str) -> None:
    parse_docstring(docstring)
