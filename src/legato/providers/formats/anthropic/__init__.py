"""Requests and replies of the Anthropic Messages API."""
