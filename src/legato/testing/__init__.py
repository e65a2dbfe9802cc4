"""The public test kit: scripted models and people, failing stores, conformance checks, the simulator and the crash sweep."""

from legato.testing.scripted import ScriptedModel, call, handoff

__all__ = ["ScriptedModel", "call", "handoff"]
