"""Requests and replies of each provider's API: encoding, decoding, streams. Pure."""
