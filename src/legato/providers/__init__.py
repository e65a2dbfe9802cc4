"""The providers' APIs: `rules` (what each accepts) and `formats` (how requests are written and replies are read). Pure."""
