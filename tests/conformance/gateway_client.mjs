// @ts-check
// One conversation with @openclaw/gateway-client; prints JSON lines for the test to read.
const { GatewayClient } = await import(`${process.env.CLIENT}/dist/index.mjs`);
/** @param {string} what @param {unknown} value */
const say = (what, value) => console.log(JSON.stringify({ what, value }));
/** @type {PromiseWithResolvers<Api.HelloOk>} */
const hello = Promise.withResolvers();
/** @type {PromiseWithResolvers<Api.ChatEvent>} */
const final = Promise.withResolvers();
const client = new GatewayClient({
  url: process.env.URL_OF_GATEWAY,
  token: process.env.TOKEN,
  minProtocol: 4,
  maxProtocol: 4,
  onHelloOk: (/** @type {Api.HelloOk} */ payload) => hello.resolve(payload),
  onConnectError: (/** @type {Error} */ error) => hello.reject(error),
  onGap: (/** @type {unknown} */ gap) => say("gap", gap),
  onEvent: (/** @type {{event: string, payload: Api.ChatEvent}} */ event) => {
    if (event.event === "chat" && event.payload.state === "final") final.resolve(event.payload);
  },
});
client.start();
say("protocol", (await hello.promise).protocol);
say("subscribed", await client.request("sessions.subscribe", {}));
await client.request("chat.send", {
  sessionKey: "agent:main:main",
  message: "say: from the library",
  idempotencyKey: `library-${Date.now()}`,
});
const { message } = await final.promise;
const [block] = Array.isArray(message?.content) ? message.content : [];
say("reply", block?.type === "text" ? block.text : null);
const sent = await client.request("sessions.send", { key: "agent:main:main", message: "say: by key" });
say("sent", sent.status);
const unknown = await client.request("no.such.method", {}).catch((/** @type {Error} */ error) => error.message);
say("unknown", unknown);
client.stop();
process.exit(0);
