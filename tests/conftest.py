"""What all tests share. Kept small: a story should be readable without looking here."""

from __future__ import annotations

from hypothesis import settings

# A slow machine is not a counterexample.
settings.register_profile("legato", deadline=None)
settings.load_profile("legato")
