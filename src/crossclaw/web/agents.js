// @ts-check
// An agent, made or changed: its name, what it is for, model, tools, budget, and the owner's words to it.
import { agentName, fill, h } from "./dom.js";
import { field, openForm, report, statusLine, testModel, trimmed } from "./forms.js";
import { complain, gateway, notice } from "./gateway.js";
import { wire } from "./wire.js";

/** @typedef {Api.ConfigAgent & {rule?: Api.ConfigReach | null}} Edited what the config says of an agent, and the rule about all */
/** @typedef {ReturnType<typeof inputsOf>} Inputs */

/** @param {string} text */
const list = (text) =>
  text
    .split(/[,\n]/)
    .map((each) => each.trim())
    .filter(Boolean);

/** @param {string[] | null | undefined} allow @param {string} id */
const named = (allow, id) => !allow?.length || allow.some((each) => new RegExp(`^${each.replace(/[.+?^${}()|[\]\\]/g, "\\$&").replaceAll("*", ".*")}$`).test(id));

/** Whether an agent and others may reach each other, as `tools.agentToAgent` has it.
 * @param {Api.ConfigReach | null | undefined} rule @param {string} id */
const talks = (rule, id) => rule?.enabled !== false && named(rule?.allow, id);

/** The rule with one agent in it or out of it. A list that names nobody would let everybody.
 * @param {Api.ConfigReach | null | undefined} rule @param {string} id @param {boolean} yes */
function ruleWith(rule, id, yes) {
  const ids = gateway.agents.map((each) => each.id);
  const may = ids.filter((each) => (each === id ? yes : talks(rule, each)));
  if (may.length < 2) return { enabled: false };
  return { enabled: true, allow: may.length === ids.length ? ["*"] : may };
}

/** @param {Edited} agent @param {boolean} yes */
async function keepRule({ id, rule }, yes) {
  if (yes === talks(rule, id)) return;
  const { hash } = await wire.call("config.get");
  const tools = { agentToAgent: ruleWith(rule, id, yes) };
  await wire.call("config.patch", { raw: JSON.stringify({ tools }), baseHash: hash });
}

/** The model that an agent names for itself; empty: as the default.
 * @param {Edited | null} agent */
const modelOf = (agent) => (typeof agent?.model === "string" ? agent.model : agent?.model?.primary) || "";

/** @param {Edited | null} agent */
function inputsOf(agent) {
  return {
    name: h("input", { required: true, maxlength: 200, value: agent?.name || agent?.id || "" }),
    about: h("input", { maxlength: 1000, value: agent?.description || "" }),
    model: h("input", { list: "known-models", value: modelOf(agent), placeholder: "as the default", autocomplete: "off" }),
    deny: h("input", { value: (agent?.tools?.deny || []).join(", "), placeholder: "exec, group:web" }),
    reach: h("input", { value: (agent?.subagents?.allowAgents || []).join(", "), placeholder: "none but itself" }),
    tokens: h("input", { type: "number", min: 1, value: agent?.budget?.tokens ?? "" }),
    talks: h("input", { type: "checkbox", checked: talks(agent?.rule, agent?.id ?? "") }),
    key: h("input", { type: "password", autocomplete: "off", placeholder: "kept as it is" }),
  };
}

/** @param {string | undefined} id @param {Inputs} inputs
 * @param {{models: Api.ModelRow[], files: Api.AgentFile[], status: HTMLElement, acts: Record<"test" | "remove" | "close", () => void>}} about */
function partsOf(id, inputs, { models, files, status, acts }) {
  return [
    field("Name", inputs.name),
    field("What it is for", inputs.about, "One line. The agents that may reach it read it."),
    field("Model", inputs.model),
    h("datalist", { id: "known-models" }, models.map((each) => h("option", { value: `${each.provider}/${each.id}` }))),
    h(
      "div",
      { cls: "pair" },
      field("Key of its service", inputs.key, "Kept in credentials/ on the gateway, and never shown again."),
      h("button", { type: "button", onclick: acts.test }, "Test"),
    ),
    status,
    id && laterParts(id, inputs, files),
    h(
      "p",
      { cls: "acts" },
      h("button", { cls: "main" }, id ? "Save" : "Add"),
      h("button", { type: "button", onclick: acts.close }, "Cancel"),
      id && h("button", { type: "button", cls: "danger", onclick: acts.remove }, "Remove"),
    ),
  ];
}

/** What is decided of an agent once it is there.
 * @param {string} id @param {Inputs} inputs @param {Api.AgentFile[]} files */
function laterParts(id, inputs, files) {
  return [
    field("Tools that it does not have", inputs.deny),
    h(
      "label",
      { cls: "yes" },
      inputs.talks,
      h("span", null, "Other agents reach it, and it reaches them"),
      h("small", null, gateway.agents.length > 1 ? "To send, and to read what was said." : "There is no other agent yet."),
    ),
    field("Agents that it may spawn", inputs.reach, `Their ids, or *: ${gateway.agents.map((each) => each.id).join(", ")}`),
    field("Budget of a task, in tokens", inputs.tokens, "Empty: as the defaults say."),
    words(id, files),
  ];
}

/** @param {Edited | null} agent what the config says of it; null for a new one
 * @param {() => void} done */
export async function editAgent(agent, done) {
  const id = agent?.id;
  const [{ models }, files] = await Promise.all([
    wire.call("models.list", {}),
    id ? wire.call("agents.files.list", { agentId: id }).then((answer) => answer.files) : [],
  ]);
  const inputs = inputsOf(agent);
  const status = statusLine();
  /** @param {string} text */
  const finish = (text) => {
    dialog.close();
    notice(text);
    done();
    gateway.refreshSoon();
  };
  const acts = {
    test: () => void testModel(status, toTest(inputs, models)),
    remove: remover(id ?? "", status, finish),
    close: () => dialog.close(),
  };
  const save = () => saveAgent(agent, inputs).then(finish, complain);
  const dialog = openForm(id ? `Agent ${id}` : "New agent", save, partsOf(id, inputs, { models, files, status, acts }));
}

/** The model that was chosen, else the first there is, with a key that was typed.
 * @param {Inputs} inputs @param {Api.ModelRow[]} models */
function toTest(inputs, [first]) {
  const key = trimmed(inputs.key);
  return { model: trimmed(inputs.model) || (first ? `${first.provider}/${first.id}` : ""), ...(key && { key }) };
}

/** Stores what was typed; answers with what is so now, in a sentence.
 * @param {Edited | null} agent @param {Inputs} inputs */
async function saveAgent(agent, inputs) {
  const [name, key, model] = [inputs.name, inputs.key, inputs.model].map(trimmed);
  if (key && model.includes("/")) await wire.call("models.key.set", { provider: model.split("/")[0], key });
  if (!agent?.id) {
    const description = trimmed(inputs.about);
    await wire.call("agents.create", { name, ...(description && { description }), ...(model && { model }) });
    return `${name} is there.`;
  }
  await wire.call("agents.update", changesOf(agent, inputs));
  await keepRule(agent, inputs.talks.checked);
  return `${name} is saved.`;
}

/** @param {Edited} agent @param {Inputs} inputs @returns {Api.UpdateAgentParams} */
function changesOf(agent, inputs) {
  const model = trimmed(inputs.model);
  return {
    agentId: agent.id,
    name: trimmed(inputs.name),
    description: trimmed(inputs.about) || null,
    ...(model !== modelOf(agent) && { model: model || null }),
    tools: { ...agent.tools, deny: list(inputs.deny.value) },
    subagents: { ...agent.subagents, allowAgents: list(inputs.reach.value) },
    budget: inputs.tokens.value ? { ...agent.budget, tokens: Number(inputs.tokens.value) } : null,
  };
}

/** Removes an agent when it is called a second time; the first call says what that means.
 * @param {string} id @param {HTMLElement} status @param {(text: string) => void} finish */
function remover(id, status, finish) {
  let sure = false;
  return async () => {
    if (!sure) {
      sure = true;
      report(status, `${agentName(id)} will answer nobody any more. Its sessions and its workspace stay. Press Remove again.`);
      return;
    }
    try {
      await wire.call("agents.delete", { agentId: id });
      finish(`${id} is out of the config. Its sessions and its workspace stay.`);
    } catch (error) {
      complain(error);
    }
  };
}

/** The owner's words to an agent, one file at a time.
 * @param {string} agentId @param {Api.AgentFile[]} files */
function words(agentId, files) {
  const text = h("textarea", { rows: 8, "aria-label": "Text of the file" });
  const which = h(
    "select",
    { "aria-label": "File", onchange: () => show() },
    files.map((each) => h("option", { value: each.name }, `${each.name}${each.missing ? " (not there)" : ""}`)),
  );
  const save = h("button", { type: "button", onclick: () => keep() }, "Save the file");
  const name = () => /** @type {Api.GetFileParams["name"]} */ (which.value);
  /** @type {string | undefined} */
  let hash;
  let shown = 0; // files so far: an answer about one that is not shown any more changes nothing
  async function show() {
    const mine = ++shown;
    text.value = "";
    text.disabled = save.disabled = true; // what is typed before the file has come would be lost
    try {
      const { file } = await wire.call("agents.files.get", { agentId, name: name(), withHash: true });
      if (mine !== shown) return;
      text.value = file.content || "";
      hash = file.hash;
      text.disabled = save.disabled = false;
    } catch (error) {
      complain(error);
    }
  }
  async function keep() {
    const mine = shown;
    try {
      const { file } = await wire.call("agents.files.set", { agentId, name: name(), content: text.value, expectedHash: hash, withHash: true });
      if (mine === shown) hash = file.hash;
      notice(`${file.name} is saved: sessions that begin now read it.`);
    } catch (error) {
      complain(error);
    }
  }
  const part = h("fieldset", null, h("legend", null, "Your words to it"), which, text, save);
  if (files.length) show();
  else fill(part);
  return part;
}
