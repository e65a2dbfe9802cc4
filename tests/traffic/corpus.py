"""Reads a corpus of recorded exchanges: a line of JSON each, plain or compressed with xz.

A line has `key`, `repo`, `file`, `index`, `api`, `host`, `url`, `status`, `headers`, `request` and `response` (a body, or the text of an
event stream). Exchanges of one file belong together, in the order of `index`. A line that cannot be read is named and left out.
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
"""Whose verdict counts for the rules of each API. Others speak the API by rules of their own."""


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
    def of_provider(self) -> bool:
        """Whether the provider itself answered, and not a server that speaks its API."""
        return self.host in PROVIDER_HOSTS[self.api]

    @property
    def accepted(self) -> bool:
        """Whether the server took the request."""
        return 200 <= self.status < 300

    @property
    def place(self) -> str:
        """Where to find it in the corpus."""
        return f"{self.key}  {self.repo}  {self.file}  #{self.index}"


class Corpus(Struct):
    """The exchanges of each file, in order, and the lines that could not be read."""

    recordings: list[list[Exchange]]
    damaged: list[str]

    def __len__(self) -> int:
        return sum(map(len, self.recordings))


def read_corpus(path: Path) -> Corpus:
    """All exchanges of a file, by recording."""
    damaged: list[str] = []
    by_file: dict[tuple[str, str], list[Exchange]] = {}
    for exchange in _exchanges(_lines(path, damaged), damaged):
        by_file.setdefault((exchange.repo, exchange.file), []).append(exchange)
    return Corpus([sorted(recording, key=lambda each: each.index) for recording in by_file.values()], damaged)


def _lines(path: Path, damaged: list[str]) -> Iterator[tuple[int, bytes]]:
    """The lines with their numbers. Of an archive that is cut off, what can be read."""
    number = 0
    with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
        try:
            for number, line in enumerate(file, 1):
                yield number, line
        except (lzma.LZMAError, EOFError) as error:
            damaged.append(f"the archive ends early, after line {number}: {error}")


def _exchanges(lines: Iterable[tuple[int, bytes]], damaged: list[str]) -> Iterator[Exchange]:
    decoder = msgspec.json.Decoder(Exchange)
    for number, line in lines:
        if line.strip():
            try:
                yield decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                damaged.append(f"line {number}: {error}")
