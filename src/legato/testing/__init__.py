"""The public test kit: scripted models and users, failing stores, store checks, the simulator and the crash sweep."""

from legato.testing.branch_sweeps import branch_sweep
from legato.testing.crash_sweeps import SweepReport, crash_sweep
from legato.testing.failing_store import Died, FailingStore, Fault
from legato.testing.promise_checks import ToolExecution, Violation, WorkflowRules, check_promises
from legato.testing.scripted_models import ScriptedModel, call, handoff
from legato.testing.scripted_users import ScriptedUser
from legato.testing.simulated_event_loop import Deadlock, SimulatedLoop, Timeline
from legato.testing.simulator import Report, simulate
from legato.testing.store_conformance import check_store
from legato.testing.story import Story, StoryResult, World

__all__ = [
    "Deadlock",
    "Died",
    "FailingStore",
    "Fault",
    "Report",
    "ScriptedModel",
    "ScriptedUser",
    "SimulatedLoop",
    "Story",
    "StoryResult",
    "SweepReport",
    "Timeline",
    "ToolExecution",
    "Violation",
    "WorkflowRules",
    "World",
    "branch_sweep",
    "call",
    "check_promises",
    "check_store",
    "crash_sweep",
    "handoff",
    "simulate",
]
