"""Anthropic's Messages API in the emulator."""
