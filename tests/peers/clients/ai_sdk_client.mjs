// The AI SDK, as its documentation uses it: node ai_sdk_client.mjs BASE_URL KEY responses|chat
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { report } from "./column_report.mjs";

const order = z.object({ order: z.string(), amount: z.number() });

await report((baseURL, apiKey, api) => {
  const provider = createOpenAI({ baseURL, apiKey });
  const model = (name) => (api === "responses" ? provider.responses(name) : provider.chat(name));
  const ask = (name, options, openai = undefined) =>
    generateText({ model: model(name), maxRetries: 0, ...options, ...(openai ? { providerOptions: { openai } } : {}) });

  async function talk(name, headers = undefined) {
    const messages = [];
    const texts = [];
    for (const content of ["Hello", "What did I say?"]) {
      messages.push({ role: "user", content });
      const { text, response } = await ask(name, { messages, headers });
      messages.push(...response.messages);
      texts.push(text);
    }
    return { texts };
  }

  const columns = {
    plain: async () => ({ texts: [(await ask("plain", { prompt: "Hello" })).text] }),
    streamed: async () => {
      let failed;
      const run = streamText({ model: model("streamed"), prompt: "Hello", maxRetries: 0, onError: ({ error }) => void (failed = error) });
      const pieces = [];
      for await (const piece of run.textStream) pieces.push(piece);
      if (failed) throw failed;
      return { texts: [await run.text], pieces };
    },
    "several turns": () => talk("several-turns", api === "chat" ? { "Legato-Session": "talk-several-turns" } : undefined),
    "client tools": async () => {
      const calls = [];
      const get_weather = tool({
        description: "Weather.",
        inputSchema: z.object({ city: z.string() }),
        execute: async (args) => {
          calls.push(["get_weather", args]);
          return `sunny, 21 degrees, in ${args.city}`;
        },
      });
      const prompt = "What is the weather in Oslo?";
      const { text } = await ask("client-tools", { prompt, tools: { get_weather }, stopWhen: stepCountIs(5) });
      return { calls, texts: [text] };
    },
    "structured output": async () => {
      const prompt = "Give me the order as data.";
      return { data: (await ask("structured-output", { prompt, output: Output.object({ schema: order }) })).output };
    },
  };
  if (api === "chat") return columns;
  return {
    ...columns,
    "previous id": async () => {
      const first = await ask("previous-id", { prompt: "Hello" });
      const previousResponseId = first.providerMetadata.openai.responseId;
      const last = await ask("previous-id", { prompt: "What did I say?" }, { previousResponseId });
      return { texts: [first.text, last.text] };
    },
    conversation: async () => {
      const texts = [];
      for (const prompt of ["Hello", "What did I say?"]) {
        texts.push((await ask("conversation", { prompt }, { conversation: "talk-conversation" })).text);
      }
      return { texts };
    },
    approval: async () => {
      const messages = [{ role: "user", content: "Refund order 7." }];
      const first = await ask("approval", { messages });
      const requests = first.content.filter(({ type }) => type === "tool-approval-request");
      const content = requests.map(({ approvalId }) => ({
        type: "tool-approval-response",
        approvalId,
        approved: true,
        providerExecuted: true,
      }));
      messages.push(...first.response.messages, { role: "tool", content });
      const done = await ask("approval", { messages });
      const named = requests.map(({ toolCall }) => [toolCall.toolName.replace(/^mcp\./, ""), toolCall.input]);
      return { approval_requests: named.map(([name, args]) => [name, typeof args === "string" ? JSON.parse(args) : args]), texts: [done.text] };
    },
  };
});
