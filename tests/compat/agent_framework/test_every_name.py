"""Every public name of the original's classes is here, or says what to write instead: no program ends in a bare AttributeError."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from legato.compat import agent_framework as af
from legato.compat.agent_framework import unsupported
from legato.compat.gaps import Absent
from legato.compat.migration import migrate_program
from legato.errors import BadInput
from tests.compat.agent_framework.desk import desk
from tests.compat.agent_framework.originals import EARLIER, HERE, NOT_HERE, ORIGINALS

ROOT = Path(__file__).parents[3]
CASES = [
    (owner, name, where)
    for table in (ORIGINALS, EARLIER)
    for owner, stands in table.items()
    for where, names in stands.items()
    for name in names.split()
]


async def objects(tmp_path: Path) -> dict[str, Any]:
    """One object of each class, as programs come by them."""
    storage = af.FileCheckpointStorage(tmp_path)
    workflow = desk(storage)
    result = await workflow.run("Pay me 5")
    (event,) = result.get_request_info_events()
    (turn,) = (await workflow.run(responses={event.request_id: True})).get_request_info_events()
    client = af.OpenAIResponsesClient("gpt-5.1")
    agent = client.as_agent(name="clerk")
    message = af.Message("user", ["Hi"])
    (checkpoint, *_) = await storage.list_checkpoints(workflow_name="desk")
    found = [
        agent,
        af.AgentContext(agent, [message]),
        await agent.run("Bye"),
        af.AgentResponseUpdate(contents=[af.Content.from_text("Hi")]),
        agent.create_session(),
        af.ChatContext(client, [message], {}),
        af.CheckpointStorage(storage.store),
        event.data,
        af.ContextProvider("mine"),
        storage,
        af.FunctionInvocationContext(arguments={}, kwargs={}, session=agent.create_session()),
        af.HistoryProvider(),
        af.InMemoryCheckpointStorage(),
        message,
        workflow.run("Bye", stream=True),
        af.SessionContext(),
        workflow,
        workflow.as_agent(),
        checkpoint,
        af.WorkflowErrorDetails("ModelFailed", "why"),
        event,
        result,
        turn.data,
        af.HandoffBuilder(participants=[agent]),
        af.HandoffSentEvent("a", "b"),
        af.OpenAIChatClient("gpt-4.1"),
        af.OpenAIChatCompletionClient("gpt-4.1"),
    ]
    return {type(each).__name__: each for each in found}


@pytest.mark.usefixtures("emulator")
async def test_every_original_name_exists_or_names_its_replacement(tmp_path: Path) -> None:
    made = await objects(tmp_path)
    assert ORIGINALS.keys() == made.keys()
    assert EARLIER.keys() <= made.keys()
    for owner, name, where in CASES:
        if where == HERE:
            getattr(made[owner], name)  # an AttributeError is a gap
            continue
        assert where == NOT_HERE
        for of in (made[owner], type(made[owner])):
            assert not hasattr(of, name)
            with pytest.raises(AttributeError, match=rf"\w+\.{name} is not here: \w.{{10}}"):
                getattr(of, name)
    await made["FileCheckpointStorage"].close()


def test_unsupported_names_are_names_of_the_original() -> None:
    for owner in ORIGINALS:
        cls = getattr(af, owner)
        silent = {name for each in cls.__mro__ for name, value in vars(each).items() if isinstance(value, Absent)}
        known = {name for table in (ORIGINALS, EARLIER) for stands in table.values() for names in stands.values() for name in names.split()}
        arguments = {"output_from", "intermediate_output_from", "allowed_checkpoint_types"}
        assert silent <= known | arguments, owner


@pytest.mark.parametrize("name", unsupported.NAMES)
def test_a_name_that_cannot_be_imported_says_why(name: str) -> None:
    with pytest.raises(ImportError, match=f"{name} is not here: .{{20}}"):
        exec(f"from legato.compat.agent_framework import {name}")
    assert name not in af.__all__


def test_every_use_of_mcp_is_refused() -> None:
    client = af.OpenAIResponsesClient("gpt-5.1")
    for asked in (lambda: af.MCPStdioTool, lambda: client.get_mcp_tool, lambda: client.as_agent(name="a").mcp_tools):
        with pytest.raises((ImportError, AttributeError), match=r"legato\.mcp\.MCPServer"):
            asked()

    class MCPStdioTool:
        """As imported from the framework itself: a program of which only half was moved."""

    with pytest.raises(BadInput, match=r"legato\.mcp\.MCPServer"):
        client.as_agent(name="a", tools=[MCPStdioTool()])


def test_unsupported_argument_names_its_replacement() -> None:
    agent = af.OpenAIResponsesClient("gpt-5.1").as_agent(name="a")
    for name in unsupported.RUN_OF_AGENT:
        with pytest.raises(BadInput, match=rf"Agent.run\({name}=...\) is not here: .*[a-z]"):
            agent.run("Hi", **{name: object()})
    for name in ("tools", "client_kwargs"):
        with pytest.raises(BadInput, match=rf"Workflow.run\({name}=...\) is not here: .*belong to an agent"):
            desk(af.InMemoryCheckpointStorage()).run("Hi", **{name: [print]})
    with pytest.raises(BadInput, match=r"tool\(result_parser=...\) is not here: .*return"):
        af.tool(result_parser=len)
    with pytest.raises(BadInput, match="give the agents themselves"):
        af.HandoffBuilder(participant_factories={"a": len})


@pytest.mark.usefixtures("emulator")
async def test_workflow_and_events_describe_themselves() -> None:
    workflow = desk(af.InMemoryCheckpointStorage())
    assert (workflow.id, workflow.start_executor_id) == (workflow.session_id, "triage")
    (approval,) = (await workflow.run("Pay me 5")).get_request_info_events()
    assert (approval.response_type, approval.request_type, approval.iteration) == (af.Content, af.Content, None)
    (turn,) = (await workflow.run(responses={approval.request_id: True})).get_request_info_events()
    assert (turn.response_type, turn.request_type) == (list[af.Message], af.HandoffAgentUserRequest)
    with pytest.raises(BadInput, match="only an event of type 'request_info'"):
        af.WorkflowEvent("started").response_type


# -- pointers to pages -------------------------------------------------------------------------------------------------------


def test_messages_point_to_existing_page_sections() -> None:
    """Every "docs/..." in what the facades and `legato migrate` say names a page that exists."""
    for source in sorted((ROOT / "src/legato/compat").rglob("*.py")):
        for page in re.findall(r"docs/[\w/.-]*\w", source.read_text(encoding="utf-8")):
            assert (ROOT / page).exists(), f"{source.name} points to {page}"
    (nobody,) = migrate_program("from agent_framework import Nobody", {"agent_framework": ()}).missing
    assert "docs/migrate/agent-framework.md#names lists what is covered, with the native way of each" in nobody.instead
    for name in ("agent-framework", "openai-agents"):
        page = (ROOT / f"docs/migrate/{name}.md").read_text(encoding="utf-8")
        (header,) = re.findall(r"\n## Names\n(?:(?!\n##)[^|])*(\|.*)\n", page)
        assert re.search(r"\| native(ly)? \|$", header)


def test_what_to_write_instead_is_there() -> None:
    """The names of Legato's own in the words are what they are said to be."""
    tables = [table for name, table in vars(unsupported).items() if name.isupper() and isinstance(table, dict) and name != "_BY_OWNER"]
    said = " ".join(words for table in tables for words in table.values())
    for dotted in set(re.findall(r"\blegato\.([A-Za-z][\w.]*\w)", said)):
        *modules, name = dotted.split(".")
        assert hasattr(importlib.import_module(".".join(["legato", *modules])), name), dotted
    workflow = desk(af.InMemoryCheckpointStorage())
    for method in set(re.findall(r"workflow\.(?!native|session)(\w+)", said)):
        assert inspect.getattr_static(af.Workflow, method)
    for method in set(re.findall(r"workflow\.native\.(\w+)", said)):
        assert hasattr(workflow.native, method)
    for method in set(re.findall(r"\bsession\.(\w+)", said)) | set(re.findall(r"refresh\(\)\)\.(\w+)", said)):
        assert inspect.getattr_static(type(workflow.session()), method)
