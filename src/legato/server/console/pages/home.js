/** The start page: the served workflows, and a form for a new session. */

import { createIcon } from "../components/icons.js";
import { showError } from "../components/notices.js";
import { agentTag, jsonBlock } from "../components/widgets.js";
import { newDeliveryKey, requestJson } from "../lib/api.js";
import { el, setChildren } from "../lib/dom.js";
import { pluralize } from "../lib/format.js";
import { navigate } from "../lib/routes.js";
import { GraphView } from "./graph_view.js";

export class HomePage {
  constructor(app) {
    this.app = app;
    this.title = "Sessions";
    const { workflows } = app.serverInfo;
    this.heading = el("h1", { tabindex: "-1" }, workflows.length === 1 ? workflows[0].name : "Workflows");
    this.workflow = workflows[0] ?? null;
    this.workflowElement = el("div", { class: "workflow" });
    this.element = el(
      "div",
      { class: "home" },
      el(
        "header",
        { class: "page-head" },
        this.heading,
        el(
          "p",
          { class: "soft" },
          `${app.serverInfo.store}${app.serverInfo.drives ? "" : ". Workers in other processes drive the sessions."}`,
        ),
      ),
      workflows.length > 1 &&
        el(
          "div",
          { class: "choices", role: "group", "aria-label": "Workflows" },
          workflows.map((workflow) => el("button", { type: "button", onclick: () => this.#selectWorkflow(workflow) }, workflow.name)),
        ),
      this.workflowElement,
    );
    if (this.workflow) this.#selectWorkflow(this.workflow);
    else setChildren(this.workflowElement, el("p", null, "This server serves no workflow: sessions are read-only."));
  }

  close() {}

  showRoute(route) {
    const wanted = this.app.workflow(route.query.workflow ?? "");
    if (wanted && wanted !== this.workflow) this.#selectWorkflow(wanted);
    if (route.steps[0] === "begin") this.message?.focus();
  }

  #selectWorkflow(workflow) {
    this.workflow = workflow;
    const palette = this.app.palette(workflow.name);
    const graph = new GraphView(workflow, palette);
    graph.update();
    setChildren(
      this.workflowElement,
      this.#newConversationForm(workflow),
      workflow.description && el("p", { class: "prose" }, workflow.description),
      el(
        "div",
        { class: "workflow-parts" },
        graph.element,
        el(
          "div",
          { class: "agents" },
          workflow.agents.map((agent) =>
            el(
              "section",
              { class: "agent-card" },
              el("h3", null, agentTag(palette, agent.name), agent.name === workflow.start && el("span", { class: "chip" }, "starts")),
              agent.description && el("p", null, agent.description),
              el(
                "p",
                { class: "soft small-print" },
                [agent.model, agent.tools.length ? pluralize(agent.tools.length, "tool") : "no tools"].filter(Boolean).join(" · "),
              ),
              agent.tools.map(toolView),
            ),
          ),
        ),
      ),
    );
  }

  #newConversationForm(workflow) {
    this.message = el("textarea", { rows: 2, placeholder: `Write a message to ${workflow.start}`, "aria-label": "The first message" });
    const id = el("input", {
      type: "text",
      placeholder: "id (generated if empty)",
      "aria-label": "Session id",
      maxlength: 400,
      autocomplete: "off",
    });
    const start = el("button", { class: "primary", type: "submit" }, createIcon("send"), "Start");
    const [key, generatedId] = [newDeliveryKey(), `talk-${newDeliveryKey().slice(-10)}`]; // a retry creates the same session
    const begin = async (event) => {
      event.preventDefault();
      if (!this.message.value.trim() || start.disabled) return;
      start.disabled = true;
      try {
        const session = await requestJson("api/sessions", {
          method: "POST",
          body: { workflow: workflow.name, id: id.value.trim() || generatedId, message: this.message.value, key },
        });
        this.app.sessionList.poll();
        navigate("sessions", session.id);
      } catch (error) {
        showError(error);
      } finally {
        start.disabled = false;
      }
    };
    this.message.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) begin(event);
    });
    return el(
      "form",
      { class: "begin", onsubmit: begin },
      el("h2", null, "New conversation"),
      this.message,
      el("div", { class: "buttons" }, id, start),
    );
  }
}

function toolView(tool) {
  const asks = tool.asks && el("span", { class: "chip warn" }, tool.asks === "depends" ? "may need approval" : "needs approval");
  return el(
    "details",
    { class: "fold" },
    el("summary", null, el("code", null, tool.name), asks, tool.deferred && el("span", { class: "chip" }, "deferred")),
    tool.description && el("p", { class: "small-print" }, tool.description),
    jsonBlock(JSON.stringify(tool.parameters)),
  );
}
