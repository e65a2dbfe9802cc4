"""The OpenAI Responses API: its law book."""
