"""The emulator's Chat Completions API."""
