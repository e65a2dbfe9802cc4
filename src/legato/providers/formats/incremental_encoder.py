"""Encoding of a view group by group, so that the next request costs only its new groups.

The encoding of a group depends on the group and on the groups before it: which call ids are used, what the provider was sent. The next
view of an agent usually begins with its whole previous view. So the encoder of a view is cached under the view's first group, and the
next request continues with it. A view that begins otherwise is encoded from its first group. This is a cache: without it every request
has the same bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from math import inf
from typing import TypeVar

from legato.core.groups import Group
from legato.core.view import ModelRequest
from legato.providers.formats.call_ids import find_usable_call_ids
from legato.providers.formats.group_cache import get_group_cache
from legato.providers.formats.loss_reasons import REASONING_REFUSED_MARK

EncoderT = TypeVar("EncoderT", bound="IncrementalEncoder")


class IncrementalEncoder(ABC):
    """The encoded groups so far. `origin`: the API, address and model; `dependencies`: what the encoding depends on besides the groups.

    It is cached under the first group, so it holds references to later groups only: a group that its own cache refers to is never freed.
    """

    def __init__(self, origin: str = "") -> None:
        self.dependencies: tuple[object, ...] = ()
        self.origin = origin
        self.refused_before: float = -1
        """The provider refused reasoning from before this ledger position: it is not replayed again."""
        self._restart()

    def _restart(self) -> None:
        self._group_count = 0  # encoded groups
        self._later_groups: tuple[Group, ...] = ()  # the encoded groups after the first
        self._used_call_ids: set[str] = set()
        self._recorded_losses: set[str] = set()  # losses recorded with a reply of this view
        self._unreasoned_positions: list[int] = []  # positions of replies that the provider gave only to requests without reasoning
        self.reset()

    @abstractmethod
    def reset(self) -> None:
        """Discard all encoded groups."""

    @abstractmethod
    def add_group(self, group: Group, use_own_ids: bool, request: ModelRequest) -> None:
        """Encode the next group of a request. `use_own_ids`: its calls get ids made by Legato."""

    def advance(self, request: ModelRequest) -> None:
        """Encode the remaining groups of a request whose view begins with the encoded groups."""
        self._add_new_groups(request)
        # A provider that refused its reasoning twice is sent none at all: it would refuse every turn, and every turn would be sent twice.
        positions = self._unreasoned_positions
        refused_before = inf if len(positions) > 1 else positions[0] if positions else -1
        if refused_before != self.refused_before:
            self.refused_before = refused_before
            self._restart()
            self._add_new_groups(request)

    def _add_new_groups(self, request: ModelRequest) -> None:
        for group in request.groups[self._group_count :]:
            fact = group.fact
            if fact is not None:
                self._recorded_losses.update(fact.losses)
                if fact.stored_digest.endswith(REASONING_REFUSED_MARK) and fact.origin == self.origin:
                    self._unreasoned_positions.append(group.position)
            self.add_group(group, self._needs_own_ids(group), request)
        self._group_count, self._later_groups = len(request.groups), request.groups[1:]

    def is_prefix_of(self, groups: tuple[Group, ...]) -> bool:
        """Return True if a view with the same first group begins with the encoded groups."""
        return self._later_groups == groups[1 : self._group_count]

    def _needs_own_ids(self, group: Group) -> bool:
        """Return True if a group's calls cannot keep their ids: one is unusable, or an earlier call has it. Later groups change nothing."""
        ids = find_usable_call_ids(group)
        if ids is None or not self._used_call_ids.isdisjoint(ids):
            return True
        self._used_call_ids.update(ids)
        return False

    def select_new_losses(self, losses: Iterable[str]) -> tuple[str, ...]:
        """Return the losses that are recorded with no reply of this view, each once: later requests leave out the same content."""
        return tuple(loss for loss in dict.fromkeys(losses) if loss not in self._recorded_losses)


def get_cached_encoder(request: ModelRequest, key: str, dependencies: tuple[object, ...], make_encoder: Callable[[], EncoderT]) -> EncoderT:
    """Return the encoder of a request's view, advanced to its end. The first group's cache keeps one per agent and `key`."""
    groups = request.groups
    key = f"{key} of {request.agent}"
    encoder: EncoderT | None = get_group_cache(groups[0]).get(key) if groups else None
    if encoder is None or encoder.dependencies != dependencies or not encoder.is_prefix_of(groups):
        encoder = make_encoder()
        encoder.dependencies = dependencies
        if groups:
            get_group_cache(groups[0])[key] = encoder
    encoder.advance(request)
    return encoder
