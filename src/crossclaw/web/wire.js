// @ts-check
// The wire: one WebSocket to the gateway, asked by `call`, heard by events. It comes back by itself.

const PROTOCOL = 4;
const RETRY_MS = [300, 1000, 2000, 5000, 10000, 20000];
const SILENT_MS = 75000; // a gateway ticks every 30 s: a line silent for two ticks is dead
const CALL_MS = 60000;
const TOKEN = "crossclaw.token";

export class Refused extends Error {
  /** @param {{message?: string, code?: string, retryable?: boolean}} [error] */
  constructor(error) {
    super(error?.message || "the gateway refused");
    this.code = error?.code;
    this.retryable = Boolean(error?.retryable);
  }
}

/** The line is not there, or not yet, or not any more. */
export class Lost extends Error {}

/** @returns {string} */
const newId = () =>
  crypto.randomUUID ? crypto.randomUUID() : `${Date.now()}-${Math.random().toString(36).slice(2)}`;
export { newId };

/** @typedef {{resolve: (answer: any) => void, reject: (why: Error) => void, timer: number}} Caller what it is answered with is
 * known to `ask` alone */

/** Tells `line` (state, text), `open` (hello), `door` (why) and every event of the gateway by its name. */
export class Wire extends EventTarget {
  /** @type {WebSocket | null} */ socket = null;
  /** @type {Map<string, Caller>} */ waiting = new Map();
  heardAt = 0;
  retry = 0;
  ready = false; // welcomed, and not told to leave
  closing = false; // the gateway has told that it goes
  tries = 0;
  /** @type {Set<string>} */ features = new Set();

  get token() {
    return sessionStorage.getItem(TOKEN);
  }

  start() {
    this.takeToken();
    addEventListener("hashchange", () => {
      if (this.takeToken()) this.restart();
    });
    addEventListener("online", () => {
      if (!this.socket) this.connect();
    });
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden && !this.socket && this.token) this.connect();
    });
    setInterval(() => {
      if (this.socket && Date.now() - this.heardAt > SILENT_MS) this.socket.close(4000, "tick timeout");
    }, 5000);
    this.connect();
  }

  takeToken() {
    const given = new URLSearchParams(location.hash.slice(1)).get("token");
    if (!given) return false;
    sessionStorage.setItem(TOKEN, given);
    history.replaceState(null, "", `${location.pathname}${location.search}#/${location.search === "?rehearsal" ? "rehearsal" : "chat"}`);
    return true;
  }

  /** @param {string} token */
  enter(token) {
    sessionStorage.setItem(TOKEN, token);
    this.restart();
  }

  /** @param {string} [why] */
  forget(why) {
    sessionStorage.removeItem(TOKEN);
    this.drop();
    this.tell("door", { why });
  }

  restart() {
    this.tries = 0;
    this.drop();
    this.connect();
  }

  drop() {
    const socket = this.socket;
    this.socket = null;
    this.ready = false;
    socket?.close();
    this.fail();
  }

  connect() {
    clearTimeout(this.retry);
    if (!this.token) {
      this.tell("door", {});
      return;
    }
    this.tell("line", { state: "wait", text: "connecting …" });
    const socket = new WebSocket(
      `${location.protocol === "https:" ? "wss:" : "ws:"}//${location.host}${location.pathname}`,
    );
    this.socket = socket;
    this.waiting = new Map();
    this.closing = false;
    this.heardAt = Date.now();
    socket.onmessage = (message) => {
      if (socket === this.socket) this.take(JSON.parse(message.data));
    };
    socket.onclose = (close) => {
      if (socket === this.socket) this.closed(close);
    };
  }

  /** @param {CloseEvent} close */
  closed(close) {
    this.socket = null;
    this.ready = false;
    this.fail();
    if (!this.token) return;
    const pause = RETRY_MS[Math.min(this.tries++, RETRY_MS.length - 1)] * (0.8 + Math.random() * 0.4);
    const why = close.reason ? ` (${close.reason})` : "";
    this.tell("line", { state: "off", text: `not connected${why}, trying again` });
    this.retry = setTimeout(() => this.connect(), pause);
  }

  fail() {
    for (const { reject, timer } of this.waiting.values()) {
      clearTimeout(timer);
      reject(new Lost("the connection ended"));
    }
    this.waiting.clear();
  }

  /** Before the welcome and after the farewell nothing is asked: the gateway would refuse it.
   * @template {Api.Method} M
   * @param {M} method @param {Api.Asked<M>} params
   * @returns {Promise<Api.Answer<M>>} */
  async call(method, ...params) {
    if (!this.ready) throw new Lost("not connected");
    return this.ask(method, ...params);
  }

  /** What the gateway itself offers to do, by its name for it.
   * @param {Api.AttentionAction} action @returns {Promise<unknown>} */
  act({ method, params }) {
    return this.call(/** @type {Api.Method} */ (method), /** @type {any} */ (params));
  }

  /** @template {Api.Method} M
   * @param {M} method @param {Api.Asked<M>} asked
   * @returns {Promise<Api.Answer<M>>} */
  ask(method, ...[params = {}]) {
    return new Promise((resolve, reject) => {
      if (this.socket?.readyState !== WebSocket.OPEN) {
        reject(new Lost("not connected"));
        return;
      }
      const id = newId();
      const waiting = this.waiting;
      const timer = setTimeout(() => {
        waiting.delete(id);
        reject(new Error(`${method}: no answer within a minute`));
      }, CALL_MS);
      waiting.set(id, { resolve, reject, timer });
      this.socket.send(JSON.stringify({ type: "req", id, method, params }));
    });
  }

  /** @param {any} frame an event or an answer, as it was sent */
  take(frame) {
    this.heardAt = Date.now();
    if (frame.type === "event") {
      if (frame.event === "connect.challenge") this.introduce();
      else if (frame.event === "shutdown") this.leave();
      else this.tell(frame.event, frame.payload || {});
      return;
    }
    const caller = this.waiting.get(frame.id);
    if (!caller) return;
    this.waiting.delete(frame.id);
    clearTimeout(caller.timer);
    if (frame.ok) caller.resolve(frame.payload);
    else caller.reject(this.refusal(new Refused(frame.error)));
  }

  /** What a closing gateway does not take any more is as good as not sent.
   * @param {Refused} refused */
  refusal(refused) {
    return this.closing && refused.retryable ? new Lost("the gateway closes") : refused;
  }

  leave() {
    this.closing = true;
    this.ready = false;
    this.tell("line", { state: "off", text: "the gateway closes, trying again" });
  }

  async introduce() {
    let hello;
    try {
      hello = await this.ask("connect", {
        minProtocol: PROTOCOL,
        maxProtocol: PROTOCOL,
        client: { id: "webchat-ui", mode: "webchat", version: "2", platform: "browser" },
        role: "operator",
        scopes: ["operator.admin", "operator.read", "operator.write"],
        caps: ["tool-events"],
        auth: { token: this.token },
        locale: navigator.language,
      });
      this.features = new Set(hello.features?.methods || []);
      await this.ask("sessions.subscribe");
    } catch (error) {
      if (error instanceof Refused && /unauthorized|pairing|identity/i.test(error.message))
        this.forget(error.message);
      else if (error instanceof Refused) this.tell("line", { state: "off", text: error.message });
      return;
    }
    if (this.closing) return;
    this.tries = 0;
    this.ready = true;
    this.tell("line", { state: "on", text: "connected" });
    this.tell("open", hello);
  }

  /** @param {Api.Method} method */
  offers(method) {
    return this.features.has(method);
  }

  /** @template {keyof Page.WireEvents} Name
   * @param {Name} name @param {(detail: Page.WireEvents[Name]) => void} listener */
  on(name, listener) {
    this.addEventListener(name, (event) => listener(/** @type {CustomEvent<Page.WireEvents[Name]>} */ (event).detail));
  }

  /** @template {keyof Page.WireEvents} Name
   * @param {Name} name @param {Page.WireEvents[Name]} detail */
  tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}

export const wire = new Wire();
