// @ts-check
// Small controls that several views are made of: a select, a choice of few, a plain list.
import { h } from "./dom.js";

export function select(label, options, onchange, value = "") {
  const element = h(
    "select",
    { "aria-label": label, onchange },
    options.map(([id, text]) => h("option", { value: id }, text)),
  );
  element.value = value || options[0][0];
  return element;
}

/** A few buttons of which one is pressed; its `value` says which. */
export function choice(label, options, value, onchange) {
  const element = h("div", { cls: "choice", role: "group", "aria-label": label });
  element.value = value;
  element.append(
    ...options.map(([id, text]) =>
      h(
        "button",
        {
          type: "button",
          "aria-pressed": String(id === value),
          onclick: (event) => {
            element.value = id;
            for (const each of element.children) each.setAttribute("aria-pressed", String(each === event.target));
            onchange();
          },
        },
        text,
      ),
    ),
  );
  return element;
}

export const plainList = (rows) =>
  h(
    "ul",
    { cls: "plainlist" },
    rows.map((cells) => h("li", null, cells)),
  );

/** Whoever stands on a control of this part stands on it, on the link to the same place or on the one in its place, when it is drawn anew. */
export function keepingFocus(part, draw) {
  const stops = () => [...part.querySelectorAll("a[href], button, input, select, textarea, summary")];
  const held = document.activeElement,
    at = stops().indexOf(held);
  draw();
  if (at < 0 || part.contains(document.activeElement)) return;
  const there = held.getAttribute("href");
  const again = held.isConnected
    ? held
    : (there && stops().find((each) => each.getAttribute("href") === there)) || stops()[Math.min(at, stops().length - 1)];
  again?.focus({ preventScroll: true });
}
