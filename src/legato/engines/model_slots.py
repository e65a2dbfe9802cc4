"""The slots of a worker: how many sessions it drives at the same time, for each model.

Each model has slots of its own. So sessions of a silent model take no more than its slots, however many they are, and sessions of other
models go on. A step holds a slot of the model that it requests, and changes it when it requests another model. If there is no free slot,
the step ends, and the engine has the session driven again later.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

from legato.models.fallback import FallbackModel
from legato.models.model import Model
from legato.runtime.worker_slot import OnRequestEnd, WorkerSlot
from legato.workflow.agent_as_tool import iter_workflow_tree
from legato.workflow.workflow import Workflow


class ModelSlots:
    """The slots of one worker: `per_model` for each model of its workflows. `on_freed` is called with a model that has a free slot
    again."""

    def __init__(self, workflows: Iterable[Workflow], per_model: int, on_freed: Callable[[str], None]) -> None:
        self._per_model = per_model
        self._on_freed = on_freed
        self._names = _name_models(workflows)
        self._in_use: Counter[str] = Counter()
        self._next_retry: dict[str, float] = {}  # when the newest waiting session tries again

    @property
    def total(self) -> int:
        """The number of all slots."""
        return self._per_model * len({*self._names.values()})

    @property
    def has_several_models(self) -> bool:
        """True if there are several models, whose sessions could block each other."""
        return len({*self._names.values()}) > 1

    def slot_name(self, model: Model, attempt: int = 1) -> str:
        """Return the name under which a model's slots are counted. For a `FallbackModel`, that of the model that this attempt requests."""
        if isinstance(model, FallbackModel):
            model = model.models[min(attempt, len(model.models)) - 1]
        return self._names.get(id(model), "")

    def has_free_slot(self, name: str) -> bool:
        """Return True if a slot of this model is free."""
        return self._in_use[name] < self._per_model

    def acquire_step_slot(self, name: str) -> StepSlot | None:
        """Return a slot of this model for one step; None if there is none."""
        return StepSlot(self, name) if self.acquire(name) else None

    def acquire(self, name: str) -> bool:
        """Take a slot of this model. Return False if there is none."""
        if not self.has_free_slot(name):
            return False
        self._in_use[name] += 1
        return True

    def release(self, name: str) -> None:
        """Release a slot."""
        self._in_use[name] -= 1
        self._on_freed(name)

    def seconds_until_retry(self, name: str) -> float:
        """Return the seconds until a session without a slot tries again, for engines that do not use `on_slot_freed`.

        As many sessions per second try as this model has slots, so the cost does not grow with the number of waiting sessions.
        """
        now = time.monotonic()
        due = max(now + 1, self._next_retry.get(name, 0.0) + 1 / self._per_model)
        self._next_retry[name] = due
        return due - now


class StepSlot(WorkerSlot):
    """The slot of one step. While requests to several models run in parallel, it holds one slot of each, afterwards one of the last
    model."""

    def __init__(self, slots: ModelSlots, name: str) -> None:
        self._slots = slots
        self._requests = {name: 0}  # model with a held slot -> number of running requests

    def admit(self, model: Model, attempt: int) -> OnRequestEnd | None:
        name = self._slots.slot_name(model, attempt)
        if name not in self._requests:
            if not self._slots.acquire(name):
                self.refused_model = name
                return None
            for idle in [held for held, running in self._requests.items() if not running]:
                del self._requests[idle]
                self._slots.release(idle)
            self._requests[name] = 0
        self._requests[name] += 1
        return partial(self._finish_request, name)

    def _finish_request(self, name: str, _: object) -> None:
        if name not in self._requests:
            return
        self._requests[name] -= 1
        if not self._requests[name] and len(self._requests) > 1:
            del self._requests[name]
            self._slots.release(name)

    def release(self) -> None:
        names, self._requests = list(self._requests), {}
        for name in names:
            self._slots.release(name)


def _name_models(workflows: Iterable[Workflow]) -> dict[int, str]:
    """Return a name for each model of these workflows, by the identity of its object.

    Models with the same name and address count as one, because each agent may have an object of its own. A model without an address is a
    model of its own.
    """
    names: dict[object, str] = {}
    found: dict[int, str] = {}
    for workflow in iter_workflow_tree(workflows):
        for agent in workflow.definition.agents.values():
            for model in agent.model.models if isinstance(agent.model, FallbackModel) else (agent.model,):
                address = getattr(model, "address", None)
                key: object = (model.name, address) if isinstance(address, str) else id(model)
                found[id(model)] = names.setdefault(key, f"{model.name} #{len(names) + 1}")
    return found
