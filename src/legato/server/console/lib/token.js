/** The access token: read from the address, kept in the tab's session storage and nowhere else. */

const STORAGE_KEY = "legato.token";

let currentToken = "";

/** Load the token from the address, and remove it there; otherwise load the stored one. */
export function loadToken() {
  const match = /^#token=(.+)$/.exec(location.hash);
  if (match) {
    saveToken(match[1]);
    history.replaceState(null, "", `${location.pathname}${location.search}#/sessions`);
  } else if (!currentToken) {
    currentToken = readStoredToken();
  }
  return currentToken;
}

export function saveToken(token) {
  currentToken = token;
  try {
    sessionStorage.setItem(STORAGE_KEY, token);
  } catch {
    /* without storage, it is kept until the page is reloaded */
  }
}

export function clearToken() {
  currentToken = "";
  try {
    sessionStorage.removeItem(STORAGE_KEY);
  } catch {
    /* without storage, there is nothing to remove */
  }
}

export const getToken = () => currentToken;

function readStoredToken() {
  try {
    return sessionStorage.getItem(STORAGE_KEY) ?? "";
  } catch {
    return "";
  }
}
