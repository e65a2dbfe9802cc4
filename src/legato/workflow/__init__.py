"""What users define: agents, workflows, and agents that work as tools."""
