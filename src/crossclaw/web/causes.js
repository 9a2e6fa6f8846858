// @ts-check
// What led to a run, and its figures: shown above exchanges and runs alike.
import { authorOf, beginning, h, nameOfKey, timeOf, to } from "./dom.js";

/** How it came to this: from the person, the clock or the hook that began it all.
 * @param {Api.RunTrace | null} began @param {Api.RunRow} [current] */
export function chainOf(began, current) {
  if (!began) return null;
  const first = began.chain[0];
  const start = first ? beginning(first.kind) : startOf(began);
  const runs = [...began.chain, began.run];
  return h(
    "ol",
    { cls: "chain", "aria-label": "What led to this" },
    h("li", null, h("span", null, start)),
    runs.map((run) =>
      h(
        "li",
        null,
        h(
          "a",
          {
            href: to.run(run.runId),
            "aria-current": run.runId === current?.runId ? "true" : null,
            title: timeOf(run.createdAt),
          },
          `${nameOfKey(run.key)} · ${run.kind}`,
        ),
      ),
    ),
  );
}

/** @param {Api.RunTrace} began */
function startOf({ asked, run }) {
  if (!asked?.provenance) return beginning(run.kind);
  return authorOf(asked.provenance);
}

/** @param {[name: string, value: Page.Child][]} pairs */
export function figures(pairs) {
  return h(
    "dl",
    { cls: "figures" },
    pairs.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))),
  );
}
