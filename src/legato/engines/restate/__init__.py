"""The Restate engine. Needs the extra `restate`."""
