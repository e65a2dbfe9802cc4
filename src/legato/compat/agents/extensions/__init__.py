"""`agents.extensions`, as far as handoffs go."""
