"""Rules of the OpenAI Chat Completions API."""
