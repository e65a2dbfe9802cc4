"""The public test kit: scripted models and people, failing stores, conformance checks, the simulator and the crash sweep."""

from legato.testing.crash import SweepReport, crash_sweep
from legato.testing.faults import Died, FailingStore, Fault
from legato.testing.loop import Deadlock, SimulatedLoop, Timeline
from legato.testing.promises import Deed, Rules, Violation, check_promises
from legato.testing.scripted import ScriptedModel, call, handoff
from legato.testing.simulator import Report, simulate
from legato.testing.workflows import random_workflow

__all__ = [
    "Deadlock",
    "Deed",
    "Died",
    "FailingStore",
    "Fault",
    "Report",
    "Rules",
    "ScriptedModel",
    "SimulatedLoop",
    "SweepReport",
    "Timeline",
    "Violation",
    "call",
    "check_promises",
    "crash_sweep",
    "handoff",
    "random_workflow",
    "simulate",
]
