// The `openai` package from npm, as its documentation uses it: node openai_client.mjs BASE_URL KEY responses|chat
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
import { report } from "./column_report.mjs";

const Order = z.object({ order: z.string(), amount: z.number() });
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };
const weather = ({ city }) => `sunny, 21 degrees, in ${city}`;
const about = { name: "get_weather", description: "Weather.", parameters, strict: true };

function responses(client) {
  const ask = (model, input, more = {}) => client.responses.create({ model, input, ...more });
  const tools = [{ type: "function", ...about }];
  return {
    plain: async () => ({ texts: [(await ask("plain", "Hello")).output_text] }),
    streamed: async () => {
      const stream = client.responses.stream({ model: "streamed", input: "Hello" });
      const pieces = [];
      for await (const event of stream) if (event.type === "response.output_text.delta") pieces.push(event.delta);
      return { texts: [(await stream.finalResponse()).output_text], pieces };
    },
    "several turns": async () => {
      const history = [{ role: "user", content: "Hello" }];
      const first = await ask("several-turns", history);
      history.push(...first.output, { role: "user", content: "What did I say?" });
      return { texts: [first.output_text, (await ask("several-turns", history)).output_text] };
    },
    "previous id": async () => {
      const first = await ask("previous-id", "Hello");
      const last = await ask("previous-id", "What did I say?", { previous_response_id: first.id });
      return { texts: [first.output_text, last.output_text] };
    },
    conversation: async () => {
      const conversation = (await client.conversations.create({ metadata: { workflow: "conversation" } })).id;
      const texts = [];
      for (const said of ["Hello", "What did I say?"]) texts.push((await ask("conversation", said, { conversation })).output_text);
      return { texts };
    },
    approval: async () => {
      const first = await ask("approval", "Refund order 7.");
      const requests = first.output.filter(({ type }) => type === "mcp_approval_request");
      const answers = requests.map(({ id }) => ({ type: "mcp_approval_response", approval_request_id: id, approve: true }));
      const done = await ask("approval", answers, { previous_response_id: first.id });
      return { approval_requests: requests.map((each) => [each.name, JSON.parse(each.arguments)]), texts: [done.output_text] };
    },
    "client tools": async () => {
      const first = await ask("client-tools", "What is the weather in Oslo?", { tools });
      const calls = first.output.filter(({ type }) => type === "function_call");
      const outputs = calls.map(({ call_id, arguments: args }) => ({
        type: "function_call_output",
        call_id,
        output: weather(JSON.parse(args)),
      }));
      const done = await ask("client-tools", outputs, { previous_response_id: first.id, tools });
      return { calls: calls.map((each) => [each.name, JSON.parse(each.arguments)]), texts: [done.output_text] };
    },
    "structured output": async () => {
      const text = { format: zodTextFormat(Order, "order") };
      const found = await client.responses.parse({ model: "structured-output", input: "Give me the order as data.", text });
      return { data: found.output_parsed };
    },
  };
}

function chat(client) {
  const tools = [{ type: "function", function: about }];
  const ask = async (model, messages, more = {}, headers = {}) =>
    (await client.chat.completions.create({ model, messages, ...more }, { headers })).choices[0].message;
  return {
    plain: async () => ({ texts: [(await ask("plain", [{ role: "user", content: "Hello" }])).content] }),
    streamed: async () => {
      const stream = client.chat.completions.stream({ model: "streamed", messages: [{ role: "user", content: "Hello" }] });
      const pieces = [];
      stream.on("content", (piece) => pieces.push(piece));
      return { texts: [await stream.finalContent()], pieces };
    },
    "several turns": async () => {
      const messages = [];
      const texts = [];
      for (const content of ["Hello", "What did I say?"]) {
        messages.push({ role: "user", content });
        messages.push(await ask("several-turns", messages, {}, { "Legato-Session": "talk-several-turns" }));
        texts.push(messages.at(-1).content);
      }
      return { texts };
    },
    "client tools": async () => {
      const messages = [{ role: "user", content: "What is the weather in Oslo?" }];
      const first = await ask("client-tools", messages, { tools });
      const calls = first.tool_calls.map(({ id, function: called }) => ({ id, name: called.name, args: JSON.parse(called.arguments) }));
      messages.push(first, ...calls.map(({ id, args }) => ({ role: "tool", tool_call_id: id, content: weather(args) })));
      const done = await ask("client-tools", messages, { tools });
      return { calls: calls.map(({ name, args }) => [name, args]), texts: [done.content] };
    },
    "structured output": async () => {
      const messages = [{ role: "user", content: "Give me the order as data." }];
      const response_format = zodResponseFormat(Order, "order");
      const found = await client.chat.completions.parse({ model: "structured-output", messages, response_format });
      return { data: found.choices[0].message.parsed };
    },
  };
}

await report((baseURL, apiKey, api) => {
  const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
  return api === "responses" ? responses(client) : chat(client);
});
