"""Read models for people: model inputs and why, usage, diffs, export. Secrets are masked."""
