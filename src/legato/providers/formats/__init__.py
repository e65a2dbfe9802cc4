"""Encoding of requests and decoding of replies and streams, for each provider's API. Pure: no I/O."""
