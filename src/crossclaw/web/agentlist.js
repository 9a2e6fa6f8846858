// @ts-check
// The agents that there are, each with its budget, and the way to change one or to add one.
import { h, to } from "./dom.js";
import { plainList } from "./controls.js";
import { budgetOf } from "./budgets.js";
import { wire } from "./wire.js";

/** What the config says of an agent, in its list or in its map.
 * @param {string} id @param {Api.ConfigAgents | null} [agents] @returns {Omit<Api.ConfigAgent, "id">} */
const saidOf = (id, agents) => (agents?.list || []).find((each) => each.id === id) || agents?.entries?.[id] || {};

const KNOWN = ["anthropic", "openai", "google", "openrouter"]; // for which a key is enough

/** Where models are asked: services with addresses of their own, and those that models here name.
 * @param {{again: () => void}} place */
export async function showServices({ again }) {
  const [{ models }, { config }] = await Promise.all([wire.call("models.list", {}), wire.call("config.get")]);
  const own = config?.models?.providers || {};
  const used = models.map((each) => each.provider);
  const names = [...new Set([...used, ...Object.keys(own), ...KNOWN])].filter((name) => !["rehearsal", "local"].includes(name));
  /** @param {string} name */
  const open = async (name) =>
    (await import("./services.js")).editService({ name, ...own[name] }, models.filter((each) => each.provider === name), again);
  const rows = plainList(
    names.map((name) => [
      h("span", { cls: "grow" }, name, h("small", null, own[name]?.baseUrl || "at its usual address")),
      h("button", { type: "button", onclick: () => open(name) }, "Key and test"),
    ]),
  );
  return [rows, h("p", { cls: "acts" }, h("button", { type: "button", onclick: () => open("") }, "New service"))];
}

/** @param {{again: () => void}} place */
export async function showAgents({ again }) {
  const [{ agents, defaultId }, { config, written }] = await Promise.all([
    wire.call("agents.list"),
    wire.offers("config.get") ? wire.call("config.get") : { config: null, written: null },
  ]);
  /** @type {Api.ConfigAgents | undefined} */
  const file = JSON.parse(written || "{}").agents; // what is written, without what holds anyway
  const may = wire.offers("agents.update");
  /** @param {import("./agents.js").Edited | null} agent */
  const edit = async (agent) => (await import("./agents.js")).editAgent(agent, again);
  /** @param {string} id */
  const said = (id) => ({ id, ...saidOf(id, file), rule: config?.tools?.agentToAgent });
  const rows = plainList(
    agents.map((agent) => [
      h(
        "span",
        { cls: "grow" },
        agent.name || agent.id,
        h(
          "small",
          null,
          `${agent.id}${agent.id === defaultId ? ", the default" : ""} · `,
          h("span", { cls: "budget" }, budgetOf(agent.id, config?.agents)),
        ),
      ),
      h("a", { href: to.chat(`agent:${agent.id}:main`) }, "Chat"),
      may && h("button", { type: "button", onclick: () => edit(said(agent.id)) }, "Edit"),
    ]),
  );
  return [rows, may && h("p", { cls: "acts" }, h("button", { type: "button", onclick: () => edit(null) }, "New agent"))];
}
