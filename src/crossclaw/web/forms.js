// @ts-check
// Forms: fields, the line that says what is going on, and the dialog that an agent and a model service have.
import { h, whyOf } from "./dom.js";
import { wire } from "./wire.js";

/** @param {string} label @param {HTMLElement} input @param {string} [hint] */
export const field = (label, input, hint = "") => h("label", null, h("span", null, label), input, hint && h("small", null, hint));

/** @param {HTMLInputElement} input */
export const trimmed = (input) => input.value.trim();

/** The line of a form that says what is going on. */
export const statusLine = () => h("p", { cls: "hint", role: "status", "aria-live": "polite" });

/** Says it on that line; bad news in red.
 * @param {HTMLElement} status @param {string} text @param {boolean} [bad] */
export function report(status, text, bad = false) {
  status.textContent = text;
  status.className = bad ? "problem" : "hint";
}

/** A form in a dialog of its own, open until it is closed.
 * @param {string} title @param {() => void} save @param {Page.Child[]} parts */
export function openForm(title, save, ...parts) {
  /** @param {SubmitEvent} event */
  const onsubmit = (event) => {
    event.preventDefault();
    save();
  };
  const form = h("form", { onsubmit }, h("h3", null, title), ...parts);
  const dialog = h("dialog", { cls: "agent", "aria-label": title, onclose: (event) => event.currentTarget.remove() }, form);
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** One real call to a model; the line says whether it answers.
 * @param {HTMLElement} status @param {Api.TestModelParams} params */
export async function testModel(status, params) {
  report(status, `${params.model} is asked …`);
  try {
    const { ok, tookMs, text } = await wire.call("models.test", params);
    report(status, ok ? `It answers after ${tookMs} ms: ${text}` : `No answer: ${text}`, !ok);
  } catch (error) {
    report(status, whyOf(error), true);
  }
}
