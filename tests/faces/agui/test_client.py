"""AG-UI's own client, from npm, reads the runs of a served workflow. It checks every event against the protocol itself."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faces import installed_tools
from tests.faces.server_process import ServerProcess

CLIENT_SCRIPT = Path(__file__).with_name("story.mjs")


def run_client(server: ServerProcess) -> Any:
    """Run the client script and return its output. The script is copied beside its npm packages, where Node finds them."""
    story = installed_tools.NPM_FOLDER / CLIENT_SCRIPT.name
    story.write_text(CLIENT_SCRIPT.read_text())
    done = subprocess.run(["node", str(story), f"{server.origin}/agui", server.token], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def list_texts(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["role"], each["content"]) for each in messages if each["role"] in ("user", "assistant") and each.get("content")]


def test_agui_client_reads_run_with_handoff_and_approval(serve: Callable[..., ServerProcess]) -> None:
    server = serve()
    told = run_client(server)
    kinds = [event["type"] for event in told["asked"]["events"]]
    assert (kinds[0], kinds[-1]) == ("RUN_STARTED", "RUN_FINISHED")
    assert {"TOOL_CALL_START", "TOOL_CALL_RESULT", "SUBAGENT_STARTED", "SUBAGENT_FINISHED", "MESSAGES_SNAPSHOT"} <= {*kinds}
    (interrupt,) = told["asked"]["interrupts"]
    assert interrupt["reason"] == "tool_call"
    assert "not addressed by resume" in told["refused"]  # the client itself insists on an answer to each
    assert told["paid"]["interrupts"] == []
    results = [event for event in told["paid"]["events"] if event["type"] == "TOOL_CALL_RESULT"]
    assert [event["toolCallId"] for event in results] == [interrupt["toolCallId"]]
    assert told["again"]["messages"] == told["paid"]["messages"]  # a run in which nothing is new changes nothing
    assert list_texts(told["caught"]["messages"]) == list_texts(told["paid"]["messages"])  # who comes with nothing is given all of it
    assert list_texts(told["thanked"]["messages"])[:-2] == list_texts(told["paid"]["messages"])
    recorded = server.request("/api/sessions/thread-1/facts")["facts"]
    assert [fact["content"] for fact in recorded if fact["fact"] == "message_received"] == [
        content for role, content in list_texts(told["thanked"]["messages"]) if role == "user"
    ]
    assert told["complaints"] == []  # it found nothing that the protocol does not know, and nothing that it had to mend
