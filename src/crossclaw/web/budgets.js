// @ts-check
// Budgets: what a task of each agent may spend, and what the newest task of each conversation has spent of it.
import { agentName, cost, count, empty, h, nameOf, to } from "./dom.js";
import { plainList } from "./controls.js";
import { t } from "./language.js";
import { wire } from "./wire.js";

const SESSIONS = 50; // the newest, of which those that have a budget are shown

/** What a task of an agent, with all it causes, may spend. What the agent does not set is taken from the defaults.
 * @param {string} id @param {Api.ConfigAgents | null} [agents] @returns {Api.ConfigBudget} */
function limitsOf(id, agents) {
  const own = agents?.list?.find((each) => each.id === id)?.budget || agents?.entries?.[id]?.budget;
  const set = Object.fromEntries(Object.entries(own || {}).filter(([, value]) => value !== null));
  return { ...agents?.defaults?.budget, ...set };
}

/** The same in a few words.
 * @param {string} id @param {Api.ConfigAgents | null} [agents] */
export function budgetOf(id, agents) {
  const limits = limitsOf(id, agents);
  const words = [
    limits.tokens && `${count(limits.tokens)} tokens`,
    limits.costUsd && cost(limits.costUsd),
    limits.minutes && `${limits.minutes} min`,
  ].filter(Boolean);
  return words.length ? `budget: ${words.join(", ")}` : "no budget";
}

export async function showLimits() {
  const [{ agents }, { config }] = await Promise.all([wire.call("agents.list"), wire.call("config.get")]);
  /** @param {number | null | undefined} limit @param {(limit: number) => string} words */
  const cell = (limit, words) => h("td", null, limit ? words(limit) : "no limit");
  return [
    h(
      "table",
      { cls: "plain" },
      h("thead", null, h("tr", null, ["Agent", "Tokens", "Cost", "Time"].map((each) => h("th", { scope: "col" }, each)))),
      h(
        "tbody",
        null,
        agents.map(({ id }) => {
          const limits = limitsOf(id, config.agents);
          return h(
            "tr",
            null,
            h("th", { scope: "row" }, agentName(id)),
            cell(limits.tokens, count),
            cell(limits.costUsd, cost),
            cell(limits.minutes, (minutes) => `${minutes} min`),
          );
        }),
      ),
    ),
    h(
      "p",
      { cls: "hint" },
      "A budget bounds a message and everything it causes. It is set for an agent, or in ",
      h("a", { href: "#/operations/config" }, "the config"),
      " under ",
      h("code", null, "agents.defaults.budget"),
      " for all.",
    ),
  ];
}

/** The largest part that is spent of any of its limits, from 0 to 1.
 * @param {Api.BudgetRow} budget */
const shareOf = ({ tokens, tokensSpent, costUsd, costUsdSpent }) =>
  Math.min(1, Math.max(tokens ? tokensSpent / tokens : 0, costUsd ? costUsdSpent / costUsd : 0));

export async function showSpent() {
  const { sessions } = await wire.call("sessions.list", { limit: SESSIONS });
  const rows = sessions
    .flatMap(({ budget, ...row }) => (budget ? { row, budget, share: shareOf(budget) } : []))
    .sort((a, b) => b.share - a.share);
  if (!rows.length)
    return empty(
      "No task has a budget yet",
      "What a task has spent of its budget is shown here.",
      h("p", null, h("a", { href: "#/operations/figures" }, t("What was spent in all"))),
    );
  return plainList(
    rows.map(({ row, budget, share }) => {
      const name = nameOf(row);
      return [
        h("span", { cls: "grow" }, h("a", { href: to.chat(row.key) }, name), h("small", null, budget.text)),
        h("meter", { value: share, high: 0.8, optimum: 0, "aria-label": `Spent by ${name}` }),
      ];
    }),
  );
}
