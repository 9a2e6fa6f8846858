// @ts-check
// Health: how the gateway is, who is connected, and the last lines of its log.
import { ago, count, h, lasted, plainMark } from "./dom.js";
import { plainList } from "./controls.js";
import { gateway } from "./gateway.js";
import { t } from "./language.js";
import { wire } from "./wire.js";

const LOG_LINES = 200;

export async function showGateway() {
  const [health, status] = await Promise.all([wire.call("health"), wire.call("status")]);
  const uptime = (gateway.hello?.snapshot?.uptimeMs || 0) + performance.now() - (gateway.helloAt || 0);
  /** @type {[string, Page.Child][]} */
  const pairs = [
    ["State", plainMark(health.ok ? "ok" : "bad", health.ok ? "ok" : "failed")],
    ["Version", gateway.hello?.server?.version || "?"],
    ["Sessions", h("a", { href: "#/sessions" }, count(status.sessions?.count ?? 0))],
    ["Model", status.model || "–"],
    ["Up for", lasted(uptime)],
    ["Store", h("code", null, status.sessions?.paths?.[0] || "–")],
  ];
  if (status.disk) pairs.push(["Size", sizes(status.disk)]);
  const facts = h(
    "dl",
    { cls: "facts" },
    pairs.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]),
  );
  const warnings = [];
  if (status.modelFault) warnings.push(status.modelFault);
  else if (status.rehearsal)
    warnings.push(
      t("This is the rehearsal model: it needs no key and plays scripts. For a real one: crossclaw onboard"),
    );
  if (status.unimported?.length)
    warnings.push(
      t("Sessions or jobs of OpenClaw are here and not imported yet. Stop the gateway, then: crossclaw import"),
    );
  return [facts, ...warnings.map((text) => h("p", { cls: "warn" }, text))];
}

export async function showClients() {
  const clients = await wire.call("system-presence");
  return plainList(
    clients.map((each) => [
      h(
        "span",
        { cls: "grow" },
        each.host || "client",
        h(
          "small",
          null,
          [each.mode, each.platform, each.ip, each.version && `version ${each.version}`]
            .filter(Boolean)
            .join(" · "),
        ),
      ),
      h("small", null, ago(each.ts)),
    ]),
  );
}

export async function showLogs() {
  const answer = await wire.call("logs.tail", { limit: LOG_LINES });
  const file = h("code", null, answer.file);
  const lines = (answer.lines || []).map((line) => (typeof line === "string" ? line : JSON.stringify(line)));
  if (!lines.length)
    return h(
      "p",
      { cls: "hint" },
      "No line yet in ",
      file,
      ". The gateway writes there when it begins and when something goes wrong; if it could not, it said so where it was started.",
    );
  const text = h("pre", { tabindex: "0", "aria-label": "Last lines of the log" }, lines.join("\n"));
  requestAnimationFrame(() => {
    text.scrollTop = text.scrollHeight;
  });
  return [h("p", { cls: "hint" }, file), text];
}

/** How large the store is, by how much it grew since the gateway was started, and what is left.
 * @param {Api.Disk} disk */
function sizes(disk) {
  /** @param {number} bytes */
  const mb = (bytes) => {
    const [size, unit] = bytes < 2 ** 30 ? [bytes / 2 ** 20, "MB"] : [bytes / 2 ** 30, "GB"];
    return `${size.toLocaleString(undefined, { maximumFractionDigits: 1 })} ${unit}`;
  };
  const grown = disk.grownBytes > 0 ? `, ${mb(disk.grownBytes)} of it since the start` : "";
  return `${mb(disk.ledgerBytes + disk.walBytes)}${grown}; ${mb(disk.freeBytes)} of the disk are free`;
}
