"""The loop: fold, owed, perform, append. One performer per kind of effect; streaming observes the same loop."""
