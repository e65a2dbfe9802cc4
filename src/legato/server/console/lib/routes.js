/** Routes within the page, in the fragment of the address, so that a reload shows the same page.
 *
 *     #/sessions/customer-42/seen/3?part=body   ->   { steps: ["sessions", "customer-42", "seen", "3"], query: { part: "body" } }
 */

export function parseRoute(hash = location.hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const steps = path.split("/").filter(Boolean).map(decodeStep);
  return { steps, query: Object.fromEntries(new URLSearchParams(query)) };
}

function decodeStep(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Return the address of a route: `routeTo("sessions", id, "seen", 3)`. A last object is the query; its empty values are left out. */
export function routeTo(...steps) {
  const query = typeof steps.at(-1) === "object" ? steps.pop() : {};
  const parameters = new URLSearchParams(
    Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null),
  );
  const path = steps.map((step) => encodeURIComponent(step)).join("/");
  return `#/${path}${parameters.size ? `?${parameters}` : ""}`;
}

export function navigate(...steps) {
  location.hash = routeTo(...steps);
}

/** Change the route without a new entry in the browser's history, as for a slider's position. */
export function replaceRoute(...steps) {
  history.replaceState(null, "", routeTo(...steps));
}
