"""Requests and replies of the OpenAI Chat Completions API."""
