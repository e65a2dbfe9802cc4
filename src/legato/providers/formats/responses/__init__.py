"""Requests and replies of the OpenAI Responses API."""
