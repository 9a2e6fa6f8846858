// @ts-check
// Rehearsals at a click: scenes that need no key, each on a throwaway gateway whose page opens in a tab of its own.
import { fill, h } from "./dom.js";
import { complain } from "./gateway.js";
import { t } from "./language.js";
import { wire } from "./wire.js";

/** The scenes that come along, in the reader's language.
 * @type {Record<string, string>} */
const TITLES = {
  "two-agents": t("Two agents talk"),
  team: t("A team of three, with a spawn"),
  "kill-me": t("Kill me: a crash in the middle"),
  budget: t("A budget runs out"),
};

/** What an empty place offers. It fills itself; where the gateway starts no programs for this client it stays empty. */
export function offerRehearsals() {
  const place = h("div", { cls: "offers" });
  if (wire.ready && wire.offers("rehearsals.play"))
    wire.call("rehearsals.list", {}).then(({ rehearsals, playing }) => !playing && fill(place, offers(rehearsals)), () => {});
  return place;
}

/** @param {Api.RehearsalListed[]} rehearsals */
const offers = (rehearsals) => [
  h("p", { cls: "hint" }, t("Or watch a scene. It needs no key, and plays on a gateway of its own that is thrown away:")),
  h(
    "ul",
    null,
    rehearsals.map(({ name, title, about }) =>
      h("li", null, h("button", { type: "button", title: about, onclick: (event) => play(name, event.currentTarget) }, TITLES[name] || title)),
    ),
  ),
];

/** @param {string} name @param {HTMLButtonElement} button */
async function play(name, button) {
  const tab = window.open("", "_blank"); // now: what is opened later is taken for an advertisement
  button.disabled = true;
  try {
    const { url } = await wire.call("rehearsals.play", { name });
    if (tab) {
      tab.opener = null;
      tab.location.replace(url);
    } else location.assign(url);
  } catch (error) {
    tab?.close();
    complain(error);
  }
  button.disabled = false;
}
