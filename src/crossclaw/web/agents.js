// @ts-check
// An agent, made or changed: its name, what it is for, model, tools, budget, and the owner's words to it.
import { agentName, fill, h } from "./dom.js";
import { complain, gateway, notice } from "./gateway.js";
import { wire } from "./wire.js";

const list = (text) =>
  text
    .split(/[,\n]/)
    .map((each) => each.trim())
    .filter(Boolean);

const named = (allow, id) => !allow?.length || allow.some((each) => new RegExp(`^${each.replace(/[.+?^${}()|[\]\\]/g, "\\$&").replaceAll("*", ".*")}$`).test(id));

/** Whether an agent and others may reach each other, as `tools.agentToAgent` has it. */
const talks = (rule, id) => rule?.enabled !== false && named(rule?.allow, id);

/** The rule with one agent in it or out of it. A list that names nobody would let everybody. */
function ruleWith(rule, id, yes) {
  const ids = gateway.agents.map((each) => each.id);
  const may = ids.filter((each) => (each === id ? yes : talks(rule, each)));
  if (may.length < 2) return { enabled: false };
  return { enabled: true, allow: may.length === ids.length ? ["*"] : may };
}

async function keepRule({ id, rule }, yes) {
  if (yes === talks(rule, id)) return;
  const { hash } = await wire.call("config.get");
  const tools = { agentToAgent: ruleWith(rule, id, yes) };
  await wire.call("config.patch", { raw: JSON.stringify({ tools }), baseHash: hash });
}

const field = (label, input, hint = "") => h("label", null, h("span", null, label), input, hint && h("small", null, hint));

function inputsOf(agent, model) {
  return {
    name: h("input", { required: true, maxlength: 200, value: agent?.name || agent?.id || "" }),
    about: h("input", { maxlength: 1000, value: agent?.description || "" }),
    model: h("input", { list: "known-models", value: model, placeholder: "as the default", autocomplete: "off" }),
    deny: h("input", { value: (agent?.tools?.deny || []).join(", "), placeholder: "exec, group:web" }),
    reach: h("input", { value: (agent?.subagents?.allowAgents || []).join(", "), placeholder: "none but itself" }),
    tokens: h("input", { type: "number", min: 1, value: agent?.budget?.tokens ?? "" }),
    talks: h("input", { type: "checkbox", checked: talks(agent?.rule, agent?.id) }),
    key: h("input", { type: "password", autocomplete: "off", placeholder: "kept as it is" }),
  };
}

function formOf(id, inputs, { models, files, told, acts }) {
  return h(
    "form",
    {
      onsubmit: (event) => {
        event.preventDefault();
        acts.save();
      },
    },
    h("h3", null, id ? `Agent ${id}` : "New agent"),
    field("Name", inputs.name),
    field("What it is for", inputs.about, "One line. The agents that may reach it read it."),
    field("Model", inputs.model),
    h("datalist", { id: "known-models" }, models.map((each) => h("option", { value: `${each.provider}/${each.id}` }))),
    h(
      "div",
      { cls: "pair" },
      field("Key of its service", inputs.key, "Kept in credentials/ on the gateway, and never shown again."),
      h("button", { type: "button", onclick: () => acts.test() }, "Test"),
    ),
    told,
    id && field("Tools that it does not have", inputs.deny),
    id &&
      h(
        "label",
        { cls: "yes" },
        inputs.talks,
        h("span", null, "Other agents reach it, and it reaches them"),
        h("small", null, gateway.agents.length > 1 ? "To send, and to read what was said." : "There is no other agent yet."),
      ),
    id && field("Agents that it may spawn", inputs.reach, `Their ids, or *: ${gateway.agents.map((each) => each.id).join(", ")}`),
    id && field("Budget of a task, in tokens", inputs.tokens, "Empty: as the defaults say."),
    id && words(id, files),
    h(
      "p",
      { cls: "acts" },
      h("button", { cls: "main" }, id ? "Save" : "Add"),
      h("button", { type: "button", onclick: () => acts.close() }, "Cancel"),
      id && h("button", { type: "button", cls: "danger", onclick: () => acts.remove() }, "Remove"),
    ),
  );
}

/** @param {any} agent what the config says of it; null for a new one
 * @param {() => void} done */
export async function editAgent(agent, done) {
  const id = agent?.id;
  const [{ models }, files] = await Promise.all([
    wire.call("models.list", {}),
    id ? wire.call("agents.files.list", { agentId: id }).then((answer) => answer.files) : [],
  ]);
  const model = typeof agent?.model === "string" ? agent.model : agent?.model?.primary;
  const inputs = inputsOf(agent, model || "");
  const told = h("p", { cls: "hint", role: "status", "aria-live": "polite" });
  const acts = { save, test, remove, close: () => dialog.close() };
  const dialog = h(
    "dialog",
    { cls: "agent", "aria-label": id ? `Agent ${id}` : "New agent", onclose: () => dialog.remove() },
    formOf(id, inputs, { models, files, told, acts }),
  );
  document.body.append(dialog);
  dialog.showModal();

  const key = () => inputs.key.value.trim();
  const chosen = () => inputs.model.value.trim();

  async function test() {
    const asked = chosen() || models[0] && `${models[0].provider}/${models[0].id}`;
    told.textContent = `${asked} is asked …`;
    try {
      const answer = await wire.call("models.test", { model: asked, ...(key() ? { key: key() } : {}) });
      told.textContent = answer.ok ? `It answers after ${answer.tookMs} ms: ${answer.text}` : `No answer: ${answer.text}`;
      told.classList.toggle("problem", !answer.ok);
    } catch (error) {
      told.textContent = error.message;
    }
  }

  async function save() {
    const name = inputs.name.value.trim();
    const description = inputs.about.value.trim();
    try {
      if (key() && chosen().includes("/")) await wire.call("models.key.set", { provider: chosen().split("/")[0], key: key() });
      if (!id)
        await wire.call("agents.create", { name, ...(description && { description }), ...(chosen() && { model: chosen() }) });
      else
        await wire.call("agents.update", {
          agentId: id,
          name,
          description: description || null,
          ...(chosen() !== (model || "") && { model: chosen() || null }),
          tools: { ...agent.tools, deny: list(inputs.deny.value) },
          subagents: { ...agent.subagents, allowAgents: list(inputs.reach.value) },
          budget: inputs.tokens.value ? { ...agent.budget, tokens: Number(inputs.tokens.value) } : null,
        });
      if (id) await keepRule(agent, inputs.talks.checked);
      finish(id ? `${name} is saved.` : `${name} is there.`);
    } catch (error) {
      complain(error);
    }
  }

  let sure = false;

  async function remove() {
    if (!sure) {
      sure = true;
      told.textContent = `${agentName(id)} will answer nobody any more. Its sessions and its workspace stay. Press Remove again.`;
      return;
    }
    try {
      await wire.call("agents.delete", { agentId: id });
      finish(`${id} is out of the config. Its sessions and its workspace stay.`);
    } catch (error) {
      complain(error);
    }
  }

  function finish(text) {
    dialog.close();
    notice(text);
    done();
    gateway.refreshSoon();
  }
}

/** The owner's words to an agent, one file at a time. */
function words(agentId, files) {
  const text = h("textarea", { rows: 8, "aria-label": "Text of the file" });
  const which = h(
    "select",
    { "aria-label": "File", onchange: () => show() },
    files.map((each) => h("option", { value: each.name }, `${each.name}${each.missing ? " (not there)" : ""}`)),
  );
  const save = h("button", { type: "button", onclick: () => keep() }, "Save the file");
  let hash = null;
  async function show() {
    try {
      const { file } = await wire.call("agents.files.get", { agentId, name: which.value, withHash: true });
      text.value = file.content || "";
      hash = file.hash;
    } catch (error) {
      complain(error);
    }
  }
  async function keep() {
    try {
      const { file } = await wire.call("agents.files.set", { agentId, name: which.value, content: text.value, expectedHash: hash, withHash: true });
      hash = file.hash;
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
