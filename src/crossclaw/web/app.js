// The page: who is here, and a conversation. A client of the gateway like any other.
// Words of others are put in as text, never as HTML.

const PROTOCOL = 4;
const RETRY_MS = [500, 1000, 2000, 5000, 10000, 20000];
const TOKEN = "crossclaw.token";
const HISTORY = 200;

const $ = (id) => document.getElementById(id);
const view = { key: null, agents: [], sessions: [], runs: new Map(), mainKey: null };
let wire = null;
let tries = 0;
let retry = null;

// ── the wire ────────────────────────────────────────────────────────────────────────────────

class Refused extends Error {
  constructor(error) {
    super(error?.message || "the gateway refused");
    this.code = error?.code;
  }
}

class Wire {
  constructor(token) {
    this.token = token;
    this.waiting = new Map();
    this.ready = false;
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    this.socket = new WebSocket(`${scheme}//${location.host}${location.pathname}`);
    this.socket.onmessage = (message) => this.take(JSON.parse(message.data));
    this.socket.onclose = (close) => this.closed(close);
    this.lastHeard = Date.now();
  }

  call(method, params = {}) {
    const id = crypto.randomUUID ? crypto.randomUUID() : String(Math.random());
    return new Promise((resolve, reject) => {
      if (this.socket.readyState !== WebSocket.OPEN) {
        reject(new Error("not connected"));
        return;
      }
      this.waiting.set(id, { resolve, reject });
      this.socket.send(JSON.stringify({ type: "req", id, method, params }));
    });
  }

  take(frame) {
    this.lastHeard = Date.now();
    if (frame.type === "event") {
      if (frame.event === "connect.challenge") this.introduce();
      else hear(frame.event, frame.payload || {});
      return;
    }
    const caller = this.waiting.get(frame.id);
    if (!caller) return;
    this.waiting.delete(frame.id);
    if (frame.ok) caller.resolve(frame.payload);
    else caller.reject(new Refused(frame.error));
  }

  async introduce() {
    try {
      const hello = await this.call("connect", {
        minProtocol: PROTOCOL,
        maxProtocol: PROTOCOL,
        client: { id: "webchat-ui", mode: "webchat", version: "1", platform: "browser" },
        role: "operator",
        scopes: ["operator.read", "operator.write"],
        caps: ["tool-events"],
        auth: { token: this.token },
        locale: navigator.language,
      });
      this.ready = true;
      await opened(hello);
    } catch (error) {
      if (!this.ready) notLetIn(error);
      else complain(error);
    }
  }

  closed(close) {
    for (const { reject } of this.waiting.values()) reject(new Error("the connection ended"));
    this.waiting.clear();
    if (this !== wire) return;
    wire = null;
    if (sessionStorage.getItem(TOKEN)) again(close.reason);
  }
}

function connect() {
  clearTimeout(retry);
  const token = sessionStorage.getItem(TOKEN);
  if (!token) {
    askForToken();
    return;
  }
  tell("connecting …");
  wire = new Wire(token);
}

function again(reason) {
  const pause = RETRY_MS[Math.min(tries++, RETRY_MS.length - 1)];
  const after = pause * (0.8 + Math.random() * 0.4);
  tell(`not connected${reason ? ` (${reason})` : ""}; trying again in ${Math.round(after / 1000) || 1} s`);
  retry = setTimeout(connect, after);
}

function notLetIn(error) {
  if (!/unauthorized|pairing|identity/i.test(error.message)) {
    tell(error.message);
    return;
  }
  sessionStorage.removeItem(TOKEN);
  wire?.socket.close();
  askForToken(error.message);
}

// A gateway ticks every 30 s. A line that is silent for longer than two ticks is dead, though the
// browser may not know it yet.
setInterval(() => {
  if (wire?.ready && Date.now() - wire.lastHeard > 75000) wire.socket.close(4000, "tick timeout");
}, 5000);

addEventListener("hashchange", () => {
  takeTokenFromLink();
  wire?.socket.close();
  connect();
});
addEventListener("online", () => { if (!wire) connect(); });

// ── the token ───────────────────────────────────────────────────────────────────────────────

function takeTokenFromLink() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!given) return;
  sessionStorage.setItem(TOKEN, given);
  history.replaceState(null, "", location.pathname + location.search);
}

function askForToken(why) {
  $("house").hidden = true;
  $("forget").hidden = true;
  $("door").hidden = false;
  tell(why || "a token is needed");
  $("token").focus();
}

$("door").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(TOKEN, $("token").value.trim());
  $("token").value = "";
  $("door").hidden = true;
  tries = 0;
  connect();
});

$("forget").addEventListener("click", () => {
  sessionStorage.removeItem(TOKEN);
  wire?.socket.close();
  askForToken("the token is forgotten");
});

// ── what the gateway says ───────────────────────────────────────────────────────────────────

async function opened(hello) {
  tries = 0;
  const defaults = hello.snapshot?.sessionDefaults || {};
  view.mainKey = defaults.mainSessionKey || "agent:main:main";
  view.key = view.key || view.mainKey;
  view.runs.clear();
  $("door").hidden = true;
  $("house").hidden = false;
  $("forget").hidden = false;
  tell(`connected, version ${hello.server?.version || "?"}`);
  await wire.call("sessions.subscribe");
  const answer = await wire.call("agents.list");
  view.agents = answer.agents || [];
  showAgents();
  await Promise.all([refreshSessions(), openSession(view.key)]);
}

let refreshing = null;

function refreshSoon() {
  refreshing ??= setTimeout(() => {
    refreshing = null;
    if (wire?.ready) refreshSessions().catch(complain);
  }, 300);
}

async function refreshSessions() {
  const answer = await wire.call("sessions.list", { limit: 50 });
  view.sessions = answer.sessions || [];
  showSessions();
}

function hear(name, payload) {
  if (name === "chat") hearChat(payload);
  else if (name === "agent") hearAgent(payload);
  else if (name === "sessions.changed") refreshSoon();
  else if (name === "session.message") hearMessage(payload);
  else if (name === "shutdown") tell("the gateway is going down");
}

function hearChat(payload) {
  if (payload.sessionKey !== view.key) return;
  const text = textOf(payload.message);
  if (payload.state === "delta" && !view.runs.get(payload.runId)?.told) grow(payload.runId, text);
  if (payload.state === "final") finish(payload.runId, text);
  if (payload.state === "aborted") finish(payload.runId, null, "stopped");
  if (payload.state === "error") {
    finish(payload.runId, null);
    complain(new Error(payload.errorMessage || "the run failed"));
  }
}

function hearAgent(payload) {
  if (payload.sessionKey !== view.key) return;
  const data = payload.data || {};
  if (payload.stream === "assistant") {
    grow(payload.runId, data.text);
    const run = view.runs.get(payload.runId);
    // These come first and complete; a delta of `chat` may come late, after the next tool has begun.
    if (run) run.told = true;
  }
  if (payload.stream !== "tool") return;
  if (data.phase === "start") {
    settle(payload.runId);
    put("tool", `→ ${data.name} ${short(data.args)}`);
  } else if (data.phase === "result" && data.isError) put("tool", `→ ${data.name} failed`);
}

// What others say into this session: what we say ourselves is shown already.
function hearMessage(payload) {
  if (payload.sessionKey !== view.key || payload.message?.role !== "user") return;
  const text = textOf(payload.message);
  const last = $("log").querySelector("article.user:last-of-type");
  if (!view.runs.has(payload.runId) && last?.dataset.text !== text) showMessage(payload.message);
}

// ── the conversation ────────────────────────────────────────────────────────────────────────

async function openSession(key) {
  if (view.key !== key && view.key) {
    wire.call("sessions.messages.unsubscribe", { key: view.key }).catch(() => {});
  }
  view.key = key;
  $("chat-title").textContent = key;
  showAgents();
  showSessions();
  const [answer] = await Promise.all([
    wire.call("chat.history", { sessionKey: key, limit: HISTORY }),
    wire.call("sessions.messages.subscribe", { key }).catch(() => null),
  ]);
  if (view.key !== key) return;
  $("log").replaceChildren();
  view.runs.clear();
  for (const message of answer.messages || []) showMessage(message);
  busy();
}

function showMessage(message) {
  const text = textOf(message);
  if (message.role === "toolResult") return;
  if (text) put(message.role, text, message.timestamp);
  if (message.errorMessage) put("tool", `no answer: ${message.errorMessage}`);
  for (const block of Array.isArray(message.content) ? message.content : []) {
    if (block.type === "toolCall") put("tool", `→ ${block.name} ${short(block.arguments)}`);
  }
}

function put(kind, text, at) {
  const log = $("log");
  const low = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
  const article = document.createElement("article");
  article.className = kind;
  article.dataset.text = text;
  if (kind !== "tool") {
    const head = document.createElement("header");
    head.textContent = `${kind === "user" ? "you" : kind}, ${new Date(at || Date.now()).toLocaleTimeString()}`;
    article.append(head);
  }
  article.append(document.createTextNode(text));
  log.append(article);
  if (low) log.scrollTop = log.scrollHeight;
  return article;
}

function grow(runId, text) {
  if (!text) return;
  const run = view.runs.get(runId) || {};
  if (!run.article) {
    run.article = put("assistant", "");
    run.article.classList.add("growing");
  }
  run.article.lastChild.data = text;
  view.runs.set(runId, run);
  $("log").scrollTop = $("log").scrollHeight;
  busy();
}

// A turn is over and a tool runs: what was said stays, the next words are a new article.
function settle(runId) {
  const run = view.runs.get(runId);
  run?.article?.classList.remove("growing");
  if (run) run.article = null;
}

function finish(runId, text, note) {
  if (text) grow(runId, text);
  settle(runId);
  if (note) put("tool", note);
  view.runs.delete(runId);
  busy();
}

function busy() {
  $("stop").hidden = view.runs.size === 0;
}

async function say(text) {
  const key = view.key;
  const runId = crypto.randomUUID ? crypto.randomUUID() : `${Date.now()}-${Math.random()}`;
  const article = put("user", text);
  view.runs.set(runId, {});
  busy();
  try {
    const answer = await wire.call("chat.send", {
      sessionKey: key, message: text, deliver: false, idempotencyKey: runId,
    });
    if (!answer.runId) finish(runId, null);
  } catch (error) {
    article.remove();
    view.runs.delete(runId);
    busy();
    if (!$("say").value) $("say").value = text;
    complain(error);
  }
}

$("talk").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = $("say").value.trim();
  if (!text) return;
  if (!wire?.ready) {
    complain(new Error("not connected; your words stay here until it is"));
    return;
  }
  $("say").value = "";
  $("problem").hidden = true;
  say(text);
});

$("say").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  $("talk").requestSubmit();
});

$("stop").addEventListener("click", () => {
  wire?.call("chat.abort", { sessionKey: view.key }).catch(complain);
});

// ── who is here ─────────────────────────────────────────────────────────────────────────────

function showAgents() {
  const entries = view.agents.map((agent) => ({
    key: mainOf(agent.id), name: agent.name || agent.id, more: agent.name ? agent.id : "",
  }));
  fill($("agents"), entries);
}

function mainOf(agentId) {
  const main = `agent:${agentId}:main`;
  return view.mainKey?.startsWith(`agent:${agentId}:`) ? view.mainKey : main;
}

function showSessions() {
  fill($("sessions"), view.sessions.map((row) => ({
    key: row.key,
    name: row.label || row.displayName || row.key,
    more: [row.channel, row.updatedAt && new Date(row.updatedAt).toLocaleString()].filter(Boolean).join(", "),
  })));
}

function fill(list, entries) {
  const focused = list.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  list.replaceChildren(...entries.map((entry) => row(entry)));
  if (focused) list.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

function row(entry) {
  const button = document.createElement("button");
  button.type = "button";
  button.dataset.key = entry.key;
  button.textContent = entry.name;
  if (entry.key === view.key) button.setAttribute("aria-current", "true");
  if (entry.more) {
    const small = document.createElement("small");
    small.textContent = entry.more;
    button.append(small);
  }
  button.addEventListener("click", () => openSession(entry.key).catch(complain));
  const item = document.createElement("li");
  item.append(button);
  return item;
}

// ── small things ────────────────────────────────────────────────────────────────────────────

function textOf(message) {
  if (typeof message?.content === "string") return message.content;
  if (!Array.isArray(message?.content)) return "";
  return message.content.filter((block) => block.type === "text").map((block) => block.text).join("");
}

function short(value) {
  const text = value ? JSON.stringify(value) : "";
  return text.length > 120 ? `${text.slice(0, 119)}…` : text;
}

function tell(text) {
  $("state").textContent = text;
}

function complain(error) {
  $("problem").textContent = error.message;
  $("problem").hidden = false;
}

takeTokenFromLink();
connect();
