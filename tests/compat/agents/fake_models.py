"""The fake model of each sample. It has no memory: the state of a conversation is read from the prompt."""

from __future__ import annotations

import json
from typing import Any

from legato.emulator.fake_models import ModelPrompt, ReplyCall


def _use(tool: str, id: str = "", /, **arguments: Any) -> ReplyCall:
    return ReplyCall(tool, json.dumps(arguments), id)


def _outputs(prompt: ModelPrompt) -> list[str]:
    """The outputs that stand at the end."""
    found = []
    for heard in reversed(prompt.messages):
        if heard.role != "tool":
            break
        found.insert(0, heard.text)
    return found


def _tools(prompt: ModelPrompt) -> set[str]:
    return {tool.name for tool in prompt.tools}


def routing(prompt: ModelPrompt) -> Any:
    if "transfer_to_french_agent" in _tools(prompt):
        return _use("transfer_to_french_agent")
    return "Je suis votre assistant." if "qui" in prompt.last_user_text else "Au revoir !"


def handoff_with_input(prompt: ModelPrompt) -> Any:
    if "escalate" in _tools(prompt):
        return _use("escalate", input={"reason": "the database is down", "severity": 3})
    return "Restarted."


def message_filter(prompt: ModelPrompt) -> Any:
    if prompt.instructions == "Write a poem.":
        return f"I saw {len(prompt.messages)} things."
    if "random number" not in prompt.last_user_text:
        return "Hello Sora!"
    return _use("transfer_to_poet") if _outputs(prompt) else _use("random_number", maximum=100)


def approval(prompt: ModelPrompt) -> Any:
    if outputs := _outputs(prompt):
        return "; ".join(outputs)
    return [
        _use("get_temperature", city="Oakland"),
        _use("get_weather", city="Oakland"),
        _use("send_postcard", city="Oakland", words="Hi"),
    ]


def approval_streamed(prompt: ModelPrompt) -> Any:
    done = [heard.text for heard in prompt.messages if heard.role == "tool"]
    return _use("delete_file", path=["a.txt", "b.txt"][len(done)]) if len(done) < 2 else "Both are gone."


def customer_service(prompt: ModelPrompt) -> Any:
    tools, outputs = _tools(prompt), _outputs(prompt)
    if "Thank" in prompt.last_user_text:
        return "You are welcome."
    if "transfer_to_faq_agent" in tools:
        return _use("transfer_to_faq_agent" if "bag" in prompt.last_user_text else "transfer_to_seat_booking_agent")
    if "faq_lookup_tool" in tools:
        if "bag" not in prompt.last_user_text:
            return _use("transfer_to_triage_agent")
        return outputs[-1] if outputs and "bag" in outputs[-1] else _use("faq_lookup_tool", question="how big is a bag?")
    return "Done." if outputs and outputs[-1].startswith("Seat") else _use("update_seat", confirmation="ABC", seat="3A")


def agents_as_tools(prompt: ModelPrompt) -> Any:
    match prompt.instructions:
        case "Translate to Spanish.":
            return "Buenos días"
        case "Translate to French.":
            return "Bonjour"
        case "Put the translations together.":
            return " / ".join(heard.text for heard in prompt.messages if heard.role == "tool")
    if outputs := _outputs(prompt):
        return f"I have {len(outputs)} translations."
    return [_use("translate_to_spanish", input="Good morning"), _use("translate_to_french", input="Good morning")]


def guardrails(prompt: ModelPrompt) -> Any:
    if prompt.instructions == "Is this homework?":
        homework = "homework" in prompt.last_user_text
        return json.dumps({"is_homework": homework, "reasoning": "it says so" if homework else "a question"})
    if "650" in prompt.last_user_text:
        return json.dumps({"response": "San Francisco", "phone": "650-123-4567"})
    return json.dumps({"response": "Sacramento", "phone": None})


def previous_response(prompt: ModelPrompt) -> Any:
    questions = [heard.text for heard in prompt.messages if heard.role == "user"]
    assert questions[0].startswith("What is the largest country")
    assert len(questions) <= 2
    return {"What is its capital?": "Brasilia", "And its largest city?": "Sao Paulo"}.get(prompt.last_user_text, "Brazil")


def sessions(prompt: ModelPrompt) -> Any:
    asked = [heard.text for heard in prompt.messages if heard.role == "user"]
    assert asked[0].startswith("Which city")
    return {"Which state is it in?": "California", "How long is it?": "2.7 km"}.get(prompt.last_user_text, "San Francisco")


def forcing_tool_use(prompt: ModelPrompt) -> Any:
    if prompt.tool_choice == "required":
        return _use("get_weather", city="Tokyo")
    return f"It is {_outputs(prompt)[0]}."


def judge(prompt: ModelPrompt) -> Any:
    told = sum(heard.text.startswith("Feedback") for heard in prompt.messages)
    if prompt.output_schema is None:
        return f"Outline {told + 1}."
    return json.dumps({"feedback": "More rockets.", "score": "pass" if told else "needs_improvement"})


def dynamic_instructions(prompt: ModelPrompt) -> Any:
    if "Look" in prompt.last_user_text:
        looked = sum(heard.role == "tool" for heard in prompt.messages)
        return _use("look_again") if looked < 4 else "There is nothing."
    if "transfer_to_concierge" in _tools(prompt):
        assert prompt.instructions == "You are Chat agent. Only speak as a pirate."
        return _use("transfer_to_concierge")
    return "A joke for you, Sir." if "best customers" in prompt.instructions else "An old silent pond."


def conversation(prompt: ModelPrompt) -> Any:
    return "Hello Ada." if "My name" in prompt.last_user_text else f"Ada; we have said {len(prompt.messages)} things."
