/** The message field below a transcript, with attachments. Each message has an idempotency key, so that a retry does not repeat it. */

import { createIcon } from "../components/icons.js";
import { onClickAsync, showError, showNotice } from "../components/notices.js";
import { ApiError, newDeliveryKey, requestJson } from "../lib/api.js";
import { el, setChildren } from "../lib/dom.js";

const MAX_ATTACHMENT_BYTES = 14 * 1024 * 1024; // of all attachments: the server accepts 20 MiB, and base64 is a third larger

export class Composer {
  /** `onSent` is called when the server has recorded a message. The draft and its idempotency key survive a reload of the page. */
  constructor(ledger, onSent) {
    this.ledger = ledger;
    this.onSent = onSent;
    this.storageKey = `legato.draft.${ledger.id}`;
    this.attachments = [];
    const draft = this.#loadDraft();
    this.key = draft.key ?? "";
    this.input = el("textarea", { rows: 1, "aria-label": "Your message", placeholder: "Write a message", value: draft.text ?? "" });
    this.input.addEventListener("input", () => this.#changed());
    this.input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.#send();
    });
    this.input.addEventListener("paste", (event) => this.#attach(event.clipboardData.files, event));
    this.files = el("input", { type: "file", multiple: true, hidden: true });
    this.files.addEventListener("change", () => this.#attach(this.files.files));
    this.chips = el("ul", { class: "attached", hidden: true });
    this.sendButton = el("button", { class: "primary", type: "submit", title: "Send (Enter)" }, createIcon("send"), "Send");
    this.stopButton = onClickAsync(
      el("button", { class: "danger", type: "button", title: "Stop the work in progress" }, createIcon("stop"), "Stop"),
      () => this.cancel(),
    );
    this.retryButton = onClickAsync(el("button", { type: "button" }, createIcon("again"), "Try again"), () => this.resume());
    this.statusLine = el("div", { class: "composer-state", role: "status" });
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
          "aria-label": "Attach images or files",
          title: "Attach images or files",
          onclick: () => this.files.click(),
        },
        createIcon("attach"),
      ),
      this.files,
      this.input,
      this.stopButton,
      this.sendButton,
    );
    this.element = el("footer", { class: "composing" }, this.statusLine, this.chips, this.form);
    requestAnimationFrame(() => this.#grow());
  }

  focus() {
    this.input.focus();
  }

  /** Show the controls and the hint for the session's status. */
  update() {
    const { detail } = this.ledger;
    if (!detail) return;
    const isRunning = detail.status === "running";
    this.stopButton.hidden = !isRunning && detail.status !== "pending";
    this.form.hidden = !detail.can_drive;
    const hint = !detail.can_drive
      ? `This server does not serve the workflow “${detail.workflow}”: the session is read-only.`
      : detail.damaged
        ? detail.damaged
        : detail.status === "failed"
          ? detail.error || "The last model request failed."
          : detail.status === "cancelled"
            ? "Stopped. Send a message to continue."
            : detail.status === "terminated"
              ? "The conversation has ended. Send a message to start again."
              : "";
    this.statusLine.className = `composer-state ${detail.status === "failed" ? "bad" : ""}`;
    setChildren(this.statusLine, hint && el("span", null, hint), detail.status === "failed" && detail.can_drive && this.retryButton);
    this.statusLine.hidden = !hint;
  }

  async cancel() {
    await requestJson(`${this.ledger.url}/cancel`, { method: "POST", body: {} });
    await this.ledger.refresh();
  }

  async resume() {
    await requestJson(`${this.ledger.url}/resume`, { method: "POST", body: {} });
    await this.ledger.refresh();
  }

  async #send() {
    const text = this.input.value.trim() ? this.input.value : "";
    if ((!text && !this.attachments.length) || this.isSending) return;
    this.isSending = true;
    this.sendButton.disabled = true;
    this.key ||= newDeliveryKey();
    this.#saveDraft();
    const parts = [...(text ? [{ part: "text", text }] : []), ...this.attachments.map(({ part }) => part)];
    try {
      await requestJson(`${this.ledger.url}/messages`, {
        method: "POST",
        body: { message: this.attachments.length ? parts : text, key: this.key },
      });
      this.input.value = "";
      this.attachments = [];
      this.#changed();
      this.onSent();
      await this.ledger.refresh();
    } catch (error) {
      if (error instanceof ApiError && error.status === 0)
        showNotice("The server cannot be reached. Your message is kept: send it again later, it will be recorded once.", "bad");
      else showError(error);
    } finally {
      this.isSending = false;
      this.sendButton.disabled = false;
    }
  }

  // -- draft and attachments -------------------------------------------------------------------------------------------------

  #changed() {
    this.key = ""; // a changed message is another delivery
    this.#saveDraft();
    this.#grow();
    this.chips.hidden = this.attachments.length === 0;
    setChildren(
      this.chips,
      this.attachments.map((each, index) =>
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
                this.attachments.splice(index, 1);
                this.#changed();
              },
            },
            createIcon("cross"),
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
    const size = [...files, ...this.attachments].reduce((sum, each) => sum + each.size, 0);
    if (size > MAX_ATTACHMENT_BYTES) {
      showNotice("The attachments are too large: at most 14 MB fit into one message.", "bad");
      return;
    }
    for (const file of files) {
      const base64 = toBase64(new Uint8Array(await file.arrayBuffer()));
      const media = file.type || "application/octet-stream";
      const isPicture = /^image\/(png|jpeg|gif|webp)$/.test(media);
      this.attachments.push({
        name: file.name,
        size: file.size,
        part: isPicture ? { part: "image", media_type: media, base64 } : { part: "file", media_type: media, base64, name: file.name },
      });
    }
    this.files.value = "";
    this.#changed();
  }

  #loadDraft() {
    try {
      return JSON.parse(sessionStorage.getItem(this.storageKey) ?? "null") ?? {};
    } catch {
      return {};
    }
  }

  #saveDraft() {
    try {
      if (this.input.value) sessionStorage.setItem(this.storageKey, JSON.stringify({ text: this.input.value, key: this.key }));
      else sessionStorage.removeItem(this.storageKey);
    } catch {
      /* without storage, the draft lasts until the page is reloaded */
    }
  }
}

function toBase64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 32_768) text += String.fromCharCode(...bytes.subarray(at, at + 32_768));
  return btoa(text);
}
