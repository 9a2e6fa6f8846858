// One conversation with @openclaw/gateway-client; prints JSON lines for the test to read.
const { GatewayClient } = await import(`${process.env.CLIENT}/dist/index.mjs`);
const say = (what, value) => console.log(JSON.stringify({ what, value }));
const hello = Promise.withResolvers();
const final = Promise.withResolvers();
const client = new GatewayClient({
  url: process.env.URL_OF_GATEWAY,
  token: process.env.TOKEN,
  minProtocol: 4,
  maxProtocol: 4,
  onHelloOk: (payload) => hello.resolve(payload),
  onConnectError: (error) => hello.reject(error),
  onGap: (gap) => say("gap", gap),
  onEvent: (event) => {
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
say("reply", (await final.promise).message.content[0].text);
const sent = await client.request("sessions.send", { key: "agent:main:main", message: "say: by key" });
say("sent", sent.status);
const unknown = await client.request("no.such.method", {}).catch((error) => error.message);
say("unknown", unknown);
client.stop();
process.exit(0);
