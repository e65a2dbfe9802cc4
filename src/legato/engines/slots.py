"""How many sessions a worker advances at the same time, for each model.

Each model has slots of its own. So sessions whose model is silent hold no more than the slots of that model, however many they are,
and those of other models go on. A step holds a slot of the model that it requests, and changes it when it requests another. Where
there is none left, it ends, and the engine has the session advanced again later.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

from legato.models.base import Model
from legato.models.fallback import FallbackModel
from legato.runtime.worker_slot import Done, Slot
from legato.workflow.agent_as_tool import with_child_workflows
from legato.workflow.workflow import Workflow


class ModelSlots:
    """The slots of one worker: `per_model` for each model of its workflows. `freed` is called with a model that has a slot again."""

    def __init__(self, workflows: Iterable[Workflow], per_model: int, freed: Callable[[str], None]) -> None:
        self._per_model = per_model
        self._freed = freed
        self._names = _names_of(workflows)
        self._taken: Counter[str] = Counter()
        self._next_visit: dict[str, float] = {}  # when the newest of those that were turned away comes again

    @property
    def total(self) -> int:
        """All slots together."""
        return self._per_model * len({*self._names.values()})

    @property
    def shared(self) -> bool:
        """Whether there are several models, which could be in each other's way."""
        return len({*self._names.values()}) > 1

    def name_of(self, model: Model, attempt: int = 1) -> str:
        """The name under which this model's slots are counted. Of a `FallbackModel`, the one that this attempt asks."""
        if isinstance(model, FallbackModel):
            model = model.models[min(attempt, len(model.models)) - 1]
        return self._names.get(id(model), "")

    def has_room(self, name: str) -> bool:
        """Whether a slot of this model is free."""
        return self._taken[name] < self._per_model

    def slot(self, name: str) -> StepSlot | None:
        """A slot of this model for one step; None if there is none."""
        return StepSlot(self, name) if self.take(name) else None

    def take(self, name: str) -> bool:
        """Take a slot of this model, if there is one."""
        if not self.has_room(name):
            return False
        self._taken[name] += 1
        return True

    def give_back(self, name: str) -> None:
        """Give a slot back."""
        self._taken[name] -= 1
        self._freed(name)

    def seconds_to_next_visit(self, name: str) -> float:
        """When a session that was turned away comes again, for engines that cannot be told when a slot is free.

        They come one after another, as many per second as this model has slots: however many wait, looking costs no more than that.
        """
        now = time.monotonic()
        due = max(now + 1, self._next_visit.get(name, 0.0) + 1 / self._per_model)
        self._next_visit[name] = due
        return due - now


class StepSlot(Slot):
    """The slot of one step. While requests to several models run side by side, it is one of each, and afterwards one of the last."""

    def __init__(self, slots: ModelSlots, name: str) -> None:
        self._slots = slots
        self._requests = {name: 0}  # the models of which it has a slot, and how many requests run there

    def admit(self, model: Model, attempt: int) -> Done | None:
        name = self._slots.name_of(model, attempt)
        if name not in self._requests:
            if not self._slots.take(name):
                self.refused = name
                return None
            for idle in [held for held, running in self._requests.items() if not running]:
                del self._requests[idle]
                self._slots.give_back(idle)
            self._requests[name] = 0
        self._requests[name] += 1
        return partial(self._ended, name)

    def _ended(self, name: str, _: object) -> None:
        if name not in self._requests:
            return
        self._requests[name] -= 1
        if not self._requests[name] and len(self._requests) > 1:
            del self._requests[name]
            self._slots.give_back(name)

    def release(self) -> None:
        names, self._requests = list(self._requests), {}
        for name in names:
            self._slots.give_back(name)


def _names_of(workflows: Iterable[Workflow]) -> dict[int, str]:
    """A name for each model of these workflows, by the identity of its object.

    Models of one name at one address are one: each agent may have an object of its own. What has no address stands for itself.
    """
    names: dict[object, str] = {}
    found: dict[int, str] = {}
    for workflow in with_child_workflows(workflows):
        for agent in workflow.definition.agents.values():
            for model in agent.model.models if isinstance(agent.model, FallbackModel) else (agent.model,):
                address = getattr(model, "address", None)
                key: object = (model.name, address) if isinstance(address, str) else id(model)
                found[id(model)] = names.setdefault(key, f"{model.name} #{len(names) + 1}")
    return found
