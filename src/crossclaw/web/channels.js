// @ts-check
// The chat platforms that the gateway is connected to.
import { Part, fill, h, plainMark } from "./dom.js";
import { keepingFocus, plainList } from "./controls.js";
import { wire } from "./wire.js";

class Channels extends Part {
  /** Asked by its tab when it is opened and from time to time. `rest` is what stands behind the tab's name in the
   * address: #/operations/channels/telegram → "telegram".
   * @param {string} _rest */
  async read(_rest) {
    const { channels, channelOrder, channelLabels } = await wire.call("channels.status", {});
    const rows = plainList(
      (channelOrder || Object.keys(channels)).map((name) => {
        const state = channels[name] || {};
        return [
          h(
            "span",
            { cls: "grow" },
            channelLabels?.[name] || name,
            state.lastError && h("small", { cls: "problem" }, state.lastError),
          ),
          plainMark(state.running ? "running" : state.configured ? "stopped" : "off"),
        ];
      }),
    );
    keepingFocus(this, () => fill(this, rows));
  }
}

customElements.define("cc-channels", Channels);
