// @ts-check
// The quick switcher (Ctrl-K): sessions, agents, views, settings and commands by a few letters.
import { agentName, face, fill, h, nameOf, nameOfKey, oneLine, to } from "./dom.js";
import { gateway } from "./gateway.js";
import { wire } from "./wire.js";

const SHOWN = 12;
const VIEWS = [
  ["Chat", "#/chat"],
  ["Sessions", "#/sessions"],
  ["Map", "#/map"],
  ["Needs attention", "#/attention"],
  ["Exchanges", "#/exchanges"],
  ["Operations", "#/operations"],
];
const TABS = ["Health", "Figures", "Agents", "Channels", "Jobs", "Budgets", "Config", "Log"];
const RUN = /^[0-9a-z-]{8,}(::\S+)?$/i; // with its followers: rounds, announces, calls

/** @typedef {{name: string, about: string, key?: string, href?: string, say?: string}} Goal */
/** @typedef {HTMLDialogElement & {field: HTMLInputElement, list: HTMLElement, found: Goal[], chosen: number, asked: number}} Box */

/** @type {Box} */
let box;

export function toggleSwitcher() {
  box ??= make();
  if (box.open) box.close();
  else {
    box.field.value = "";
    box.found = [];
    search();
    learnCommands();
    box.showModal();
    box.field.focus();
  }
}

/** @returns {Box} */
function make() {
  const field = h("input", {
    type: "search",
    placeholder: "Go to a conversation, an agent, a run, a view, a command …",
    "aria-label": "Go to",
    role: "combobox",
    "aria-expanded": "true",
    "aria-controls": "goals",
    oninput: () => search(),
    onkeydown: pressed,
  });
  const list = h("ul", { id: "goals", role: "listbox", "aria-label": "Found" });
  const dialog = h("dialog", { cls: "switcher", "aria-label": "Go to", onclick: ({ target, currentTarget }) => target === currentTarget && currentTarget.close() }, field, list);
  document.body.append(dialog);
  return Object.assign(dialog, { field, list, found: [], chosen: 0, asked: 0 });
}

/** @type {import("./composer.js").Command[]} */
let commands = [];

/** Those of the gateway, asked for once. */
async function learnCommands() {
  if (commands.length || !wire.offers("commands.list")) return;
  const answer = await wire.call("commands.list", { scope: "text" }).catch(() => ({ commands: [] }));
  commands = answer.commands.map((each) => ({ name: each.textAliases?.[0] || `/${each.name}`, text: each.description || "" }));
  search();
}

/** The session that is looked at, in whatever view. */
function keyHere() {
  const [, view, name] = location.hash.split(/[/?]/);
  return ["chat", "sessions", "map"].includes(view) && name ? decodeURIComponent(name) : gateway.mainKey;
}

async function search() {
  const text = box.field.value.trim().toLowerCase();
  const number = ++box.asked;
  show(goals(gateway.recent, text));
  if (text.length < 2 || !wire.ready) return;
  const more = await wire.call("sessions.table", { search: text, limit: SHOWN }).catch(() => null);
  if (more && number === box.asked) show(goals(unique([...gateway.recent, ...more.rows]), text));
}

/** The run that is under way in a session, else its last one.
 * @param {Api.TableRow} row @returns {Goal[]} */
function runOf(row) {
  const { runId } = row.standing;
  return runId ? [{ name: `Run of ${nameOf(row)}`, about: `${row.standing.name} · ${runId}`, href: to.run(runId) }] : [];
}

/** @param {Api.TableRow[]} rows */
const unique = (rows) => [...new Map(rows.map((row) => [row.key, row])).values()];

/** What fits, what begins so first.
 * @param {Api.TableRow[]} rows @param {string} text */
function goals(rows, text) {
  /** @type {Goal[]} */
  const all = [
    ...rows.map((row) => ({ name: nameOf(row), about: row.key, key: row.key, href: to.chat(row.key) })),
    ...gateway.agents.map(({ id }) => ({ name: agentName(id), about: "agent", key: `agent:${id}:main`, href: to.chat(`agent:${id}:main`) })),
    ...VIEWS.map(([name, href]) => ({ name, about: "view", href })),
    ...TABS.map((name) => ({ name, about: "operations of the gateway", href: `#/operations/${name.toLowerCase()}` })),
    { name: "Settings of this session", about: nameOfKey(keyHere()), href: to.session(keyHere()) },
    ...commands.map((each) => ({ name: each.name, about: oneLine(each.text, 70), say: each.name })),
    ...rows.flatMap((row) => runOf(row)),
  ];
  const run = box.field.value.trim();
  if (RUN.test(run) && /\d/.test(run)) all.push({ name: `Run ${run}`, about: "by its id", href: to.run(run) });
  const fits = all.filter((goal) => `${goal.name} ${goal.about}`.toLowerCase().includes(text));
  /** @param {Goal} goal */
  const begins = (goal) => (goal.name.toLowerCase().startsWith(text) ? 0 : 1);
  const seen = new Set();
  return fits
    .sort((a, b) => begins(a) - begins(b))
    .filter((goal) => !seen.has(goal.href || goal.say) && seen.add(goal.href || goal.say))
    .slice(0, SHOWN);
}

/** @param {Goal[]} found */
function show(found) {
  box.found = found;
  box.chosen = 0;
  fill(
    box.list,
    ...found.map((goal, i) =>
      h(
        "li",
        { role: "option", id: `goal-${i}`, onclick: () => go(goal) },
        goal.key ? face(goal.key) : h("i", { cls: "face none", "aria-hidden": "true" }),
        h("b", null, goal.name),
        h("span", null, goal.about),
      ),
    ),
    !found.length && h("li", { cls: "hint" }, "Nothing found"),
  );
  mark();
}

function mark() {
  [...box.list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === box.chosen)));
  box.list.children[box.chosen]?.scrollIntoView({ block: "nearest" });
  if (box.found.length) box.field.setAttribute("aria-activedescendant", `goal-${box.chosen}`);
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  const { found } = box;
  if (event.isComposing || !found.length) return;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    box.chosen = (box.chosen + (event.key === "ArrowDown" ? 1 : found.length - 1)) % found.length;
    mark();
  } else if (event.key === "Enter") {
    event.preventDefault();
    go(found[box.chosen]);
  }
}

/** @param {Goal} goal */
function go(goal) {
  box.close();
  if (goal.href) location.hash = goal.href;
  else {
    if (!location.hash.startsWith("#/chat")) location.hash = "#/chat";
    const field = /** @type {HTMLTextAreaElement | null} */ (document.getElementById("say"));
    if (!field) return;
    field.value = `${goal.say} `;
    field.dispatchEvent(new Event("input"));
    field.focus();
  }
}
