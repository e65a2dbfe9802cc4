/** The token. May know: the address and the tab's own store. Decides: where the token is kept, and that it stays nowhere else. */

const NAME = "legato.token";

let kept = "";

/** The token that the address brought, taken out of it; else the one this tab has. */
export function taken() {
  const brought = /^#token=(.+)$/.exec(location.hash);
  if (brought) {
    keep(brought[1]);
    history.replaceState(null, "", `${location.pathname}${location.search}#/sessions`);
  } else if (!kept) {
    kept = remembered();
  }
  return kept;
}

export function keep(token) {
  kept = token;
  try {
    sessionStorage.setItem(NAME, token);
  } catch {
    /* it lives as long as the page */
  }
}

export function forget() {
  kept = "";
  try {
    sessionStorage.removeItem(NAME);
  } catch {
    /* there was nothing */
  }
}

export const token = () => kept;

function remembered() {
  try {
    return sessionStorage.getItem(NAME) ?? "";
  } catch {
    return "";
  }
}
