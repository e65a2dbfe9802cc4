/** Numbers and times as people read them. May know: the reader's language. Decides: how many digits are enough. */

const whole = new Intl.NumberFormat();
const clockTime = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const shortTime = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const shortDay = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const wholeTime = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export const count = (number) => whole.format(number);
export const clock = (at) => clockTime.format(at);
export const moment = (at) => wholeTime.format(at);

/** "1 fact", "2 facts". */
export function counted(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** A number that is known to lie between two others, or that is not known at all. */
export function between(range) {
  if (!range) return "an unknown number";
  if (range.least === range.most) return count(range.most);
  return range.least ? `${count(range.least)} to ${count(range.most)}` : `at most ${count(range.most)}`;
}

/** When, as briefly as the distance allows. */
export function ago(at, now = Date.now()) {
  const seconds = (now - at) / 1000;
  if (seconds < 45) return "now";
  if (seconds < 3600) return `${Math.max(1, Math.round(seconds / 60))} min`;
  if (new Date(at).toDateString() === new Date(now).toDateString()) return shortTime.format(at);
  if (seconds < 6 * 86400) return `${Math.max(1, Math.round(seconds / 86400))} d`;
  return shortDay.format(at);
}

/** How long: milliseconds as people count them. */
export function lasted(milliseconds) {
  if (milliseconds < 1000) return `${milliseconds} ms`;
  if (milliseconds < 60_000) return `${(milliseconds / 1000).toFixed(1)} s`;
  return `${Math.floor(milliseconds / 60_000)} min ${Math.round((milliseconds % 60_000) / 1000)} s`;
}

/** Money; what is not known is said to be so. `unpriced`: the tokens whose price is not known, beside those of this amount. */
export function dollars(amount, unpriced = 0) {
  if (amount === null || amount === undefined) return "no price known";
  if (unpriced > 0) return `${dollars(amount)} + no price known for ${count(unpriced)} tokens`;
  if (amount === 0) return "$0";
  return amount < 0.01 ? `$${amount.toFixed(5)}` : `$${amount.toFixed(amount < 1 ? 4 : 2)}`;
}

/** A text of one line, cut where it is too long to be read at a glance. */
export function brief(text, letters = 160) {
  const line = text.length > letters * 4 ? text.slice(0, letters * 4).replace(/\s+/g, " ") : text.replace(/\s+/g, " ");
  return line.length > letters ? `${line.slice(0, letters - 1)}…` : line;
}

/** A text of JSON in which nothing hides: what is not printed, or turns the order of letters around, is written by its code. */
export function visible(text) {
  return text.replace(UNSEEN, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

const UNSEEN =
  // eslint-disable-next-line no-control-regex -- they are what is looked for
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** A digest as it is told apart at a glance; the whole is always one gesture away. */
export const digestStart = (digest) => digest.slice(0, 12);
