"""The Temporal engine. Needs the extra `temporal`."""
