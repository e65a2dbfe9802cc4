"""The public test kit: scripted models and people, failing stores, conformance checks, the simulator and the crash sweep."""

from legato.testing.branches import branch_sweep
from legato.testing.conformance import check_store
from legato.testing.crash import SweepReport, crash_sweep
from legato.testing.faults import Died, FailingStore, Fault
from legato.testing.loop import Deadlock, SimulatedLoop, Timeline
from legato.testing.people import Person
from legato.testing.promises import Deed, Rules, Violation, check_promises
from legato.testing.scripted import ScriptedModel, call, handoff
from legato.testing.simulator import Report, simulate
from legato.testing.story import Story, Told, World

__all__ = [
    "Deadlock",
    "Deed",
    "Died",
    "FailingStore",
    "Fault",
    "Person",
    "Report",
    "Rules",
    "ScriptedModel",
    "SimulatedLoop",
    "Story",
    "SweepReport",
    "Timeline",
    "Told",
    "Violation",
    "World",
    "branch_sweep",
    "call",
    "check_promises",
    "check_store",
    "crash_sweep",
    "handoff",
    "simulate",
]
