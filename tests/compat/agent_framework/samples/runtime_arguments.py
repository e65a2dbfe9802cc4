"""Values that only the caller knows go to tools by `function_invocation_kwargs`; no model sees them.

mailer: It is sent.
sent by ada with token-1
"""

from typing import Any

from legato.compat.agent_framework import FunctionInvocationContext, OpenAIResponsesClient, tool
from legato.compat.agent_framework.orchestrations import HandoffBuilder
from legato.emulator.fake_models import ScriptedCall, ScriptRule

SCRIPT = [
    ScriptRule(instructions="You route", say=ScriptedCall("handoff_to_mailer")),
    ScriptRule(after_tool="send", say="It is sent."),
    ScriptRule(instructions="You send", say=[ScriptedCall("send", {"text": "Hi"}), ScriptedCall("sign", {"text": "Hi"})]),
]
SENT: list[str] = []


@tool
def send(text: str, **kwargs: Any) -> str:
    """Send a mail."""
    SENT.append(f"sent by {kwargs['user']}")
    return "sent"


@tool
def sign(text: str, ctx: FunctionInvocationContext) -> str:
    """Sign a mail."""
    SENT.append(f"with {ctx.kwargs['token']}")
    return "signed"


async def main() -> None:
    SENT.clear()
    client = OpenAIResponsesClient(model="gpt-5.1")
    route = client.as_agent(name="route", instructions="You route.")
    mailer = client.as_agent(name="mailer", instructions="You send mails.", tools=[send, sign])
    workflow = HandoffBuilder(participants=[route, mailer]).build()
    result = await workflow.run("Mail them: Hi", function_invocation_kwargs={"user": "ada", "token": "token-1"})
    for output in result.get_outputs():
        print(f"{output.agent_id}: {output.text}")
    print(*sorted(SENT))
