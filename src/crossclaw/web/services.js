// @ts-check
// A model service: where it is reached, its key, and one real call that says whether it answers. A key that was typed goes
// to the gateway and never comes back.
import { h } from "./dom.js";
import { field, openForm, statusLine, testModel, trimmed } from "./forms.js";
import { complain, notice } from "./gateway.js";
import { wire } from "./wire.js";

/** @typedef {Api.ConfigService & {name: string}} Service its name and what the config says of it; without a name, a new one */
/** @typedef {ReturnType<typeof inputsOf>} Inputs */

/** @type {Record<string, string>} */
const SPOKEN = {
  "openai-completions": "OpenAI's chat completions (most servers)",
  "openai-responses": "OpenAI's Responses",
  "anthropic-messages": "Anthropic's Messages",
  "google-generative-ai": "Gemini",
  ollama: "Ollama",
};

/** @param {Service} service @param {Api.ModelRow[]} models @param {() => void} done */
export function editService(service, models, done) {
  const inputs = inputsOf(service, models);
  const status = statusLine();
  const acts = {
    test: () => void testModel(status, toTest(service, inputs)),
    close: () => dialog.close(),
  };
  /** @param {string} text */
  const finish = (text) => {
    dialog.close();
    if (text) notice(text);
    done();
  };
  const save = () => saveService(service, inputs).then(finish, complain);
  const title = service.name ? `Model service ${service.name}` : "New model service";
  const dialog = openForm(title, save, partsOf(service, inputs, { models, status, acts }));
}

/** Whether its address can be changed: a new one's, and one that the config gives.
 * @param {Service} service */
const isOwn = ({ name, baseUrl }) => !name || Boolean(baseUrl);

/** @param {Service} service @param {Api.ModelRow[]} models */
function inputsOf({ name, baseUrl, api }, models) {
  return {
    name: h("input", { required: true, pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*", maxlength: 64, value: name, placeholder: "my-server" }),
    url: h("input", { type: "url", required: isOwn({ name, baseUrl }), value: baseUrl || "", placeholder: "http://127.0.0.1:8080/v1", autocomplete: "off" }),
    api: h("select", null, Object.entries(SPOKEN).map(([value, text]) => h("option", { value, selected: value === api }, text))),
    key: h("input", { type: "password", autocomplete: "off", minlength: 8, placeholder: name ? "kept as it is" : "none" }),
    model: h("input", { list: "its-models", value: models[0]?.id || "", placeholder: "the name of a model there" }),
  };
}

/** @param {Service} service @param {Inputs} inputs
 * @param {{models: Api.ModelRow[], status: HTMLElement, acts: Record<"test" | "close", () => void>}} about */
function partsOf(service, inputs, { models, status, acts }) {
  const own = isOwn(service);
  return [
    !service.name && field("Name", inputs.name),
    own && field("Base URL", inputs.url, service.name && "A key that was given for another address does not follow."),
    own && field("What it speaks", inputs.api),
    field("Key", inputs.key, "Kept in credentials/ on the gateway, and never shown again."),
    h(
      "div",
      { cls: "pair" },
      field("Model to try", inputs.model),
      h("button", { type: "button", onclick: acts.test }, "Test"),
    ),
    h("datalist", { id: "its-models" }, models.map((each) => h("option", { value: each.id }))),
    status,
    h(
      "p",
      { cls: "acts" },
      h("button", { cls: "main" }, "Save"),
      h("button", { type: "button", onclick: acts.close }, "Cancel"),
    ),
  ];
}

/** @param {Service} service @param {Inputs} inputs */
const nameOf = (service, inputs) => service.name || trimmed(inputs.name);

/** Where it is reached and the key, as far as either was typed.
 * @param {Service} service @param {Inputs} inputs */
function changesOf(service, inputs) {
  const { name, baseUrl, api } = service;
  const [url, key] = [inputs.url, inputs.key].map(trimmed);
  const spoken = /** @type {Api.SetServiceParams["api"]} */ (inputs.api.value);
  const moved = isOwn(service) && (url !== (baseUrl || "") || (api && spoken !== api) || !name);
  return { ...(moved && { baseUrl: url, api: spoken }), ...(key && { key }) };
}

/** @param {Service} service @param {Inputs} inputs */
const toTest = (service, inputs) => ({
  model: `${nameOf(service, inputs)}/${trimmed(inputs.model)}`,
  ...changesOf(service, inputs),
});

/** Stores what was typed; answers with what is so now, in a sentence. Nothing typed, nothing said.
 * @param {Service} service @param {Inputs} inputs */
async function saveService(service, inputs) {
  const { baseUrl, api, key } = changesOf(service, inputs);
  const provider = nameOf(service, inputs);
  if (baseUrl === undefined && !key) return "";
  const { counts } =
    baseUrl === undefined
      ? await wire.call("models.key.set", { provider, key: key || "" })
      : await wire.call("models.service.set", { provider, baseUrl, api, ...(key && { key }) });
  return counts && `${provider} is saved: it counts ${counts}.`;
}
