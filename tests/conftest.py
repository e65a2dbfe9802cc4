"""What all tests share. Kept small: a story should be readable without looking here."""

from __future__ import annotations

import os

from hypothesis import settings

# Tests talk to the emulator. A developer's own keys would have some of them talk to the providers.
for _name in [name for name in os.environ if name.startswith(("OPENAI_", "ANTHROPIC_", "AZURE_OPENAI_"))]:
    del os.environ[_name]

# A slow machine is not a counterexample.
settings.register_profile("legato", deadline=None)
settings.load_profile("legato")
