// @ts-check
// A rehearsal under way: what happens, act by act, with the map live beside it.
import { Part, fill, h, plainMark, to } from "./dom.js";
import { offerRehearsals } from "./rehearsals.js";
import { wire } from "./wire.js";
import "./map.js";

const AGAIN_MS = 700;
const STATES = { next: "", now: "running", ok: "ok", failed: "failed" };

class Rehearsal extends Part {
  shown = ""; // as it was told
  scene = h("section", { cls: "scene", "aria-label": "Scene" }, h("h2", null, "Rehearsal"));
  map = h("cc-map");

  open() {
    fill(this, this.scene, this.map);
    this.hear(wire, "open", () => this.read());
    this.repeat(AGAIN_MS, () => this.read());
    this.read();
  }

  go() {
    this.map.go(null);
  }

  async read() {
    if (!wire.ready) return;
    const answer = await wire.call("rehearsals.list", {}).catch(() => null); // the line went: the next look does it
    const now = JSON.stringify(answer?.playing || null);
    if (!answer || !this.isConnected || now === this.shown) return;
    this.shown = now;
    if (answer.playing) this.draw(answer.playing);
    else fill(this.scene, h("h2", null, "Rehearsal"), h("p", null, "Nothing is played on this gateway."), offerRehearsals());
  }

  /** @param {Api.Staged} playing */
  draw({ title, about, acts, over }) {
    const failed = acts.some((act) => act.state === "failed");
    fill(
      this.scene,
      h("h2", null, title),
      h("p", null, about),
      h(
        "ol",
        { role: "status" },
        acts.map((act) =>
          h(
            "li",
            { data: { act: act.state || "next" } },
            act.tell,
            STATES[act.state] && plainMark(STATES[act.state] === "failed" ? "bad" : STATES[act.state], STATES[act.state]),
            act.why && h("p", { cls: "problem" }, act.why),
          ),
        ),
      ),
      over &&
        h(
          "p",
          null,
          failed ? "Something else came of it than was expected. " : "That was all. ",
          "Look around: ",
          h("a", { href: to.chat("agent:main:main") }, "the conversation"),
          ", ",
          h("a", { href: "#/exchanges" }, "the exchanges"),
          ". When you close this page, this gateway is thrown away.",
        ),
    );
  }
}

customElements.define("cc-rehearsal", Rehearsal);
