// @ts-check
// The page: a client of the gateway like any other. This module finds the way; the parts do the rest.
import { empty, fill, fixed as $, h } from "./dom.js";
import { t, translate } from "./language.js";
import { gateway, store } from "./gateway.js";
import { wire } from "./wire.js";
import "./chat.js";

const THEME = "crossclaw.theme";

/** @typedef {{tag: string, title: string, under?: string, load?: () => Promise<unknown>}} Way where an address leads */

// What is looked at later is fetched later.
/** @type {Record<string, Way>} */
const VIEWS = {
  chat: { tag: "cc-chat", title: "Chat" },
  sessions: { tag: "cc-sessions", title: "Sessions", load: () => import("./sessions.js") },
  map: { tag: "cc-map", title: "Map", load: () => import("./map.js") },
  attention: { tag: "cc-attention", title: "Needs attention", load: () => import("./attention.js") },
  exchanges: { tag: "cc-exchanges", title: "Exchanges", load: () => import("./exchanges.js") },
  exchange: { tag: "cc-exchange", title: "Exchange", under: "exchanges", load: () => import("./exchange.js") },
  trace: { tag: "cc-trace", title: "Trace", under: "exchanges", load: () => import("./trace.js") },
  run: { tag: "cc-run", title: "Run", under: "exchanges", load: () => import("./run.js") },
  rehearsal: { tag: "cc-rehearsal", title: "Rehearsal", under: "map", load: () => import("./rehearsal.js") },
  operations: { tag: "cc-operations", title: "Operations", load: () => import("./operations.js") },
};

/** @returns {NodeListOf<HTMLElement>} */
const railLinks = () => document.querySelectorAll(".rail a[data-view]");

/** @type {HTMLElement | null} */
let shown = null;

async function show() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/");
  const view = name ? VIEWS[name] : VIEWS.chat;
  const argument = argumentOf(rest.join("/"));
  if (!view || argument === undefined) {
    lost(path);
    return;
  }
  await view.load?.();
  if (location.hash.replace(/^#\/?/, "").split("?")[0] !== path) return; // gone on meanwhile
  if (shown?.localName !== view.tag) {
    const before = shown;
    shown = h(view.tag);
    fill($("view"), shown);
    if (before) $("view").focus({ preventScroll: true });
  }
  $("view").setAttribute("aria-label", view.title);
  for (const link of railLinks()) {
    if (link.dataset.view === (view.under || name || "chat")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  /** @type {Page.View} */ (shown).go(argument, new URLSearchParams(query || ""));
}

/** What the address names; undefined when it cannot be read.
 * @param {string} text */
function argumentOf(text) {
  try {
    return text ? decodeURIComponent(text) : null;
  } catch {
    return undefined;
  }
}

/** @param {string} path */
function lost(path) {
  const home = h("p", null, h("a", { href: "#/chat" }, "To the chat"));
  shown = empty("No such page", `There is nothing at #/${path}.`, home);
  fill($("view"), shown);
  $("view").setAttribute("aria-label", "No such page");
  for (const link of railLinks()) link.removeAttribute("aria-current");
}

addEventListener("hashchange", () => {
  if (!location.hash.startsWith("#token=")) show();
});

wire.on("line", ({ state, text }) => {
  $("line").dataset.state = state;
  $("line").title = text;
  wordsIn($("line")).textContent = state === "off" ? "offline" : text; // its row below says it in full
  // Where there is no room for the words beside the mark, a lost line has a row of its own until it is back.
  if (state !== "wait") $("lost").hidden = state === "on";
  $("lost").textContent = text;
});

gateway.addEventListener("attention", () => {
  const count = gateway.attention?.count ?? 0;
  $("attention-count").textContent = count > 99 ? "99+" : String(count);
  $("attention-count").hidden = !count;
});

wire.on("door", ({ why }) => {
  $("layout").hidden = true;
  $("door").hidden = false;
  $("door-why").textContent = why ? `The gateway said: ${why}` : t("This page needs the gateway's token.");
  $("door-why").classList.toggle("problem", Boolean(why));
  $("token").focus();
});

wire.addEventListener("open", () => {
  const entered = !$("door").hidden;
  $("door").hidden = true;
  $("layout").hidden = false;
  if (entered) $("view").focus({ preventScroll: true });
});

$("door").addEventListener("submit", (event) => {
  event.preventDefault();
  const field = /** @type {HTMLInputElement} */ ($("token"));
  const token = field.value.trim();
  field.value = "";
  wire.enter(token);
});

$("forget").addEventListener("click", () => {
  if ($("own").matches(":popover-open")) $("own").hidePopover();
  wire.forget();
});
$("skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("view").focus();
});

addEventListener("keydown", async (event) => {
  if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
  if ($("layout").hidden) return;
  event.preventDefault();
  (await import("./switcher.js")).toggleSwitcher();
});

/** The words beside a mark. @param {HTMLElement} element */
const wordsIn = (element) => /** @type {HTMLElement} */ (element.lastElementChild);

/** @type {Record<string, string>} */
const COLOURS = { system: "as the system", light: "light", dark: "dark" };

/** @param {string} theme */
function dress(theme) {
  document.documentElement.dataset.theme = theme;
  wordsIn($("theme")).textContent = $("theme").title = `Colours: ${COLOURS[theme]}`;
  dispatchEvent(new Event("dressed"));
}

$("theme").addEventListener("click", () => {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const order = dark ? ["system", "light", "dark"] : ["system", "dark", "light"];
  const theme = order[(order.indexOf(store.get(THEME, "system")) + 1) % 3];
  store.set(THEME, theme);
  dress(theme);
});

translate();
dress(store.get(THEME, "system"));
wire.start();
show();
