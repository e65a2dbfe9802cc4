"""Every example in a docstring runs and prints the output that it shows."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import legato

MODULES = sorted(module.name for module in pkgutil.walk_packages(legato.__path__, "legato.") if not module.name.endswith("__main__"))


@pytest.mark.parametrize("name", ["legato", *MODULES])
def test_docstring_examples_print_what_they_say(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name), verbose=False)
    assert outcome.failed == 0
