// What the page's JavaScript is checked against, beside the generated wire-types.d.ts. Written by hand: what the registry
// knows only as an object, as far as the page reads it, and the types of the page's own tools.
declare namespace Api {
  type Method = keyof Methods;
  type Params<M extends Method> = Methods[M]["params"];
  type Answer<M extends Method> = Methods[M]["answer"];
  /** What stands behind the method in a call: nothing where all parameters may be left out. */
  type Asked<M extends Method> = {} extends Params<M> ? [params?: Params<M>] : [params: Params<M>];

  type Block =
    | { type: "text"; text: string }
    | { type: "thinking"; thinking?: string }
    | { type: "image"; mimeType?: string | null; data?: string; url?: string; omitted?: boolean; bytes?: number }
    | { type: "toolCall"; id: string; name: string; arguments: unknown }
    | { type: "toolResult"; toolCallId: string; content: Block[]; isError: boolean };

  interface Message {
    role: "user" | "assistant" | "toolResult" | "system";
    content: string | Block[];
    timestamp?: number;
    provenance?: Partial<Provenance>;
    provider?: string;
    model?: string;
    usage?: Usage;
    stopReason?: string;
    errorMessage?: string;
    toolCallId?: string;
    toolName?: string;
    isError?: boolean;
    durationMs?: number;
    standing?: State;
    omitted?: boolean;
    bytes?: number;
  }

  interface Usage {
    input: number;
    output: number;
    cacheRead: number;
    cacheWrite: number;
    totalTokens: number;
    cost?: { total: number };
  }

  interface Note {
    about?: string;
    text?: string;
    answer?: string;
    reason?: string;
    from?: string;
  }

  /** By stream: lifecycle has a phase, assistant the text so far. */
  interface AgentData {
    phase?: string;
    text?: string;
  }

  interface AgentRow {
    id: string;
    name?: string;
  }

  interface ModelRow {
    id: string;
    name: string;
    provider: string;
  }

  interface Preview {
    key: string;
    status: string;
    items: { role: string; text: string }[];
  }

  interface Presence {
    host?: string;
    ip?: string;
    version?: string;
    platform?: string;
    mode?: string;
    ts: number;
  }

  interface Health {
    ok: boolean;
    ts: number;
  }

  interface Status {
    model: string;
    rehearsal: boolean;
    modelFault: string | null;
    unimported: string[];
    disk: Disk | null;
    sessions: { count: number; paths: string[] };
  }

  interface Disk {
    ledgerBytes: number;
    walBytes: number;
    freeBytes: number;
    grownBytes: number;
  }

  interface ApprovalWish {
    command: string;
    sessionKey: string;
    allowedDecisions: ApprovalResolved["decision"][];
    cwd?: string;
    host?: string;
    resolvedPath?: string;
    warningText?: string;
    whyOnce?: string;
  }

  interface JobRow {
    id: string;
    name: string;
    enabled: boolean;
    schedule: At | Every | CronSchedule;
    state: { nextRunAtMs?: number; lastStatus?: string; standing?: State };
    madeBy?: string[];
    earlierToken?: boolean;
    offBecause?: string;
  }

  interface JobTick {
    ts: number;
    runAtMs: number;
    summary?: string;
    error?: string;
    standing?: State;
  }

  interface ChannelsStatus {
    channelOrder: string[];
    channelLabels: Record<string, string>;
    channelAccounts: Record<string, ChannelAccount[]>;
  }

  interface ChannelAccount {
    accountId: string;
    name?: string;
    state: "not set up" | "starting" | "running" | "waiting" | "broken" | "stopped";
    lastError?: string;
    lastInboundAt?: number;
    nextTryAt?: number;
    bot?: { username?: string };
  }

  interface PairingRequest {
    channel: string;
    accountId: string;
    sender: string;
    senderName: string | null;
    code: string;
    createdAt: number;
  }

  interface PairedPerson {
    channel: string;
    accountId: string;
    sender: string;
    senderName: string | null;
    approvedAt: number;
  }

  interface ConfigSnapshot {
    path: string;
    exists: boolean;
    hash: string;
    written: string | null;
    config: Config;
    warnings?: ConfigIssue[];
    issues?: ConfigIssue[];
    restart?: { reason: string } | null;
  }

  interface ConfigIssue {
    path?: string;
    message: string;
  }

  interface Restart {
    required?: boolean;
  }

  // What is not set is null in the config in force, and left out in the text of the file.
  interface Config {
    agents?: ConfigAgents | null;
    models?: { providers?: Record<string, ConfigService> | null } | null;
    tools?: { agentToAgent?: ConfigReach | null } | null;
  }

  interface ConfigAgents {
    list?: ConfigAgent[] | null;
    entries?: Record<string, Omit<ConfigAgent, "id">> | null;
    defaults?: { budget?: ConfigBudget | null } | null;
  }

  interface ConfigAgent {
    id: string;
    name?: string | null;
    description?: string | null;
    model?: string | { primary?: string | null } | null;
    tools?: { deny?: string[] | null } | null;
    subagents?: { allowAgents?: string[] | null } | null;
    budget?: ConfigBudget | null;
  }

  interface ConfigBudget {
    tokens?: number | null;
    costUsd?: number | null;
    minutes?: number | null;
  }

  interface ConfigReach {
    enabled?: boolean | null;
    allow?: string[] | null;
  }

  interface ConfigService {
    baseUrl?: string | null;
    api?: SetServiceParams["api"] | null;
  }
}

/** What a page of views is made with. */
declare namespace Page {
  type Value = string | number | boolean | null | undefined;
  type Child = Node | Value | Child[];

  /** The element of a tag; one that nobody declares is an HTMLElement. */
  type Made<Tag extends string> = Tag extends keyof HTMLElementTagNameMap ? HTMLElementTagNameMap[Tag] : HTMLElement;
  type Listeners<Element> = {
    [Name in keyof HTMLElementEventMap as `on${Name}`]?:
      | ((event: HTMLElementEventMap[Name] & { currentTarget: Element }) => unknown)
      | null;
  };

  interface Attributes {
    [aria: `aria-${string}`]: Value;
    [svg: `text-${string}`]: Value;
    cls?: Value;
    data?: Record<string, Value>;
    accept?: string;
    alt?: string;
    autocapitalize?: string;
    autocomplete?: string;
    checked?: boolean;
    cx?: number;
    cy?: number;
    dir?: string;
    download?: string;
    enterkeyhint?: string;
    height?: number;
    hidden?: boolean;
    high?: number;
    href?: string | null;
    id?: string;
    list?: string;
    loading?: string;
    max?: number;
    maxlength?: number;
    min?: number;
    minlength?: number;
    multiple?: boolean;
    name?: string;
    open?: boolean;
    optimum?: number;
    pattern?: string;
    placeholder?: string;
    points?: string;
    popover?: string;
    r?: number;
    required?: boolean;
    role?: string | null;
    rows?: Value;
    scope?: string;
    selected?: boolean;
    spellcheck?: string;
    src?: string | null;
    step?: number;
    tabindex?: string;
    title?: string | null;
    type?: string;
    value?: string | number;
    width?: number;
    wrap?: string;
    x?: number;
    x1?: number;
    x2?: number;
    y?: number;
    y1?: number;
    y2?: number;
  }

  type Props<Element> = Attributes & Listeners<Element>;

  type Wire = import("../../src/crossclaw/web/wire.js").Wire;

  /** What the wire tells beside the events of the gateway. */
  interface WireEvents extends Api.Events {
    line: { state: "on" | "off" | "wait"; text: string };
    open: Api.HelloOk;
    door: { why?: string };
  }

  /** What parts of the page tell each other. */
  interface PartEvents {
    act: CustomEvent<{ act: string; entry: Entry }>;
    attention: Event;
    changed: Event;
    dressed: Event;
    leaving: CustomEvent<{ key: string; how?: string }>;
    open: Event;
    recent: Event;
    say: CustomEvent<{ text: string; pictures: Attached[] }>;
    stop: Event;
  }

  type Named = DocumentEventMap & HTMLElementEventMap & PartEvents;

  /** A view: it is told what stands in the address behind its name. */
  type View = HTMLElement & { go(argument: string | null, query: URLSearchParams): void };

  /** An entry of a transcript: one that was read, or that an event told of. */
  type Entry = Omit<Api.ShownEntry, "runId"> & { runId?: string | null };

  /** A session as far as it is known: of one that nobody has talked to only the key. */
  type Row = Partial<Api.TableRow> & { key: string; budget?: Api.BudgetRow; ghost?: boolean };

  /** A picture, a file or a long text beside what is typed. */
  interface Attached {
    name: string;
    type: string;
    size: number;
    url?: string;
    text?: string;
  }
}

interface HTMLElementTagNameMap {
  "cc-approvals": import("../../src/crossclaw/web/approvals.js").Approvals;
  "cc-composer": import("../../src/crossclaw/web/composer.js").Composer;
  "cc-map": import("../../src/crossclaw/web/map.js").MapView;
  "cc-recent": import("../../src/crossclaw/web/recent.js").Recent;
  "cc-session": import("../../src/crossclaw/web/session.js").Session;
}

/** The browser's guard of HTML, which TypeScript does not declare. */
declare var trustedTypes: { createPolicy(name: string, rules: { createHTML(html: string): string }): { createHTML(html: string): string } } | undefined;
