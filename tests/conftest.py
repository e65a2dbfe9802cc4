"""What all tests share. Kept small: a story should be readable without looking here."""

from __future__ import annotations

import os
import signal

from hypothesis import settings

# Tests talk to the emulator. A developer's own keys would have some of them talk to the providers.
for _name in [name for name in os.environ if name.startswith(("OPENAI_", "ANTHROPIC_", "AZURE_OPENAI_"))]:
    del os.environ[_name]

# A shell that runs the tests in the background has them ignore Ctrl-C, and the processes that they start would too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A slow machine is not a counterexample.
settings.register_profile("legato", deadline=None)
settings.load_profile("legato")
