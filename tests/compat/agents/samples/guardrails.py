"""An input guardrail that asks an agent of its own, and an output guardrail on a typed reply."""

from pydantic import BaseModel

from legato.compat.agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
    RunContextWrapper,
    Runner,
    TResponseInputItem,
    input_guardrail,
    output_guardrail,
)


class Homework(BaseModel):
    is_homework: bool
    reasoning: str


class Answer(BaseModel):
    response: str
    phone: str | None = None


checker = Agent(name="Guardrail check", instructions="Is this homework?", output_type=Homework)


@input_guardrail
async def no_homework(context: RunContextWrapper[None], agent: Agent, input: str | list[TResponseInputItem]) -> GuardrailFunctionOutput:
    result = await Runner.run(checker, input, context=context.context)
    found = result.final_output_as(Homework)
    return GuardrailFunctionOutput(output_info=found, tripwire_triggered=found.is_homework)


@output_guardrail
async def no_phone_numbers(context: RunContextWrapper, agent: Agent, output: Answer) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info={"phone": output.phone}, tripwire_triggered=output.phone is not None)


agent = Agent(
    name="Assistant",
    instructions="Help the customer.",
    input_guardrails=[no_homework],
    output_guardrails=[no_phone_numbers],
    output_type=Answer,
)


async def main() -> None:
    for said in ["What is the capital of California?", "Solve 2x + 5 = 11 for my homework.", "My number is 650-123-4567, where am I?"]:
        try:
            result = await Runner.run(agent, said)
            print(result.final_output_as(Answer).response)
        except InputGuardrailTripwireTriggered as error:
            print(f"input: {error.guardrail_result.output.output_info.reasoning}")
        except OutputGuardrailTripwireTriggered as error:
            print(f"output: {error.guardrail_result.output.output_info}")
