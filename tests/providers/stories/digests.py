"""Print a digest of each request body: `python -m tests.providers.stories.digests` plays a few stories over every provider format."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys

from legato.stores import MemoryStore
from tests.providers.stories.telling import tell
from tests.providers.stories.traffic import Provider, provider
from tests.providers.stories.wires import WIRES
from tests.stories.all import STORIES

TOLD = (
    "three user turns through two agents: each request grows by what was said, and by nothing else",
    "A -> B -> C -> A, policy everything: A's second request has B's and C's tool outputs",
    "images and files survive a handoff",
    "names with spaces, unicode and 80 characters: tool names stay legal and unique",
    "a handoff with a reason and typed input: invalid input is answered, valid input is recorded and given to the target",
    "a summary stands for what it covers, each message is in it or in the request, and the facts stay",
    "a provider that gives every call the same id: all calls are run and answered",
    "an unknown tool, broken JSON, wrong types, missing and extra arguments: the model is told precisely, and tries again",
)
STARTED = 1_790_000_000.0
"""When it is, for the provider: its ids tell the time."""


async def sent_over(wire: str, emulated: Provider) -> list[str]:
    """The digests of all bodies, in order."""
    kind = WIRES[wire]
    model = kind.make(emulated.emulator, False)
    digests: list[str] = []
    for title in TOLD:
        told = await tell(STORIES[title], emulated, kind, model, False, MemoryStore())
        digests += [hashlib.sha256(sent.body).hexdigest() for sent in told.traffic]
    await model.close()
    return digests


async def main() -> None:
    """All wires, and what this process makes of a hash: proof that the seeds differ."""
    with provider(clock=lambda: STARTED) as emulated:
        sent = {wire: await sent_over(wire, emulated) for wire in WIRES}
    json.dump({"hash": hash("legato"), "sent": sent}, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main())
