// @ts-check
// Keeping what is shown: a link to it, or a file.
import { h } from "./dom.js";
import { notice } from "./gateway.js";

/** @param {string} text */
export function copy(text) {
  navigator.clipboard?.writeText(text).then(
    () => notice("The link is copied; it opens on this machine.", { ms: 2500 }),
    () => notice(text),
  );
}

/** @param {unknown} value @param {string} name */
export function save(value, name) {
  const url = URL.createObjectURL(new Blob([JSON.stringify(value, null, 2)], { type: "application/json" }));
  h("a", { href: url, download: `${name.replace(/[^\w-]/g, "_")}.json` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
