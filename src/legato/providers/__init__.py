"""What providers accept and refuse, and how to speak to them. Pure: no IO, no clock, no randomness."""
