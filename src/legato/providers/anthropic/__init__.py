"""The Anthropic Messages API: its law book."""
