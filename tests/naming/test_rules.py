"""Each naming rule finds an offender that is seeded into a copy of a small package."""

import subprocess
import sys

import pytest

from tests.naming.__main__ import ALLOWED, read_allowed
from tests.naming.rules import ROOT, find_offenders

MAX_ALLOWED = 17
"""The number of lines of `allowed.txt`. It only ever goes down."""

GOOD = '''"""Orders of a shop."""

MAX_ORDERS = 3
"""The number of orders that a customer may have."""


class OrderStore:
    """A store of orders."""

    def read_order(self, order_id: str) -> str:
        """Return one order."""
        return order_id  # the id is the order
'''

SEEDED = {
    "module named by a gerund": ("ordering.py", GOOD),
    "module named by a participle": ("told.py", GOOD),
    "bare participle": ("orders.py", GOOD.replace("read_order", "told")),
    "constant that does not say what it limits": ("orders.py", GOOD.replace("MAX_ORDERS", "MOST_ORDERS")),
    "docstring opening": ("orders.py", GOOD.replace("Return one order", "What was ordered")),
    "word in docstring": ("orders.py", GOOD.replace("Return one order", "Return it to whoever asks")),
    "word in comment": ("orders.py", GOOD.replace("the id is the order", "somebody may need it")),
    "class name that occurs more than once": ("other.py", GOOD),
}


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "src" / "legato"
    folder.mkdir(parents=True)
    (tmp_path / "tests").mkdir()
    (folder / "orders.py").write_text(GOOD)
    return folder


def find_rules(package):
    return {offender.rule for offender in find_offenders(package.parents[1])}


def test_good_names_are_no_offenders(package):
    assert find_rules(package) == set()


@pytest.mark.parametrize(("rule", "seed"), SEEDED.items(), ids=SEEDED)
def test_seeded_offender_is_found(package, rule, seed):
    file, text = seed
    (package / file).write_text(text)
    assert rule in find_rules(package)


@pytest.mark.parametrize("parameter", ["given", "*given", "**given"])
def test_parameters_are_no_bare_participles(package, parameter):
    (package / "orders.py").write_text(GOOD.replace("order_id: str", parameter).replace("return order_id", 'return ""'))
    assert find_rules(package) == {"bare participle"}


@pytest.mark.parametrize(("name", "words"), [("test_orders_arrive", 2), ("test_an_order_that_was_sent_twice_is_paid_once", 9)])
def test_test_names_have_four_to_eight_words(package, name, words):
    (package.parents[1] / "tests" / "test_orders.py").write_text(f"def {name}():\n    pass\n")
    assert find_rules(package) == {f"test name of {words} words"}


def test_allowed_lines_only_become_fewer():
    assert len(read_allowed(ALLOWED)) <= MAX_ALLOWED


def test_command_fails_for_a_stale_line(tmp_path):
    allowed = tmp_path / "allowed.txt"
    allowed.write_text(ALLOWED.read_text() + "src/legato/gone.py: bare participle: told\n")
    command = [sys.executable, "-m", "tests.naming", "--allowed", str(allowed)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "delete it: src/legato/gone.py" in done.stdout
