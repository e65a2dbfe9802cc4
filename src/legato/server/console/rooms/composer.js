/** Where somebody writes. May know: a session's API. Decides: when a message is sent, and that it counts once however often it is sent. */

import { Refused, ask, deliveryKey } from "../parts/api.js";
import { el, show } from "../parts/dom.js";
import { icon } from "../parts/icons.js";
import { acting, notice, tellFailure } from "../parts/notices.js";

const LARGEST = 14 * 1024 * 1024; // in bytes, of all that is attached: the server takes 20 MiB, and base64 is a third larger

export class Composer {
  /** `ledger`: whose session it is; `onSent`: called once the server has a message. What is written survives a reload of the page,
   * and so does the name of its delivery. */
  constructor(ledger, onSent) {
    this.ledger = ledger;
    this.onSent = onSent;
    this.kept = `legato.draft.${ledger.id}`;
    this.attached = [];
    const draft = this.#draft();
    this.key = draft.key ?? "";
    this.input = el("textarea", { rows: 1, "aria-label": "Your message", placeholder: "Write a message", value: draft.text ?? "" });
    this.input.addEventListener("input", () => this.#written());
    this.input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.#send();
    });
    this.input.addEventListener("paste", (event) => this.#attach(event.clipboardData.files, event));
    this.files = el("input", { type: "file", multiple: true, hidden: true });
    this.files.addEventListener("change", () => this.#attach(this.files.files));
    this.chips = el("ul", { class: "attached", hidden: true });
    this.send = el("button", { class: "primary", type: "submit", title: "Send (Enter)" }, icon("send"), "Send");
    this.stop = acting(el("button", { class: "danger", type: "button", title: "Stop what runs" }, icon("stop"), "Stop"), () =>
      this.cancel(),
    );
    this.again = acting(el("button", { type: "button" }, icon("again"), "Try again"), () => this.resume());
    this.state = el("div", { class: "composer-state", role: "status" });
    this.form = el(
      "form",
      {
        class: "composer",
        onsubmit: (event) => {
          event.preventDefault();
          this.#send();
        },
      },
      el(
        "button",
        {
          class: "plain",
          type: "button",
          "aria-label": "Attach pictures or files",
          title: "Attach pictures or files",
          onclick: () => this.files.click(),
        },
        icon("attach"),
      ),
      this.files,
      this.input,
      this.stop,
      this.send,
    );
    this.element = el("footer", { class: "composing" }, this.state, this.chips, this.form);
    requestAnimationFrame(() => this.#grow());
  }

  focus() {
    this.input.focus();
  }

  /** What can be done, as the session stands. */
  update() {
    const { detail } = this.ledger;
    if (!detail) return;
    const running = detail.status === "running";
    this.stop.hidden = !running && detail.status !== "pending";
    this.form.hidden = !detail.can_drive;
    const told = !detail.can_drive
      ? `The program of “${detail.workflow}” is not served here: the conversation can be read, and does not go on.`
      : detail.damaged
        ? detail.damaged
        : detail.status === "failed"
          ? detail.error || "The last model call failed."
          : detail.status === "cancelled"
            ? "Stopped. A message goes on."
            : detail.status === "terminated"
              ? "The conversation is over. A message may begin it again."
              : "";
    this.state.className = `composer-state ${detail.status === "failed" ? "bad" : ""}`;
    show(this.state, told && el("span", null, told), detail.status === "failed" && detail.can_drive && this.again);
    this.state.hidden = !told;
  }

  async cancel() {
    await ask(`${this.ledger.where}/cancel`, { method: "POST", body: {} });
    await this.ledger.refresh();
  }

  async resume() {
    await ask(`${this.ledger.where}/resume`, { method: "POST", body: {} });
    await this.ledger.refresh();
  }

  async #send() {
    const text = this.input.value.trim() ? this.input.value : "";
    if ((!text && !this.attached.length) || this.sending) return;
    this.sending = true;
    this.send.disabled = true;
    this.key ||= deliveryKey();
    this.#keep();
    const parts = [...(text ? [{ part: "text", text }] : []), ...this.attached.map(({ part }) => part)];
    try {
      await ask(`${this.ledger.where}/messages`, { method: "POST", body: { message: this.attached.length ? parts : text, key: this.key } });
      this.input.value = "";
      this.attached = [];
      this.#written();
      this.onSent();
      await this.ledger.refresh();
    } catch (error) {
      if (error instanceof Refused && error.status === 0)
        notice("The server cannot be reached. Your message is kept; send it again, it will be recorded once.", "bad");
      else tellFailure(error);
    } finally {
      this.sending = false;
      this.send.disabled = false;
    }
  }

  // -- what is written, and what is attached -------------------------------------------------------------------------------

  #written() {
    this.key = ""; // other words are another delivery
    this.#keep();
    this.#grow();
    this.chips.hidden = this.attached.length === 0;
    show(
      this.chips,
      this.attached.map((each, index) =>
        el(
          "li",
          null,
          each.name,
          el(
            "button",
            {
              class: "plain small",
              type: "button",
              "aria-label": `Remove ${each.name}`,
              onclick: () => {
                this.attached.splice(index, 1);
                this.#written();
              },
            },
            icon("cross"),
          ),
        ),
      ),
    );
  }

  #grow() {
    this.input.style.height = "auto";
    this.input.style.height = `${Math.min(this.input.scrollHeight + 2, 240)}px`;
  }

  async #attach(files, event) {
    if (!files?.length) return;
    event?.preventDefault();
    const size = [...files, ...this.attached].reduce((sum, each) => sum + each.size, 0);
    if (size > LARGEST) {
      notice("That is more than fits into one message (14 MB).", "bad");
      return;
    }
    for (const file of files) {
      const base64 = toBase64(new Uint8Array(await file.arrayBuffer()));
      const media = file.type || "application/octet-stream";
      const isPicture = /^image\/(png|jpeg|gif|webp)$/.test(media);
      this.attached.push({
        name: file.name,
        size: file.size,
        part: isPicture ? { part: "image", media_type: media, base64 } : { part: "file", media_type: media, base64, name: file.name },
      });
    }
    this.files.value = "";
    this.#written();
  }

  #draft() {
    try {
      return JSON.parse(sessionStorage.getItem(this.kept) ?? "null") ?? {};
    } catch {
      return {};
    }
  }

  #keep() {
    try {
      if (this.input.value) sessionStorage.setItem(this.kept, JSON.stringify({ text: this.input.value, key: this.key }));
      else sessionStorage.removeItem(this.kept);
    } catch {
      /* it lasts as long as the page */
    }
  }
}

function toBase64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 32_768) text += String.fromCharCode(...bytes.subarray(at, at + 32_768));
  return btoa(text);
}
