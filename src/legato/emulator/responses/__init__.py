"""The Responses API in the emulator: storage, encrypted reasoning, replies and streams."""
