// @ts-check
// Small controls that several views are made of: a select, a choice of few, a plain list.
import { h } from "./dom.js";

/** @typedef {[id: string, text: string]} Option */

/** @param {string | null} label @param {Option[]} options
 * @param {((event: Event & {currentTarget: HTMLSelectElement}) => void) | null} onchange @param {string} [value] */
export function select(label, options, onchange, value = "") {
  const element = h(
    "select",
    { "aria-label": label, onchange },
    options.map(([id, text]) => h("option", { value: id }, text)),
  );
  element.value = value || options[0][0];
  return element;
}

/** A few buttons of which one is pressed; its `value` says which.
 * @param {string} label @param {Option[]} options @param {string} value @param {() => void} onchange */
export function choice(label, options, value, onchange) {
  const element = Object.assign(h("div", { cls: "choice", role: "group", "aria-label": label }), { value });
  element.append(
    ...options.map(([id, text]) =>
      h(
        "button",
        {
          type: "button",
          "aria-pressed": String(id === value),
          onclick: (event) => {
            element.value = id;
            for (const each of element.children) each.setAttribute("aria-pressed", String(each === event.currentTarget));
            onchange();
          },
        },
        text,
      ),
    ),
  );
  return element;
}

/** @param {Page.Child[]} rows */
export const plainList = (rows) =>
  h(
    "ul",
    { cls: "plainlist" },
    rows.map((cells) => h("li", null, cells)),
  );

/** Whoever stands on a control of this part stands on it, on the link to the same place or on the one in its place, when it is drawn anew.
 * @param {HTMLElement} part @param {() => void} draw */
export function keepingFocus(part, draw) {
  /** @returns {HTMLElement[]} */
  const stops = () => [...part.querySelectorAll(/** @type {"a"} */ ("a[href], button, input, select, textarea, summary"))];
  const held = /** @type {HTMLElement | null} */ (document.activeElement),
    at = held ? stops().indexOf(held) : -1;
  draw();
  if (!held || at < 0 || part.contains(document.activeElement)) return;
  const there = held.getAttribute("href");
  const again = held.isConnected
    ? held
    : (there && stops().find((each) => each.getAttribute("href") === there)) || stops()[Math.min(at, stops().length - 1)];
  again?.focus({ preventScroll: true });
}
