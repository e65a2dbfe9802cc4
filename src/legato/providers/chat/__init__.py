"""The OpenAI Chat Completions API: its law book."""
