/** Numbers, times and texts in the reader's language. */

const numberFormat = new Intl.NumberFormat();
const secondsFormat = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const minutesFormat = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const dayFormat = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const dateTimeFormat = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export const formatNumber = (number) => numberFormat.format(number);
export const formatClock = (at) => secondsFormat.format(at);
export const formatDateTime = (at) => dateTimeFormat.format(at);

/** Format a number with its noun: "1 fact", "2 facts". */
export function pluralize(number, one, many = `${one}s`) {
  return `${formatNumber(number)} ${number === 1 ? one : many}`;
}

/** Format a range of numbers; null is an unknown number. */
export function formatRange(range) {
  if (!range) return "an unknown number";
  if (range.least === range.most) return formatNumber(range.most);
  return range.least ? `${formatNumber(range.least)} to ${formatNumber(range.most)}` : `at most ${formatNumber(range.most)}`;
}

/** Format a time, the shorter the more recent it is. */
export function formatAge(at, now = Date.now()) {
  const seconds = (now - at) / 1000;
  if (seconds < 45) return "now";
  if (seconds < 3600) return `${Math.max(1, Math.round(seconds / 60))} min`;
  if (new Date(at).toDateString() === new Date(now).toDateString()) return minutesFormat.format(at);
  if (seconds < 6 * 86400) return `${Math.max(1, Math.round(seconds / 86400))} d`;
  return dayFormat.format(at);
}

/** Format a duration in milliseconds. */
export function formatDuration(milliseconds) {
  if (milliseconds < 1000) return `${milliseconds} ms`;
  if (milliseconds < 60_000) return `${(milliseconds / 1000).toFixed(1)} s`;
  return `${Math.floor(milliseconds / 60_000)} min ${Math.round((milliseconds % 60_000) / 1000)} s`;
}

/** Format an amount in dollars; null is an unknown price. `unpriced`: the number of further tokens without a known price. */
export function formatCost(amount, unpriced = 0) {
  if (amount === null || amount === undefined) return "no price known";
  if (unpriced > 0) return `${formatCost(amount)} + no price known for ${formatNumber(unpriced)} tokens`;
  if (amount === 0) return "$0";
  return amount < 0.01 ? `$${amount.toFixed(5)}` : `$${amount.toFixed(amount < 1 ? 4 : 2)}`;
}

/** Shorten a text to one line. */
export function shorten(text, maxChars = 160) {
  const line = text.length > maxChars * 4 ? text.slice(0, maxChars * 4).replace(/\s+/g, " ") : text.replace(/\s+/g, " ");
  return line.length > maxChars ? `${line.slice(0, maxChars - 1)}…` : line;
}

/** Escape characters of a JSON text that are invisible or change the direction of text. */
export function escapeInvisible(text) {
  return text.replace(INVISIBLE, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

const INVISIBLE =
  // eslint-disable-next-line no-control-regex -- control characters are to be found
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** Shorten a digest. The whole digest can always be copied. */
export const shortDigest = (digest) => digest.slice(0, 12);
