"""The definitions that users make: agents, workflows, and agents that work as tools."""
