"""What of a conversation people may see, as plain data: no HTTP, no terminal. The command, the HTTP API and MCP show what this says."""
