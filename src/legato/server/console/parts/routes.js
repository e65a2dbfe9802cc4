/** Addresses within the page. May know: the hash. Decides: how a place is written, so that a reload comes back to it.
 *
 *     #/sessions/customer-42/seen/3?part=body   ->   { steps: ["sessions", "customer-42", "seen", "3"], query: { part: "body" } }
 */

export function read(hash = location.hash) {
  const [way, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const steps = way.split("/").filter(Boolean).map(decoded);
  return { steps, query: Object.fromEntries(new URLSearchParams(query)) };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The address of a place: `to("sessions", id, "seen", 3)`; an object at the end is its query, without what is empty. */
export function to(...steps) {
  const query = typeof steps.at(-1) === "object" ? steps.pop() : {};
  const given = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null));
  const way = steps.map((step) => encodeURIComponent(step)).join("/");
  return `#/${way}${given.size ? `?${given}` : ""}`;
}

export function go(...steps) {
  location.hash = to(...steps);
}

/** Be at another place without a step in the browser's history: what was typed or scrubbed to. */
export function settleAt(...steps) {
  history.replaceState(null, "", to(...steps));
}
