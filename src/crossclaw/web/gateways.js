// @ts-check
// The gateways that share a ledger: how each is, what it does, and the way to let one leave.
import { ago, h, plainMark, plural } from "./dom.js";
import { plainList } from "./controls.js";
import { complain, notice } from "./gateway.js";
import { wire } from "./wire.js";

/** @type {Set<string>} */
const sure = new Set(); // whose button was pressed once

/** @param {Api.GatewayListed} each @param {Api.GatewaysListResult} answer
 * @returns {[string, string, string]} what the mark looks like, what it says, and why */
function stateOf(each, answer) {
  const why = each.whyNoRuns || (each.here && answer.whyNoRuns) || "";
  if (!each.leaseMs) return ["bad", "away", "It was not heard of for longer than its lease: the others go on with what it had."];
  if (each.draining) return ["waiting", "draining", "It begins nothing more, and leaves when its runs have ended."];
  if (why) return ["bad", "takes no runs", `Because ${why}.`];
  return ["ok", "live", ""];
}

/** @param {string} id @param {() => void} again */
async function drain(id, again) {
  try {
    if (!sure.delete(id)) sure.add(id);
    else {
      await wire.call("gateways.drain", { id });
      notice(`${id} begins nothing more, and leaves when its runs have ended.`);
    }
    again();
  } catch (error) {
    complain(error);
  }
}

/** @param {Api.GatewayListed} each @param {Api.GatewaysListResult} answer @param {() => void} again */
function row(each, answer, again) {
  const [mark, state, why] = stateOf(each, answer);
  const may = wire.offers("gateways.drain") && each.leaseMs > 0 && !each.draining;
  const asked = may && sure.has(each.id);
  const facts = [
    each.address,
    plural(each.runs, "run") + " under way",
    `version ${each.version}`,
    `started ${ago(each.joinedAt)}`,
    each.leaseMs > 0 && `lease for ${(each.leaseMs / 1000).toFixed(1)} s more`,
  ];
  return [
    h(
      "span",
      { cls: "grow", data: { gateway: each.id } },
      h("b", null, each.id),
      each.here ? " (this one) " : " ",
      plainMark(mark, state),
      h("small", null, facts.filter(Boolean).join(" · ")),
      each.roles.length > 0 && h("small", null, `has ${each.roles.join(", ")}`),
      why && h("small", null, why),
      asked && h("small", { role: "status" }, `Clients of ${each.id} have to go to another gateway. Press again to drain it.`),
    ),
    may &&
      h(
        "button",
        { type: "button", cls: asked ? "bad" : "", "aria-label": `Drain ${each.id}`, onclick: () => drain(each.id, again) },
        asked ? "Drain, really" : "Drain",
      ),
  ];
}

/** @param {{again: () => void}} place */
export async function showGateways({ again }) {
  const answer = await wire.call("gateways.list");
  return plainList(answer.gateways.map((each) => row(each, answer, again)));
}
