// @ts-check
// Finding what an address names: an exchange, a run, a trace.
import { empty, h, whyOf } from "./dom.js";
import { Lost, wire } from "./wire.js";

/** Asks for what the view's `name` names and draws the answer, unless the view has gone on to another meanwhile.
 * A refusal is shown with its reason and a way on. What is lost with the line is asked again when it is back.
 * @template Found
 * @param {{ name: string | null }} view
 * @param {{ ask: (name: string) => Promise<Found>, draw: (found: Found) => void, refuse: (why: HTMLElement) => void }} how */
export async function findNamed(view, { ask, draw, refuse }) {
  const { name } = view;
  if (!wire.ready || !name) return;
  let found;
  try {
    found = await ask(name);
  } catch (error) {
    if (name === view.name && !(error instanceof Lost)) refuse(notFound(error));
    return;
  }
  if (name === view.name) draw(found);
}

/** @param {unknown} error */
const notFound = (error) => empty("Not found", whyOf(error), h("p", null, h("a", { href: "#/exchanges" }, "All exchanges")));
