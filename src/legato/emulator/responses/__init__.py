"""The emulator's Responses API: what it stores, seals, says and streams."""
