/** The page. May know: every room. Decides: which room is shown, and who may be here. */

import { Palette } from "./model/palette.js";
import { forget, taken, token } from "./parts/access.js";
import { ask, onStranger } from "./parts/api.js";
import { byId, focused, show } from "./parts/dom.js";
import { bind, listen } from "./parts/keys.js";
import { failure } from "./parts/notices.js";
import { go, read } from "./parts/routes.js";
import { themeButton } from "./parts/theme.js";
import { door } from "./rooms/door.js";
import { openHelp } from "./rooms/help.js";
import { HouseRoom } from "./rooms/house.js";
import { InboxCount, InboxRoom } from "./rooms/inbox.js";
import { SessionRoom } from "./rooms/session.js";
import { Shelf } from "./rooms/sessions.js";

/** What rooms share. */
const page = {
  about: /** @type {any} */ (null), // what the server says of itself
  palettes: new Map(),
  workflow: (name) => page.about.workflows.find((workflow) => workflow.name === name) ?? null,
  palette(name) {
    if (!page.palettes.has(name)) page.palettes.set(name, new Palette(page.workflow(name)?.agents.map((agent) => agent.name)));
    return page.palettes.get(name);
  },
  /** What the tab is called: how much waits, and where one is. */
  retitle() {
    const waiting = page.inbox?.found?.requests.length ?? 0;
    document.title = `${waiting ? `(${waiting}) ` : ""}${room?.title ?? "Sessions"} · Legato`;
  },
  reload() {
    leave();
    arrive();
  },
};

const narrow = matchMedia("(max-width: 760px)"); // as style.css has it
let room = null;
let named = "";

function leave() {
  room?.close();
  room = null;
  named = "";
}

/** Be where the address says. */
function arrive() {
  if (location.hash.startsWith("#token=")) {
    taken();
    enter();
    return;
  }
  if (!page.about) return;
  const place = read();
  const [first = "sessions", id] = place.steps;
  const isSession = first === "sessions" && id !== undefined;
  const name = isSession ? `session ${id}` : first === "inbox" ? "inbox" : "house";
  document.body.dataset.at = isSession ? "session" : name === "inbox" ? "inbox" : first === "begin" ? "begin" : "sessions";
  landmarks();
  const [here, elsewhere] = name === "inbox" ? ["to-inbox", "to-sessions"] : ["to-sessions", "to-inbox"];
  byId(here).setAttribute("aria-current", "page");
  byId(elsewhere).removeAttribute("aria-current");
  page.shelf.mark(isSession ? id : "");
  if (name !== named) {
    const first_time = named === "";
    leave();
    named = name;
    room = isSession ? new SessionRoom(page, id) : name === "inbox" ? new InboxRoom(page) : new HouseRoom(page);
    show(byId("room"), room.element);
    page.retitle();
    if (!first_time) room.heading?.focus({ preventScroll: true });
  }
  room.arrive(place);
}

/** Where there is room for one of them, the list of sessions is the main thing on its page: so it is called, for those who hear it. */
function landmarks() {
  const alone = narrow.matches && document.body.dataset.at === "sessions";
  const heading = byId("shelf").querySelector("h2");
  if (alone) {
    byId("shelf").setAttribute("role", "main");
    heading?.setAttribute("aria-level", "1");
  } else {
    byId("shelf").removeAttribute("role");
    heading?.removeAttribute("aria-level");
  }
}

async function enter() {
  delete document.body.dataset.closed;
  try {
    page.about = await ask("api");
  } catch (error) {
    if (error.status !== 401) show(byId("room"), failure(error, enter));
    return;
  }
  const { store } = page.about;
  byId("place").textContent = store.includes("://") ? store : store.split("/").at(-1); // of a file, its name: all of it is in the title
  byId("place").title = `Legato ${page.about.legato}, ${page.about.store}`;
  page.palettes.clear();
  page.shelf ??= new Shelf(page, byId("shelf"));
  page.inbox ??= new InboxCount(byId("inbox-count"));
  page.inbox.listeners.add(page.retitle);
  page.shelf.look();
  page.inbox.look();
  leave();
  arrive();
}

/** Nobody knows this token: ask for another. */
function strangers() {
  if (document.body.dataset.closed) return;
  const refused = token() !== "";
  forget();
  leave();
  document.body.dataset.closed = "yes";
  show(byId("room"), door(refused, enter));
}

function keys() {
  bind("?", () => openHelp(page));
  bind("t", () => byId("theme").click());
  bind("g s", () => {
    go("sessions");
    page.shelf?.move(0);
  });
  bind("g i", () => go("inbox"));
  bind("n", () => go("begin"));
  bind("/", () => {
    if (document.body.dataset.at !== "sessions" && innerWidth < 760) go("sessions");
    page.shelf?.focusSearch();
  });
  bind("j", () => {
    page.shelf?.move(1);
  });
  bind("k", () => {
    page.shelf?.move(-1);
  });
  bind("Escape", () => {
    focused()?.blur();
  });
  listen();
}

themeButton(byId("theme"));
byId("help").addEventListener("click", () => openHelp(page));
byId("skip").addEventListener("click", () => byId("room").focus());
onStranger(strangers);
keys();
addEventListener("hashchange", arrive);
narrow.addEventListener("change", landmarks);
taken();
if (token()) enter();
else strangers();
