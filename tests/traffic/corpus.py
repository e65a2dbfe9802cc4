"""The reader of a corpus of recorded exchanges: JSON lines, plain or compressed with xz.

A line has `key`, `repo`, `file`, `index`, `api`, `host`, `url`, `status`, `headers`, `request` and `response` (a body, or the text of an
event stream). Exchanges of one file belong together, in the order of `index`. An unreadable line is reported and skipped.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

Api = Literal["responses", "chat", "anthropic"]
APIS: tuple[Api, ...] = ("responses", "chat", "anthropic")

PROVIDER_HOSTS: dict[Api, tuple[str, ...]] = {
    "responses": ("openai", "azure"),
    "chat": ("openai", "azure"),
    "anthropic": ("anthropic",),
}
"""The providers whose answers count for the rules of each API. Other servers have rules of their own."""


class Exchange(Struct, frozen=True):
    """A request and its answer, as they were recorded."""

    key: str
    api: Api
    host: str
    status: int
    request: Any
    response: Any
    repo: str = ""
    file: str = ""
    index: int = 0
    url: str = ""
    headers: dict[str, Any] = {}

    @property
    def is_from_provider(self) -> bool:
        """True if the provider itself answered, and not another server with the same API."""
        return self.host in PROVIDER_HOSTS[self.api]

    @property
    def is_accepted(self) -> bool:
        """True if the server accepted the request."""
        return 200 <= self.status < 300

    @property
    def location(self) -> str:
        """The location of the exchange in the corpus."""
        return f"{self.key}  {self.repo}  {self.file}  #{self.index}"


class Corpus(Struct):
    """The exchanges of each file, in order, and reports of the unreadable lines."""

    recordings: list[list[Exchange]]
    damage_reports: list[str]

    def __len__(self) -> int:
        return sum(map(len, self.recordings))


def read_corpus(path: Path) -> Corpus:
    """Return all exchanges of a file, by recording."""
    damage_reports: list[str] = []
    by_file: dict[tuple[str, str], list[Exchange]] = {}
    for exchange in _decode_exchanges(_read_lines(path, damage_reports), damage_reports):
        by_file.setdefault((exchange.repo, exchange.file), []).append(exchange)
    return Corpus([sorted(recording, key=lambda each: each.index) for recording in by_file.values()], damage_reports)


def _read_lines(path: Path, damage_reports: list[str]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines with their numbers; of a truncated archive the readable ones."""
    number = 0
    with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
        try:
            for number, line in enumerate(file, 1):
                yield number, line
        except (lzma.LZMAError, EOFError) as error:
            damage_reports.append(f"the archive ends early, after line {number}: {error}")


def _decode_exchanges(lines: Iterable[tuple[int, bytes]], damage_reports: list[str]) -> Iterator[Exchange]:
    decoder = msgspec.json.Decoder(Exchange)
    for number, line in lines:
        if line.strip():
            try:
                yield decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                damage_reports.append(f"line {number}: {error}")
