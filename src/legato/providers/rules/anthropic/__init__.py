"""Rules of the Anthropic Messages API."""
