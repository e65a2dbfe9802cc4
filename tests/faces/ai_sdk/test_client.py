"""The AI SDK, from npm, talks to a served workflow: whole and streamed, with approvals, and all messages sent each time."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faces import finding
from tests.faces.serving import Server

STORY = Path(__file__).with_name("story.mjs")
ASKED = "Order 7 arrived broken. Please refund the 24.50 that I paid."


def run_story(server: Server) -> dict[str, list[dict[str, Any]]]:
    """What the client saw. A program finds its packages beside itself, so it is brought to them."""
    story = finding.NPM / "ai_sdk_story.mjs"
    story.write_text(STORY.read_text())
    done = subprocess.run(["node", str(story), f"{server.origin}/v1", server.token], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    seen: dict[str, list[dict[str, Any]]] = json.loads(done.stdout)
    return seen


def test_the_ai_sdk_keeps_one_conversation_in_its_ledger(serve: Callable[..., Server]) -> None:
    server = serve()
    seen = run_story(server)
    for name, (asked, decided, greeted) in seen.items():
        assert asked["session"] == decided["session"] == greeted["session"], name
        facts = server.ask(f"/api/sessions/{asked['session']}/facts")["facts"]
        assert [fact["content"] for fact in facts if fact["fact"] == "message_received"] == [ASKED, "hello"], name
        verdicts = [fact["verdict"] for fact in facts if fact["fact"] == "decided"]
        assert verdicts == ["reject" if name == "rejected" else "approve"], name
        assert len([fact for fact in facts if fact["fact"] == "call_started"]) == (name != "rejected"), name
        assert [part["type"] for part in asked["content"]].count("tool-approval-request") == 1, name
        assert [part["toolName"] for part in decided["content"] if part["type"] == "tool-result"] == ["mcp.refund"], name
        assert greeted["text"], name
    assert len({turns[0]["session"] for turns in seen.values()}) == 4
    assert seen["whole"][1]["text"] == seen["streamed"][1]["text"] == "Done, the money is on its way."
