// @ts-check
// A model service: where it is reached, its key, and one real call that says whether it answers. A key that was typed goes
// to the gateway and never comes back.
import { h } from "./dom.js";
import { complain, notice } from "./gateway.js";
import { wire } from "./wire.js";

const SPOKEN = {
  "openai-completions": "OpenAI's chat completions (most servers)",
  "openai-responses": "OpenAI's Responses",
  "anthropic-messages": "Anthropic's Messages",
  "google-generative-ai": "Gemini",
  ollama: "Ollama",
};

/** @param {any} service its name and what the config says of it; without a name, a new one
 * @param {any[]} models @param {() => void} done */
export function editService(service, models, done) {
  const { name: known, baseUrl = "", api = "" } = service;
  const own = !known || Boolean(baseUrl); // others have an address that nobody changes
  const inputs = {
    name: h("input", { required: true, pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*", maxlength: 64, value: known, placeholder: "my-server" }),
    url: h("input", { type: "url", required: own, value: baseUrl, placeholder: "http://127.0.0.1:8080/v1", autocomplete: "off" }),
    api: h("select", null, Object.entries(SPOKEN).map(([value, text]) => h("option", { value, selected: value === api }, text))),
    key: h("input", { type: "password", autocomplete: "off", minlength: 8, placeholder: known ? "kept as it is" : "none" }),
    model: h("input", { list: "its-models", value: models[0]?.id || "", placeholder: "the name of a model there" }),
  };
  const told = h("p", { cls: "hint", role: "status", "aria-live": "polite" });
  const field = (label, input, hint = "") => h("label", null, h("span", null, label), input, hint && h("small", null, hint));
  const form = h(
    "form",
    {
      onsubmit: (event) => {
        event.preventDefault();
        save();
      },
    },
    h("h3", null, known ? `Model service ${known}` : "New model service"),
    !known && field("Name", inputs.name),
    own && field("Base URL", inputs.url, known && "A key that was given for another address does not follow."),
    own && field("What it speaks", inputs.api),
    field("Key", inputs.key, "Kept in credentials/ on the gateway, and never shown again."),
    h(
      "div",
      { cls: "pair" },
      field("Model to try", inputs.model),
      h("button", { type: "button", onclick: () => test() }, "Test"),
    ),
    h("datalist", { id: "its-models" }, models.map((each) => h("option", { value: each.id }))),
    told,
    h(
      "p",
      { cls: "acts" },
      h("button", { cls: "main" }, "Save"),
      h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
    ),
  );
  const dialog = h("dialog", { cls: "agent", "aria-label": "Model service", onclose: () => dialog.remove() }, form);
  document.body.append(dialog);
  dialog.showModal();

  const text = (input) => input.value.trim();
  const name = () => known || text(inputs.name);
  const moved = () => own && (text(inputs.url) !== baseUrl || (api && inputs.api.value !== api) || !known);

  async function test() {
    const model = `${name()}/${text(inputs.model)}`;
    told.classList.remove("problem");
    told.textContent = `${model} is asked …`;
    const key = text(inputs.key);
    const there = moved() ? { baseUrl: text(inputs.url), api: inputs.api.value } : {};
    try {
      const answer = await wire.call("models.test", { model, ...(key && { key }), ...there });
      told.textContent = answer.ok ? `It answers after ${answer.tookMs} ms: ${answer.text}` : `No answer: ${answer.text}`;
      told.classList.toggle("problem", !answer.ok);
    } catch (error) {
      told.textContent = error.message;
      told.classList.add("problem");
    }
  }

  async function save() {
    const key = text(inputs.key);
    try {
      let counts = "";
      if (moved()) {
        const params = { provider: name(), baseUrl: text(inputs.url), api: inputs.api.value, ...(key && { key }) };
        ({ counts } = await wire.call("models.service.set", params));
      } else if (key) ({ counts } = await wire.call("models.key.set", { provider: name(), key }));
      dialog.close();
      if (counts) notice(`${name()} is saved: it counts ${counts}.`);
      done();
    } catch (error) {
      complain(error);
    }
  }
}
