"""The providers' APIs: `rules` (what each API accepts) and `formats` (encoding of requests, decoding of replies). Pure: no I/O."""
