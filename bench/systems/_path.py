"""The import path of the scripts. Each imports this first: Legato comes from this tree, and no script hides a package of the same name."""

import sys
from pathlib import Path

_here = Path(__file__).resolve().parent
sys.path[:] = [str(_here.parents[1]), str(_here.parents[1] / "src"), *(path for path in sys.path if Path(path or ".").resolve() != _here)]
