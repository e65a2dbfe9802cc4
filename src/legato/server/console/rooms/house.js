/** What is served here, and how a conversation begins. May know: workflows. Decides: what somebody sees who has not chosen a session. */

import { ask, deliveryKey } from "../parts/api.js";
import { el, show } from "../parts/dom.js";
import { counted } from "../parts/format.js";
import { icon } from "../parts/icons.js";
import { tellFailure } from "../parts/notices.js";
import { agentTag, jsonBlock } from "../parts/pieces.js";
import { go } from "../parts/routes.js";
import { GraphView } from "./graph.js";

export class HouseRoom {
  constructor(page) {
    this.page = page;
    this.title = "Sessions";
    const { workflows } = page.about;
    this.heading = el("h1", { tabindex: "-1" }, workflows.length === 1 ? workflows[0].name : "Workflows");
    this.chosen = workflows[0] ?? null;
    this.shown = el("div", { class: "workflow" });
    this.element = el(
      "div",
      { class: "house" },
      el(
        "header",
        { class: "room-head" },
        this.heading,
        el("p", { class: "soft" }, `${page.about.store}${page.about.drives ? "" : ". Workers elsewhere drive the conversations."}`),
      ),
      workflows.length > 1 &&
        el(
          "div",
          { class: "choices", role: "group", "aria-label": "Workflows" },
          workflows.map((workflow) => el("button", { type: "button", onclick: () => this.#choose(workflow) }, workflow.name)),
        ),
      this.shown,
    );
    if (this.chosen) this.#choose(this.chosen);
    else show(this.shown, el("p", null, "No workflow is served: sessions can be read, and do not go on."));
  }

  close() {}

  arrive(place) {
    const wanted = this.page.workflow(place.query.workflow ?? "");
    if (wanted && wanted !== this.chosen) this.#choose(wanted);
    if (place.steps[0] === "begin") this.message?.focus();
  }

  #choose(workflow) {
    this.chosen = workflow;
    const palette = this.page.palette(workflow.name);
    const graph = new GraphView(workflow, palette);
    graph.update();
    show(
      this.shown,
      this.#begin(workflow),
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
                [agent.model, agent.tools.length ? counted(agent.tools.length, "tool") : "no tools"].filter(Boolean).join(" · "),
              ),
              agent.tools.map(toolTold),
            ),
          ),
        ),
      ),
    );
  }

  #begin(workflow) {
    this.message = el("textarea", { rows: 2, placeholder: `Say something to ${workflow.start}`, "aria-label": "The first message" });
    const id = el("input", {
      type: "text",
      placeholder: "id (made up if empty)",
      "aria-label": "Id of the conversation",
      maxlength: 400,
      autocomplete: "off",
    });
    const start = el("button", { class: "primary", type: "submit" }, icon("send"), "Begin");
    const [key, ours] = [deliveryKey(), `talk-${deliveryKey().slice(-10)}`]; // sent again after a lost line, it is the same conversation
    const begin = async (event) => {
      event.preventDefault();
      if (!this.message.value.trim() || start.disabled) return;
      start.disabled = true;
      try {
        const made = await ask("api/sessions", {
          method: "POST",
          body: { workflow: workflow.name, id: id.value.trim() || ours, message: this.message.value, key },
        });
        this.page.shelf.look();
        go("sessions", made.id);
      } catch (error) {
        tellFailure(error);
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
      el("h2", null, "A new conversation"),
      this.message,
      el("div", { class: "buttons" }, id, start),
    );
  }
}

function toolTold(tool) {
  const asks = tool.asks && el("span", { class: "chip warn" }, tool.asks === "depends" ? "may ask" : "asks");
  return el(
    "details",
    { class: "fold" },
    el("summary", null, el("code", null, tool.name), asks, tool.deferred && el("span", { class: "chip" }, "deferred")),
    tool.description && el("p", { class: "small-print" }, tool.description),
    jsonBlock(JSON.stringify(tool.parameters)),
  );
}
