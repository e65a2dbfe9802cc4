"""The pure centre: facts, state, what is owed, what is seen. Knows no IO, clock, randomness, logging or event loop."""
