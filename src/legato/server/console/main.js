/** The entry point: login, routing between pages, and global keyboard shortcuts. */

import { errorPanel } from "./components/notices.js";
import { themeButton } from "./components/theme_button.js";
import { onUnauthorized, requestJson } from "./lib/api.js";
import { byId, focusedElement, setChildren } from "./lib/dom.js";
import { navigate, parseRoute } from "./lib/routes.js";
import { bindKey, listenForKeys } from "./lib/shortcuts.js";
import { clearToken, getToken, loadToken } from "./lib/token.js";
import { Palette } from "./model/palette.js";
import { openHelpDialog } from "./pages/help_dialog.js";
import { HomePage } from "./pages/home.js";
import { InboxPage, InboxPoller } from "./pages/inbox.js";
import { loginForm } from "./pages/login.js";
import { SessionPage } from "./pages/session.js";
import { SessionList } from "./pages/session_list.js";

/** State that the pages share. */
const app = {
  serverInfo: /** @type {any} */ (null), // the server's description of itself
  palettes: new Map(),
  workflow: (name) => app.serverInfo.workflows.find((workflow) => workflow.name === name) ?? null,
  palette(name) {
    if (!app.palettes.has(name)) app.palettes.set(name, new Palette(app.workflow(name)?.agents.map((agent) => agent.name)));
    return app.palettes.get(name);
  },
  /** Show the number of pending requests and the page's title in the browser tab. */
  updateTitle() {
    const pending = app.inbox?.result?.requests.length ?? 0;
    document.title = `${pending ? `(${pending}) ` : ""}${currentPage?.title ?? "Sessions"} · Legato`;
  },
  reload() {
    leavePage();
    showRoute();
  },
};

const narrow = matchMedia("(max-width: 760px)"); // the same width as in style.css
let currentPage = null;
let currentName = "";

function leavePage() {
  currentPage?.close();
  currentPage = null;
  currentName = "";
}

/** Show the page of the address. */
function showRoute() {
  if (location.hash.startsWith("#token=")) {
    loadToken();
    start();
    return;
  }
  if (!app.serverInfo) return;
  const route = parseRoute();
  const [first = "sessions", id] = route.steps;
  const isSession = first === "sessions" && id !== undefined;
  const name = isSession ? `session ${id}` : first === "inbox" ? "inbox" : "home";
  document.body.dataset.page = isSession ? "session" : name === "inbox" ? "inbox" : first === "begin" ? "begin" : "sessions";
  updateLandmarks();
  const [current, other] = name === "inbox" ? ["to-inbox", "to-sessions"] : ["to-sessions", "to-inbox"];
  byId(current).setAttribute("aria-current", "page");
  byId(other).removeAttribute("aria-current");
  app.sessionList.setCurrent(isSession ? id : "");
  if (name !== currentName) {
    const isFirst = currentName === "";
    leavePage();
    currentName = name;
    currentPage = isSession ? new SessionPage(app, id) : name === "inbox" ? new InboxPage(app) : new HomePage(app);
    setChildren(byId("page"), currentPage.element);
    app.updateTitle();
    if (!isFirst) currentPage.heading?.focus({ preventScroll: true });
  }
  currentPage.showRoute(route);
}

/** Set the landmarks for screen readers: on narrow screens the list of sessions is the main content of its page. */
function updateLandmarks() {
  const isMain = narrow.matches && document.body.dataset.page === "sessions";
  const heading = byId("sidebar").querySelector("h2");
  if (isMain) {
    byId("sidebar").setAttribute("role", "main");
    heading?.setAttribute("aria-level", "1");
  } else {
    byId("sidebar").removeAttribute("role");
    heading?.removeAttribute("aria-level");
  }
}

async function start() {
  delete document.body.dataset.login;
  try {
    app.serverInfo = await requestJson("api");
  } catch (error) {
    if (error.status !== 401) setChildren(byId("page"), errorPanel(error, start));
    return;
  }
  const { store } = app.serverInfo;
  byId("store-name").textContent = store.includes("://") ? store : store.split("/").at(-1); // the name of a file; its path is in the title
  byId("store-name").title = `Legato ${app.serverInfo.legato}, ${app.serverInfo.store}`;
  app.palettes.clear();
  app.sessionList ??= new SessionList(app, byId("sidebar"));
  app.inbox ??= new InboxPoller(byId("inbox-count"));
  app.inbox.listeners.add(app.updateTitle);
  app.sessionList.poll();
  app.inbox.poll();
  leavePage();
  showRoute();
}

/** Ask for a token after the server refused the current one, or if there is none. */
function askForToken() {
  if (document.body.dataset.login) return;
  const wasRefused = getToken() !== "";
  clearToken();
  leavePage();
  document.body.dataset.login = "yes";
  setChildren(byId("page"), loginForm(wasRefused, start));
}

function bindKeys() {
  bindKey("?", () => openHelpDialog(app));
  bindKey("t", () => byId("theme").click());
  bindKey("g s", () => {
    navigate("sessions");
    app.sessionList?.moveFocus(0);
  });
  bindKey("g i", () => navigate("inbox"));
  bindKey("n", () => navigate("begin"));
  bindKey("/", () => {
    if (document.body.dataset.page !== "sessions" && innerWidth < 760) navigate("sessions");
    app.sessionList?.focusSearch();
  });
  bindKey("j", () => {
    app.sessionList?.moveFocus(1);
  });
  bindKey("k", () => {
    app.sessionList?.moveFocus(-1);
  });
  bindKey("Escape", () => {
    focusedElement()?.blur();
  });
  listenForKeys();
}

themeButton(byId("theme"));
byId("help").addEventListener("click", () => openHelpDialog(app));
byId("skip").addEventListener("click", () => byId("page").focus());
onUnauthorized(askForToken);
bindKeys();
addEventListener("hashchange", showRoute);
narrow.addEventListener("change", updateLandmarks);
loadToken();
if (getToken()) start();
else askForToken();
