// Conversations with the AI SDK as documented: all messages are sent each time. Prints what the client got as JSON.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, streamText } from "ai";

const [baseURL, apiKey] = process.argv.slice(2);
const model = createOpenAI({ baseURL, apiKey }).responses("desk");

async function whole(messages, providerOptions) {
  const { content, text, response } = await generateText({ model, messages, providerOptions, maxRetries: 0 });
  return { content, text, response };
}

async function streamed(messages, providerOptions) {
  let failed;
  const run = streamText({ model, messages, providerOptions, maxRetries: 0, onError: ({ error }) => void (failed = error) });
  await run.consumeStream();
  if (failed) throw failed;
  return { content: await run.content, text: await run.text, response: await run.response };
}

async function converse(turn, approved, providerOptions) {
  const messages = [];
  const turns = [];
  const say = async (message) => {
    messages.push(message);
    const { content, text, response } = await turn(messages, providerOptions);
    messages.push(...response.messages);
    turns.push({ text, session: response.headers["legato-session"], content });
    return content;
  };
  const asked = await say({ role: "user", content: "Order 7 arrived broken. Please refund the 24.50 that I paid." });
  const requests = asked.filter(({ type }) => type === "tool-approval-request");
  const answers = requests.map(({ approvalId }) => ({ type: "tool-approval-response", approvalId, approved, providerExecuted: true }));
  await say({ role: "tool", content: answers });
  await say({ role: "user", content: "hello" });
  return turns;
}

const inConversation = { openai: { conversation: "customer-7" } };
console.log(
  JSON.stringify({
    whole: await converse(whole, true),
    streamed: await converse(streamed, true),
    rejected: await converse(streamed, false),
    conversation: await converse(whole, true, inConversation),
  }),
);
