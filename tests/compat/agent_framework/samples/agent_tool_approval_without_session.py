"""The same without a session: the messages are handed over again, with the request and its answer.

Sunny: approved in the second run
again: not_pending
"""

from legato.compat.agent_framework import ChatAgent, ChatMessage, OpenAIChatClient, ai_function
from legato.emulator.fake_models import ScriptedCall, ScriptRule
from legato.errors import NotPending

SCRIPT = [
    ScriptRule(after_tool="weather", say="Sunny: approved in the second run"),
    ScriptRule(said="weather", say=ScriptedCall("weather", {"city": "Lisbon"})),
]


@ai_function(approval_mode="always_require")
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


async def main() -> None:
    agent = ChatAgent(chat_client=OpenAIChatClient(model_id="gpt-4.1"), instructions="You know the weather.", tools=[weather])
    query = "What is the weather in Lisbon?"
    first = await agent.run(query)
    (request,) = first.user_input_requests
    messages = [
        ChatMessage(role="user", text=query),
        ChatMessage(role="assistant", contents=[request]),
        ChatMessage(role="user", contents=[request.to_function_approval_response(True)]),
    ]
    print((await agent.run(messages)).text)
    try:
        await agent.run(messages)
    except NotPending as error:  # an approval is used once
        print("again:", error.code)
