"""The AI SDK, from npm, talks to a served workflow: whole and streamed, with approvals, and all messages sent each time."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faces import installed_tools
from tests.faces.server_process import ServerProcess

CLIENT_SCRIPT = Path(__file__).with_name("story.mjs")
FIRST_MESSAGE = "Order 7 arrived broken. Please refund the 24.50 that I paid."


def run_client(server: ServerProcess) -> dict[str, list[dict[str, Any]]]:
    """Run the client script and return its output. The script is copied beside its npm packages, where Node finds them."""
    story = installed_tools.NPM_FOLDER / "ai_sdk_story.mjs"
    story.write_text(CLIENT_SCRIPT.read_text())
    done = subprocess.run(["node", str(story), f"{server.origin}/v1", server.token], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    seen: dict[str, list[dict[str, Any]]] = json.loads(done.stdout)
    return seen


def test_ai_sdk_keeps_one_conversation_per_ledger(serve: Callable[..., ServerProcess]) -> None:
    server = serve()
    seen = run_client(server)
    for name, (asked, decided, greeted) in seen.items():
        assert asked["session"] == decided["session"] == greeted["session"], name
        facts = server.request(f"/api/sessions/{asked['session']}/facts")["facts"]
        assert [fact["content"] for fact in facts if fact["fact"] == "message_received"] == [FIRST_MESSAGE, "hello"], name
        verdicts = [fact["verdict"] for fact in facts if fact["fact"] == "decided"]
        assert verdicts == ["reject" if name == "rejected" else "approve"], name
        assert len([fact for fact in facts if fact["fact"] == "call_started"]) == (name != "rejected"), name
        assert [part["type"] for part in asked["content"]].count("tool-approval-request") == 1, name
        assert [part["toolName"] for part in decided["content"] if part["type"] == "tool-result"] == ["mcp.refund"], name
        assert greeted["text"], name
    assert len({turns[0]["session"] for turns in seen.values()}) == 4
    assert seen["whole"][1]["text"] == seen["streamed"][1]["text"] == "Done, the money is on its way."
