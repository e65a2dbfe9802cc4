"""A view as a wire goes through it, group by group. May know: groups. Decides: the ids of calls; that nothing is gone through twice.

What a wire makes of a group depends on the group and on what stands before it: which ids are taken, what the provider was told. The
next view of an agent usually begins with the whole of its last one. So what was made of a view is kept with its last group, the next
request takes it from there, and costs what is new. A view that begins otherwise is gone through from its beginning. This is a cache
and never a source: without it every request is the same bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from legato.core.groups import Group
from legato.core.view import Request
from legato.wire.calls import usable_ids

CourseT = TypeVar("CourseT", bound="Course")


class Course(ABC):
    """What a wire made of the groups so far. `about`: what it depends on besides them."""

    def __init__(self, about: tuple[object, ...] = ()) -> None:
        self.about = about
        self.groups: tuple[Group, ...] = ()
        self._taken: set[str] = set()  # ids of calls
        self._told: set[str] = set()  # losses that a reply was recorded with

    def go(self, groups: tuple[Group, ...], contents: Mapping[str, bytes]) -> None:
        """On to the end of these groups, which begin with those that were gone through."""
        for group in groups[len(self.groups) :]:
            if group.fact is not None and group.fact.losses:
                self._told.update(group.fact.losses)
            self.add(group, self._gets_own_ids(group), contents)
        self.groups = groups

    @abstractmethod
    def add(self, group: Group, own: bool, contents: Mapping[str, bytes]) -> None:
        """The next group. `own`: its calls get ids of ours."""

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
    """The course of a request's view. `key`: which of an agent's; there is one of each, kept with the last group it went through."""
    groups = request.groups
    key = f"{key} of {request.agent}"
    course: CourseT | None = None
    for group in reversed(groups):
        if (course := group.wire.pop(key, None)) is not None:
            break
    if course is None or course.about != about or course.groups != groups[: len(course.groups)]:
        course = begin()
        course.about = about
    course.go(groups, request.contents)
    if groups:
        groups[-1].wire[key] = course
    return course
