// @ts-check
// Where a person writes: drafts kept by session, /commands completed, pictures and files attached.
import { Part, count, fill, h, icon, iconButton } from "./dom.js";
import { complain, store } from "./gateway.js";
import { t } from "./language.js";
import { wire } from "./wire.js";

const DRAFTS = "crossclaw.drafts";
const DRAFTS_MAX = 100;
const LONG_CHARS = 50_000; // of a message: what is longer stands beside the field, which takes minutes to lay out its lines
const FILE_BYTES_MAX = 16_000_000; // the gateway's limit
const PICTURES_MAX = 8;
const ALL_BYTES_MAX = 18_000_000; // of a message: what fits into one frame as base64
const ACCEPTED = "image/*,application/pdf,text/*,.md,.csv,.json,.yaml,.yml,.toml,.log,.xml";

/** @typedef {{name: string, text: string}} Command */

// What a gateway without `commands.list` understands.
/** @type {Command[]} */
const COMMANDS = [
  { name: "/help", text: "what can be said" },
  { name: "/status", text: "how this session stands" },
  { name: "/usage", text: "what this session has used" },
  { name: "/stop", text: "stop what runs here, and its sub-agents" },
  { name: "/new", text: "begin anew, with these words" },
  { name: "/reset", text: "begin anew; the old transcript stays" },
  { name: "/model", text: "provider/model, or default" },
  { name: "/think", text: "off, minimal, low, medium, high or xhigh" },
  { name: "/verbose", text: "on, off or full: how much of the work is shown" },
  { name: "/queue", text: "collect, followup, steer, steer-backlog, interrupt or default: for messages while a run is at work" },
  { name: "/send", text: "on, off or inherit: whether anything is said in this chat" },
  { name: "/compact", text: "make room in the model's window" },
  { name: "/pin", text: "keep your last message through every compaction" },
];

/** @param {{type: string}} file */
const isPicture = (file) => file.type.startsWith("image/");

/** What was typed and not said, by session.
 * @returns {Record<string, string>} */
const drafts = () => store.get(DRAFTS, {});

export class Composer extends Part {
  /** @type {string | null} */ key = null;
  commands = COMMANDS;
  /** @type {Command[]} */ offered = [];
  chosen = -1;
  /** @type {{key: string, text: string} | null} */ waiting = null;
  /** @type {Page.Attached[]} */ pictures = [];
  unread = 0; // files that are still being read
  hurried = false;

  field = h("textarea", {
    id: "say",
    dir: "auto",
    rows: 1,
    placeholder: t("Message or /command"),
    enterkeyhint: "send",
    "aria-label": "Message",
    role: "combobox",
    "aria-expanded": "false",
    "aria-controls": "commands",
    "aria-autocomplete": "list",
    autocomplete: "off",
    oninput: () => this.typed(),
    onkeydown: (event) => this.pressed(event),
    onblur: () => setTimeout(() => this.offer([]), 150),
    onpaste: (event) => this.pasted(event),
  });
  file = h("input", {
    type: "file",
    accept: ACCEPTED,
    multiple: true,
    hidden: true,
    "aria-label": "Pictures and files",
    onchange: () => {
      this.attach([...(this.file.files || [])]);
      this.file.value = "";
    },
  });
  list = h("ul", { id: "commands", role: "listbox", "aria-label": "Commands", hidden: true });
  shown = h("div", { cls: "pictures" });
  stopper = iconButton("stop", "Stop", () => this.dispatchEvent(new Event("stop")), "icon stop");
  sender = h(
    "button",
    { type: "submit", cls: "icon go", "aria-label": "Send", title: "Send (Enter)" },
    icon("send"),
  );

  open() {
    this.stopper.hidden = true;
    fill(
      this,
      h(
        "form",
        {
          onsubmit: (event) => {
            event.preventDefault();
            this.submit();
          },
        },
        this.list,
        this.shown,
        h(
          "div",
          { cls: "box" },
          iconButton("clip", "Attach a picture or a file", () => this.file.click()),
          this.file,
          this.field,
          this.stopper,
          this.sender,
        ),
      ),
    );
    this.hear(this, "dragover", (event) => event.preventDefault());
    this.hear(this, "drop", (event) => {
      event.preventDefault();
      this.attach([...(event.dataTransfer?.files || [])]);
      const text = event.dataTransfer?.getData("text/plain");
      if (text) this.add(text);
    });
    this.learn();
  }

  async learn() {
    if (!wire.offers("commands.list")) return;
    try {
      const answer = await wire.call("commands.list", { scope: "text" });
      this.commands = (answer.commands || []).map((each) => ({
        name: (each.textAliases || [])[0] || `/${each.name}`,
        text: each.description || "",
      }));
      if (this.offered.length) this.typed(); // somebody was faster than the gateway
    } catch {
      /* the few that every gateway knows */
    }
  }

  /** @param {boolean} busy */
  set busy(busy) {
    if (!busy && document.activeElement === this.stopper) this.field.focus(); // it goes, and the focus stays
    this.stopper.hidden = !busy;
  }

  /** @param {string} key */
  show(key) {
    this.key = key;
    this.field.value = drafts()[key] || "";
    this.pictures = [];
    this.showPictures();
    this.grow();
    this.offer([]);
    const { waiting } = this;
    this.waiting = null;
    if (waiting?.key === key && waiting.text) this.put(waiting.text);
  }

  /** Words for the field of a conversation that is about to be looked at.
   * @param {string} key @param {string} text */
  whenShown(key, text) {
    if (this.key !== key) this.waiting = { key, text };
    else this.put(text);
    this.field.focus();
  }

  /** @param {string} text */
  put(text) {
    if (!this.field.value) this.add(text);
  }

  /** At the cursor; what is long is shown as one word, and said behind what is typed.
   * @param {string} text */
  add(text) {
    if (text.length > LONG_CHARS) {
      this.pictures.push({ name: `Pasted text, ${count(text.length)} characters`, type: "text/plain", size: text.length, text });
      this.showPictures();
      return;
    }
    this.field.setRangeText(text, this.field.selectionStart, this.field.selectionEnd, "end");
    this.typed();
  }

  /** @param {ClipboardEvent} event */
  pasted(event) {
    if (!event.clipboardData) return;
    const { files } = event.clipboardData;
    const text = event.clipboardData.getData("text/plain");
    if (files.length) this.attach([...files]);
    else if (text.length > LONG_CHARS) {
      event.preventDefault();
      this.add(text);
    }
  }

  typed() {
    this.grow();
    this.keep();
    const word = /^\/\S*$/.exec(this.field.value);
    this.offer(word ? this.commands.filter((each) => each.name.startsWith(word[0])) : []);
  }

  keep() {
    const text = this.field.value;
    const others = Object.entries(drafts()).filter(([key]) => key !== this.key);
    const kept = others.slice(-DRAFTS_MAX + 1);
    store.set(DRAFTS, Object.fromEntries(text ? [...kept, [this.key, text]] : kept));
  }

  grow() {
    this.field.style.height = "auto";
    const needed = this.field.scrollHeight; // nothing while it is not shown: then a row is right
    if (needed) this.field.style.height = `${Math.min(needed, 220)}px`;
  }

  // ── commands ──────────────────────────────────────────────────────────────────────────────

  /** @param {Command[]} found */
  offer(found) {
    this.offered = found;
    this.chosen = found.length ? 0 : -1;
    this.list.hidden = !found.length;
    this.field.setAttribute("aria-expanded", String(found.length > 0));
    fill(
      this.list,
      ...found.map((each, i) =>
        h(
          "li",
          {
            role: "option",
            id: `command-${i}`,
            onmousedown: (event) => {
              event.preventDefault();
              this.complete(each);
            },
          },
          h("b", null, each.name),
          h("span", null, each.text),
        ),
      ),
    );
    this.mark();
  }

  mark() {
    [...this.list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === this.chosen)));
    this.list.children[this.chosen]?.scrollIntoView({ block: "nearest" });
    if (this.chosen >= 0) this.field.setAttribute("aria-activedescendant", `command-${this.chosen}`);
    else this.field.removeAttribute("aria-activedescendant");
  }

  /** @param {Command} command */
  complete(command) {
    this.field.value = `${command.name} `;
    this.offer([]);
    this.keep();
    this.field.focus();
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    if (event.isComposing) return;
    const open = this.offered.length;
    if (open && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      this.chosen = (this.chosen + (event.key === "ArrowDown" ? 1 : open - 1)) % open;
      this.mark();
    } else if (open && event.key === "Escape") {
      event.stopPropagation();
      this.offer([]);
    } else if (
      open &&
      (event.key === "Tab" || (event.key === "Enter" && this.offered[this.chosen].name !== this.field.value))
    ) {
      event.preventDefault();
      this.complete(this.offered[this.chosen]);
    } else if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      this.submit();
    }
  }

  // ── pictures ──────────────────────────────────────────────────────────────────────────────

  /** @param {File[]} files */
  attach(files) {
    let room = PICTURES_MAX - this.pictures.length;
    let bytes = this.pictures.reduce((sum, each) => sum + each.size, 0);
    for (const file of files) {
      if (/^image\/hei[cf]/.test(file.type) || /\.hei[cf]$/i.test(file.name))
        complain(new Error(`${file.name} is HEIC, which models do not take. Attach it as JPEG or PNG.`));
      else if (file.size > FILE_BYTES_MAX)
        complain(new Error(`${file.name} is larger than 16 MB. A smaller copy of it can be attached.`));
      else if (room <= 0)
        complain(new Error(`${file.name} is left out: a message takes ${PICTURES_MAX} pictures and files`));
      else if (bytes + file.size > ALL_BYTES_MAX)
        complain(new Error(`${file.name} is left out: one message takes 18 MB. Send it with the next one.`));
      else {
        room -= 1;
        bytes += file.size;
        this.read(file);
      }
    }
  }

  /** @param {File} file */
  read(file) {
    const reader = new FileReader();
    const { pictures } = this; // of the message that it was attached to
    this.unread += 1;
    reader.onload = () => {
      pictures.push({ name: file.name, type: file.type, size: file.size, url: String(reader.result) });
      this.showPictures();
    };
    reader.onerror = () => complain(new Error(`${file.name} cannot be read`));
    reader.onloadend = () => {
      this.unread -= 1;
      if (this.unread || !this.hurried) return;
      this.hurried = false;
      this.submit();
    };
    reader.readAsDataURL(file);
  }

  showPictures() {
    fill(
      this.shown,
      ...this.pictures.map((picture, i) =>
        h(
          "figure",
          null,
          isPicture(picture)
            ? h("img", { src: picture.url, alt: picture.name })
            : h("span", { cls: "file" }, picture.name),
          iconButton("close", `Remove ${picture.name}`, () => {
            this.pictures.splice(i, 1);
            this.showPictures();
            this.field.focus();
          }),
        ),
      ),
    );
  }

  submit() {
    if (this.unread) {
      this.hurried = true; // it is said when its files are read
      return;
    }
    const pasted = this.pictures.flatMap((each) => each.text ?? []);
    const text = [this.field.value, ...pasted].join("\n\n").trim();
    if (!text && !this.pictures.length) return;
    const pictures = this.pictures.filter((each) => each.text === undefined);
    this.field.value = "";
    this.pictures = [];
    this.showPictures();
    this.typed();
    this.dispatchEvent(new CustomEvent("say", { detail: { text, pictures } }));
  }
}

customElements.define("cc-composer", Composer);
