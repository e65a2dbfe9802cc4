// A conversation with AG-UI's own client: a message, a handoff, an approval, and a second client without history. Prints JSON.
import { HttpAgent } from "@ag-ui/client";

const [url, token] = process.argv.slice(2);
const complaints = [];
console.warn = (...words) => complaints.push(words.join(" "));
console.error = (...words) => complaints.push(words.join(" "));

const agentOf = () => new HttpAgent({ url, headers: { Authorization: `Bearer ${token}` }, threadId: "thread-1" });

async function run(agent, parameters = {}) {
  const events = [];
  const { result, newMessages } = await agent.runAgent(parameters, { onEvent: ({ event }) => void events.push(event) });
  return structuredClone({ events, result, newMessages, messages: agent.messages, state: agent.state, interrupts: agent.pendingInterrupts });
}

const first = agentOf();
first.addMessage({ id: "m1", role: "user", content: "Order 7 arrived broken. Please refund the 24.50 that I paid." });
const asked = await run(first);

let refused = "";
try {
  await run(first);
} catch (error) {
  refused = String(error.message);
}
complaints.length = 0;

const approve = (agent) => agent.pendingInterrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload: { approved: true } }));
const paid = await run(first, { resume: approve(first) });
const again = await run(first);

const second = agentOf();
const caught = await run(second);
second.addMessage({ id: "m2", role: "user", content: "Thank you!" });
const thanked = await run(second);

console.log(JSON.stringify({ asked, refused, paid, again, caught, thanked, complaints }));
