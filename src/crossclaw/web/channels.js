// @ts-check
// Channels: the accounts on chat platforms and how they are, who asks to talk, replies whose fate nobody knows,
// and a message to try one out.
import { Part, ago, debounce, empty, fill, h, nameOfKey, plainMark, to, whenOf, whyOf } from "./dom.js";
import { keepingFocus, plainList } from "./controls.js";
import { report, statusLine } from "./forms.js";
import { complain, gateway, notice, press } from "./gateway.js";
import { Lost, newId, wire } from "./wire.js";

const REFRESH_MS = 5000; // a stranger who asks is waiting for somebody to look
const WAIT_MS = 10000; // for a test message to arrive
const TEST = "This is a test message of your gateway.";
/** @type {Record<Api.ChannelAccount["state"], string>} */
const STATES = { running: "running", starting: "waiting", waiting: "waiting", broken: "bad", stopped: "stopped", "not set up": "off" };
/** @type {Partial<typeof STATES>} */
const WORDS = { broken: "cannot be used", waiting: "not connected", starting: "connecting" };

/** @typedef {Api.ChannelAccount & {channel: string}} Account */

/** @param {{accountId: string}} account @param {string} label */
const titled = (account, label) => (account.accountId === "default" ? label : `${label} (${account.accountId})`);

class Channels extends Part {
  /** @type {Map<string, HTMLFormElement>} */ tests = new Map(); // by account: the form of its test message, once it was asked for
  soon = debounce(() => this.read(), 300);

  open() {
    this.hear(gateway, "attention", () => this.soon());
    this.repeat(REFRESH_MS, () => document.hidden || this.read());
  }

  /** Asked by its tab when it is opened, and when the line is back. */
  async read() {
    if (!wire.ready || !wire.offers("channels.status")) return;
    try {
      const [status, people, deliveries] = await Promise.all([
        wire.call("channels.status", {}),
        wire.offers("chat.pairing.list") ? wire.call("chat.pairing.list", {}) : { requests: [], paired: [] },
        wire.offers("attention.list") ? wire.call("attention.list", { kinds: ["delivery"] }) : { rows: [] },
      ]);
      if (this.isConnected) keepingFocus(this, () => this.draw(status, people, deliveries.rows));
    } catch (error) {
      if (!(error instanceof Lost)) fill(this, h("p", { cls: "problem" }, whyOf(error)));
    }
  }

  /** @param {Api.ChannelsStatus} status @param {Api.PairingListing} people @param {Api.AttentionRow[]} deliveries */
  draw({ channelOrder, channelLabels, channelAccounts }, { requests, paired }, deliveries) {
    /** @param {string} channel */
    const labelOf = (channel) => channelLabels[channel] || channel;
    const accounts = channelOrder.flatMap((channel) => (channelAccounts[channel] || []).map((each) => ({ channel, ...each })));
    fill(
      this,
      accounts.length
        ? list("Accounts", accounts.map((each) => this.account(each, labelOf(each.channel))))
        : empty(
            "No chat platform is set up yet",
            "People can talk to your agents on Telegram, Discord, Matrix, Signal, WhatsApp, iMessage and Slack. For a first one, type crossclaw onboard in a terminal.",
          ),
      requests.length > 0 && [h("h4", null, "Ask to talk"), list("Ask to talk", requests.map((each) => this.request(each, labelOf(each.channel))))],
      deliveries.length > 0 && [h("h4", null, "Did not arrive, or may not have"), list("Did not arrive, or may not have", deliveries.map((row) => this.delivery(row)))],
      paired.length > 0 && [h("h4", null, "May talk, by a code"), list("May talk, by a code", paired.map((each) => this.person(each, labelOf(each.channel))))],
    );
  }

  /** @param {Account} account @param {string} label */
  account(account, label) {
    const place = `${account.channel}/${account.accountId}`;
    const { state, lastError, lastInboundAt, nextTryAt } = account;
    const who = account.bot?.username || account.name;
    const down = state !== "running" && state !== "not set up";
    const title = titled(account, label);
    return [
      h(
        "span",
        { cls: "grow", data: { account: place } },
        title,
        h(
          "small",
          null,
          [
            who,
            lastInboundAt ? `last message ${ago(lastInboundAt)}` : "no message yet",
            down && nextTryAt && `next try ${whenOf(nextTryAt)}`,
          ]
            .filter(Boolean)
            .join(" · "),
        ),
        lastError && h("small", { cls: state === "running" ? "" : "problem" }, `${state === "running" ? "last error: " : ""}${lastError}`),
        this.tests.get(place),
      ),
      plainMark(STATES[state] || "off", WORDS[state] || state),
      down && wire.offers("channels.start") && act(`Connect ${title} now`, "Connect now", () => wire.call("channels.start", { channel: account.channel, accountId: account.accountId }), this.soon),
      wire.offers("send") &&
        state !== "not set up" &&
        h(
          "button",
          { type: "button", "aria-label": `Send a test message by ${title}`, "aria-expanded": String(this.tests.has(place)), onclick: () => this.unfold(place, account) },
          "Send test message",
        ),
    ];
  }

  /** The form stays, with what was typed in it, when the list is drawn anew.
   * @param {string} place @param {Account} account */
  unfold(place, account) {
    if (!this.tests.delete(place)) this.tests.set(place, this.testForm(account));
    const form = this.tests.get(place);
    this.read().then(() => form?.querySelector("input")?.focus());
  }

  /** @param {Account} account @returns {HTMLFormElement} */
  testForm(account) {
    const status = statusLine();
    const chosen = h("input", { name: "to", required: true, autocomplete: "off", placeholder: "a person or chat, as the platform names it" });
    return h(
      "form",
      {
        cls: "try",
        "aria-label": `Test message by ${account.channel}`,
        onsubmit: async (event) => {
          event.preventDefault();
          const chat = chosen.value.trim();
          if (!chat) return;
          report(status, "It is on its way …");
          try {
            report(status, ...(await tryOut(account, chat)));
          } catch (error) {
            report(status, whyOf(error), true);
          }
        },
      },
      h("label", null, "To", chosen),
      h("button", { type: "submit" }, "Send"),
      status,
    );
  }

  /** @param {Api.PairingRequest} request @param {string} label */
  request(request, label) {
    const which = { channel: request.channel, accountId: request.accountId, code: request.code };
    const name = request.senderName ? `${request.senderName} (${request.sender})` : request.sender;
    const may = wire.offers("chat.pairing.approve");
    return [
      h("span", { cls: "grow" }, name, h("small", null, `${titled(request, label)} · code ${request.code} · asked ${ago(request.createdAt)}`)),
      may && act(`Let ${name} in`, "Let in", () => wire.call("chat.pairing.approve", which), this.soon, "main"),
      may && act(`Refuse ${name}`, "Refuse", () => wire.call("chat.pairing.deny", which), this.soon),
    ];
  }

  /** @param {Api.PairedPerson} person @param {string} label */
  person(person, label) {
    const which = { channel: person.channel, accountId: person.accountId, sender: person.sender };
    const name = person.senderName ? `${person.senderName} (${person.sender})` : person.sender;
    const remove = () =>
      notice(`${name} may not talk any more.`, {
        ms: 6000,
        undo: () => {},
        done: () => wire.call("chat.pairing.remove", which).then(this.soon, complain),
      });
    return [
      h("span", { cls: "grow" }, name, h("small", null, `${titled(person, label)} · since ${whenOf(person.approvedAt)}`)),
      wire.offers("chat.pairing.remove") && h("button", { type: "button", cls: "bad", "aria-label": `Remove ${name}`, onclick: remove }, "Remove"),
    ];
  }

  /** A row of Attention: it says itself what helps.
   * @param {Api.AttentionRow} row */
  delivery(row) {
    return [
      h(
        "span",
        { cls: "grow", data: { id: row.id } },
        row.key && [h("a", { href: to.chat(row.key) }, nameOfKey(row.key)), " "],
        row.what,
        h("small", null, [row.why, row.helps].filter(Boolean).join(" ")),
      ),
      (row.actions || []).map((each) => act(`${each.label}: ${row.what}`, each.label, () => wire.act(each), this.soon)),
    ];
  }
}

/** A list with a name, for whoever does not see the heading above it.
 * @param {string} label @param {Page.Child[]} rows */
function list(label, rows) {
  const shown = plainList(rows);
  shown.setAttribute("aria-label", label);
  return shown;
}

/** A button that does its work once, and has the list read anew.
 * @param {string} label @param {string} text @param {() => Promise<unknown>} work @param {() => void} then */
function act(label, text, work, then, cls = "") {
  /** @param {Event & {currentTarget: HTMLButtonElement}} event */
  const onclick = async (event) => {
    await press(event.currentTarget, work);
    gateway.refreshAttention();
    then();
  };
  return h("button", { type: "button", cls, "aria-label": label, onclick }, text);
}

/** Sends it, and says what became of it: words, and whether they are bad news.
 * @param {Account} account @param {string} chat
 * @returns {Promise<[string, boolean]>} */
async function tryOut({ channel, accountId }, chat) {
  const key = newId();
  const { messageId } = await wire.call("send", { channel, accountId, to: chat, message: TEST, idempotencyKey: key });
  const { standing } = await wire.call("deliveries.wait", { messageId, timeoutMs: WAIT_MS });
  if (standing.name === "ok") return ["It has arrived.", false];
  if (standing.name === "failed") return [`It failed because ${standing.why || "the platform refused it"}.`, true];
  if (standing.name === "uncertain") return ["Nobody knows whether it arrived: look in the chat.", true];
  return [`It has not gone out yet${standing.why ? `: ${standing.why}` : "; it is tried again by itself"}.`, true];
}

customElements.define("cc-channels", Channels);
