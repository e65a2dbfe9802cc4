"""The pure core: facts, the state machine, the planner, views. No I/O, clock, randomness or event loop."""
