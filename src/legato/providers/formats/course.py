"""A view as a wire goes through it, group by group. May know: groups. Decides: the ids of calls; that nothing is gone through twice.

What a wire makes of a group depends on the group and on what stands before it: which ids are taken, what the provider was told. The
next view of an agent usually begins with the whole of its last one. So what was made of a view is kept for its first group, the next
request takes it from there, and costs what is new. A view that begins otherwise is gone through from its beginning. This is a cache
and never a source: without it every request is the same bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from math import inf
from typing import TypeVar

from legato.core.groups import Group
from legato.core.view import Request
from legato.providers.formats.calls import usable_ids
from legato.providers.formats.group_cache import cache_of
from legato.providers.formats.losses import BARE

CourseT = TypeVar("CourseT", bound="Course")


class Course(ABC):
    """What a wire made of the groups so far. `origin`: who is asked; `about`: what it depends on besides the groups.

    It is kept for the first group, so it refers to those behind that one alone: a group that is kept by what is kept for it would live
    for ever.
    """

    def __init__(self, origin: str = "") -> None:
        self.about: tuple[object, ...] = ()
        self.origin = origin
        self.refused: float = -1
        """Reasoning that was made before this position was refused: it is not offered again."""
        self._begin()

    def _begin(self) -> None:
        self._passed = 0  # groups that were gone through
        self._rest: tuple[Group, ...] = ()  # those of them behind the first
        self._taken: set[str] = set()  # ids of calls
        self._told: set[str] = set()  # losses that a reply was recorded with
        self._bare: list[int] = []  # where replies stand that the provider only gave without reasoning
        self.begin()

    @abstractmethod
    def begin(self) -> None:
        """Nothing has been gone through yet."""

    @abstractmethod
    def add(self, group: Group, own: bool, request: Request) -> None:
        """The next group of a request. `own`: its calls get ids of ours."""

    def go(self, request: Request) -> None:
        """On to the end of a request whose view begins with what was gone through."""
        self._go(request)
        # A provider that has refused its reasoning twice is sent none at all: it would refuse every turn, and every turn would go twice.
        refused = inf if len(self._bare) > 1 else self._bare[0] if self._bare else -1
        if refused != self.refused:
            self.refused = refused
            self._begin()
            self._go(request)

    def _go(self, request: Request) -> None:
        for group in request.groups[self._passed :]:
            fact = group.fact
            if fact is not None:
                self._told.update(fact.losses)
                if fact.held.endswith(BARE) and fact.origin == self.origin:
                    self._bare.append(group.position)
            self.add(group, self._gets_own_ids(group), request)
        self._passed, self._rest = len(request.groups), request.groups[1:]

    def begins(self, groups: tuple[Group, ...]) -> bool:
        """Whether a view that has the same first group begins with what was gone through."""
        return self._rest == groups[1 : self._passed]

    def _gets_own_ids(self, group: Group) -> bool:
        """A group's calls keep their ids if they can be used and nobody before it has any of them. So what was decided stays so."""
        ids = usable_ids(group)
        if ids is None or not self._taken.isdisjoint(ids):
            return True
        self._taken.update(ids)
        return False

    def not_told_yet(self, losses: Iterable[str]) -> tuple[str, ...]:
        """The losses that no reply in this view was recorded with, each once: later requests leave the same things out."""
        return tuple(loss for loss in dict.fromkeys(losses) if loss not in self._told)


def course_of(request: Request, key: str, about: tuple[object, ...], begin: Callable[[], CourseT]) -> CourseT:
    """The course of a request's view. `key`: which of an agent's; there is one of each, kept for the first group of the view."""
    groups = request.groups
    key = f"{key} of {request.agent}"
    course: CourseT | None = cache_of(groups[0]).get(key) if groups else None
    if course is None or course.about != about or not course.begins(groups):
        course = begin()
        course.about = about
        if groups:
            cache_of(groups[0])[key] = course
    course.go(request)
    return course
