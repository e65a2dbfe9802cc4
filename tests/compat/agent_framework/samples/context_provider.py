"""A provider that adds what it knows to each turn, and looks at what was answered.

clerk: Good day, Ada.
remembered: Good day, Ada.
"""

from typing import Any

from legato.compat.agent_framework import ContextProvider, OpenAIChatClient, SessionContext
from legato.emulator.fake_models import ModelPrompt

REMEMBERED: list[str] = []


def SCRIPT(prompt: ModelPrompt) -> str:
    return "Good day, Ada." if "The customer is called Ada." in prompt.instructions else "Who are you?"


class Customer(ContextProvider):
    def __init__(self, name: str) -> None:
        super().__init__("customer")
        self.name = name

    async def before_run(self, *, agent: Any, session: Any, context: SessionContext, state: dict[str, Any]) -> None:
        if context.input_messages[-1].text == "Hello":
            context.extend_instructions(self.source_id, f"The customer is called {self.name}.")

    async def after_run(self, *, agent: Any, session: Any, context: SessionContext, state: dict[str, Any]) -> None:
        if context.response:
            REMEMBERED.append(context.response.text)


async def main() -> None:
    REMEMBERED.clear()
    clerk = OpenAIChatClient(model="gpt-4.1").as_agent(name="clerk", instructions="You greet.", context_providers=[Customer("Ada")])
    print(f"clerk: {await clerk.run('Hello')}")
    print("remembered:", *REMEMBERED)
