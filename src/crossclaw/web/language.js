// @ts-check
// The first texts of the page in the reader's language; what nobody has translated is English.
import { WORDS } from "./words.js";

const wanted = (navigator.languages || [navigator.language]).map((each) => each.slice(0, 2).toLowerCase());

/** Of the browser's languages the first that is spoken here. */
export const language = wanted.find((each) => each === "en" || each in WORDS) || "en";

/** @type {Record<string, Record<string, string>>} */
const WRITTEN = WORDS;

/** @param {string} text @returns {string} */
export const t = (text) => WRITTEN[language]?.[text] || text;

/** The texts that stand in index.html, where an element is marked with data-t. */
export function translate(root = document) {
  if (language === "en") return;
  for (const element of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("[data-t]"))) {
    element.lang = language;
    for (const node of element.childNodes) {
      if (!(node instanceof Text) || !node.data.trim()) continue;
      const text = node.data.trim().replace(/\s+/g, " ");
      node.data = node.data.replace(/\S[\s\S]*\S|\S/, t(text));
    }
  }
}
