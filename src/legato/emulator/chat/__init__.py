"""The Chat Completions API in the emulator."""
