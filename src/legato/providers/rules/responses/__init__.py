"""Rules of the OpenAI Responses API."""
