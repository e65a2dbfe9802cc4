"""Print a digest of each request body of a few stories in every format: `python -m tests.providers.stories.request_digests`."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys

from legato.stores import MemoryStore
from tests.providers.stories.recording_provider import RecordingProvider, run_provider
from tests.providers.stories.story_formats import FORMATS
from tests.providers.stories.story_player import play_story
from tests.stories.all_stories import STORIES

TITLES = (
    "three user turns through two agents: each request grows by what was said, and by nothing else",
    "A -> B -> C -> A, policy everything: A's second request has B's and C's tool outputs",
    "images and files survive a handoff",
    "names with spaces, unicode and 80 characters: tool names stay legal and unique",
    "a handoff with a reason and typed input: invalid input is answered, valid input is recorded and given to the target",
    "a summary stands for what it covers, each message is in it or in the request, and the facts stay",
    "a provider that gives every call the same id: all calls are run and answered",
    "an unknown tool, broken JSON, wrong types, missing and extra arguments: the model is told precisely, and tries again",
)
CLOCK_S = 1_790_000_000.0
"""The provider's time, which is part of its ids."""


async def digest_requests(format_name: str, emulated: RecordingProvider) -> list[str]:
    """Return the digests of all bodies, in order."""
    format = FORMATS[format_name]
    model = format.make(emulated.emulator, False)
    digests: list[str] = []
    for title in TITLES:
        played = await play_story(STORIES[title], emulated, format, model, False, MemoryStore())
        digests += [hashlib.sha256(request.body).hexdigest() for request in played.traffic]
    await model.close()
    return digests


async def main() -> None:
    """Print the digests of all formats, and a hash of this process, which shows its hash seed."""
    with run_provider(clock=lambda: CLOCK_S) as emulated:
        digests = {format: await digest_requests(format, emulated) for format in FORMATS}
    json.dump({"hash": hash("legato"), "sent": digests}, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main())
