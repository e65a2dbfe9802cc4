"""One agent writes, another judges with a typed verdict, until it is good enough; at most three times."""

from dataclasses import dataclass
from typing import Literal

from legato.compat.agents import Agent, ItemHelpers, Runner


@dataclass
class Verdict:
    feedback: str
    score: Literal["pass", "needs_improvement", "fail"]


writer = Agent(name="story_outline_generator", instructions="Write a very short outline. Use the feedback.")
judge = Agent[None](name="evaluator", instructions="Judge the outline. Never pass the first one.", output_type=Verdict)


async def main() -> None:
    items = [{"role": "user", "content": "A detective story in space."}]
    for _ in range(3):
        written = await Runner.run(writer, items)
        items = written.to_input_list()
        print(ItemHelpers.text_message_outputs(written.new_items))
        verdict: Verdict = (await Runner.run(judge, [*items, {"role": "user", "content": "Judge it."}])).final_output
        print(verdict.score)
        if verdict.score == "pass":
            break
        items.append({"role": "user", "content": f"Feedback: {verdict.feedback}"})
