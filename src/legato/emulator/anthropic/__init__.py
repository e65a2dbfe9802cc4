"""The emulator's Anthropic Messages API."""
