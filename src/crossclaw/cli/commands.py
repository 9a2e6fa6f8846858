"""The words of the command line: every command with its one line and its module.

A table and nothing more, so that `--help` costs no import. A leaf's module is imported when the command is
given; its `COMMANDS` hold the arguments and the work.
"""

from typing import NamedTuple


class Leaf(NamedTuple):
    summary: str
    module: str
    hidden: bool = False


class Group(NamedTuple):
    summary: str
    leaves: dict[str, Leaf]
    default: str | None = None
    """The command that the bare word means."""


TREE: dict[str, Leaf | Group] = {
    "agent": Leaf("OpenClaw's word for message send to an agent", "message", hidden=True),
    "message": Group(
        "send a message to an agent, or to a chat",
        {"send": Leaf("send a message and show the reply as it is written", "message")},
    ),
    "chat": Leaf("talk with an agent, line by line", "chat"),
    "tui": Leaf("OpenClaw's word for chat", "chat", hidden=True),
    "watch": Leaf("who talks to whom, live, a line an event", "watch"),
    "trace": Leaf("all that followed from one message, as a tree with times", "trace"),
    "attention": Group(
        "what failed, hangs or asks for a yes, why, and what helps",
        {
            "list": Leaf("all of it, the newest first", "attention"),
            "do": Leaf("what a row offers: retry, send again, let in …", "attention"),
            "dismiss": Leaf("put rows out of sight", "attention"),
        },
        default="list",
    ),
    "sessions": Group(
        "the conversations: list, read, send",
        {
            "list": Leaf("all sessions, the newest first", "sessions"),
            "show": Leaf("one session in detail", "sessions"),
            "history": Leaf("the messages of a session", "sessions"),
            "export": Leaf("a conversation, or all, as files", "export"),
            "send": Leaf("send into a session and wait for the reply", "sessions"),
            "fork": Leaf("a new session with the history of another", "sessions"),
            "explain": Leaf("why one session may or may not reach another", "explain"),
            "spawn": Leaf("give a task to a sub-agent of a session", "upkeep"),
            "abort": Leaf("stop what a session and its sub-agents have running", "upkeep"),
            "compact": Leaf("summarise older turns for the model", "sessions"),
            "reset": Leaf("begin a session anew; the old transcript stays", "sessions"),
            "delete": Leaf("delete a session", "sessions"),
            "archive": Leaf("archive a session: not listed, still readable", "upkeep"),
            "unarchive": Leaf("bring back an archived session", "upkeep"),
            "cleanup": Leaf("delete what was archived long ago", "upkeep"),
        },
        default="list",
    ),
    "agents": Group(
        "who answers: list, add, remove",
        {
            "list": Leaf("the configured agents", "agents"),
            "prompt": Leaf("the prompt and tools of an agent's model, with their size", "agents"),
            "add": Leaf("add an agent to the config file", "agents"),
            "remove": Leaf("take an agent out of the config file", "agents"),
            "delete": Leaf("OpenClaw's word for remove", "agents"),
        },
        default="list",
    ),
    "models": Group(
        "what they think with",
        {
            "list": Leaf("the models on offer", "models"),
            "status": Leaf("which model each agent has", "models"),
        },
        default="list",
    ),
    "channels": Group(
        "the chats that are set up",
        {
            "status": Leaf("which there are, and whether they run", "channels"),
            "list": Leaf("OpenClaw's word for status", "channels", hidden=True),
            "test": Leaf(
                "send a test message to a chat, or ask the platform who we are", "channels"
            ),
            "logs": Leaf("what the log says about them", "channels"),
        },
        default="status",
    ),
    "deliveries": Group(
        "replies to chats that did not arrive, or nobody knows",
        {
            "list": Leaf("which there are", "deliveries"),
            "resend": Leaf("send one again", "deliveries"),
            "delivered": Leaf("one has arrived: you have seen it", "deliveries"),
        },
        default="list",
    ),
    "pairing": Group(
        "people who ask to talk to an assistant on a chat platform",
        {
            "list": Leaf("who asks, with which code, and who may", "pairing"),
            "approve": Leaf("let somebody talk who has shown this code", "pairing"),
            "deny": Leaf("forget a code", "pairing"),
            "remove": Leaf("somebody may not talk any more", "pairing"),
        },
        default="list",
    ),
    "cron": Group(
        "jobs: what is to be done when",
        {
            "list": Leaf("the jobs and when they are due", "cron"),
            "add": Leaf("make a job", "cron"),
            "edit": Leaf("change a job", "cron"),
            "rm": Leaf("remove a job", "cron"),
            "run": Leaf("run a job now", "cron"),
            "runs": Leaf("what became of a job's ticks", "cron"),
            "enable": Leaf("switch a job on", "cron"),
            "disable": Leaf("switch a job off", "cron"),
            "status": Leaf("whether jobs run, and when the next one is due", "cron"),
        },
        default="list",
    ),
    "gateways": Group(
        "the gateways that share one ledger",
        {
            "list": Leaf("which there are, with their roles and runs", "gateways"),
            "drain": Leaf("let one end what it does, and leave", "gateways"),
        },
        default="list",
    ),
    "gateway": Group(
        "run the gateway, or call one of its methods",
        {
            "run": Leaf("run the gateway until Ctrl-C", "gateway"),
            "call": Leaf("call a method of the gateway and print its answer", "calling"),
            "status": Leaf("the same as crossclaw status", "status"),
            "health": Leaf("the same as crossclaw health", "status", hidden=True),
        },
        default="run",
    ),
    "devices": Group(
        "phones, laptops and pages that come in by a key of their own",
        {
            "list": Leaf("those that may, and those that wait", "devices"),
            "approve": Leaf("let a waiting device in", "devices"),
            "reject": Leaf("do not let it in", "devices"),
            "revoke": Leaf("forget a device and close its connections", "devices"),
        },
        default="list",
    ),
    "approvals": Group(
        "calls of agents that need your yes",
        {
            "list": Leaf("what waits for a yes, and what was allowed for good", "approvals"),
            "allow": Leaf("let a call that waits be made", "approvals"),
            "deny": Leaf("do not let it", "approvals"),
            "revoke": Leaf("take back what was allowed for good", "approvals"),
        },
        default="list",
    ),
    "mcp": Group(
        "the session tools for MCP clients, and tools of MCP servers that changed",
        {
            "serve": Leaf("the session tools as an MCP server on stdin and stdout", "mcp"),
            "held": Leaf(
                "tools of MCP servers that changed or are new, and wait for your yes", "mcp_held"
            ),
            "agree": Leaf("let agents use such a tool as it is now", "mcp_held"),
        },
        default="serve",
    ),
    "protocol": Group(
        "what the gateway understands, for those who write clients",
        {"schema": Leaf("every method and event as JSON Schema", "protocol")},
    ),
    "onboard": Leaf("set up a model, an agent and the service, step by step", "onboard"),
    "run": Leaf("first start: gateway, page and a link to open", "run"),
    "stop": Leaf("stop the gateway that runs; --drain lets what is under way end", "stop"),
    "dashboard": Leaf("the link to the page of the gateway that runs", "dashboard"),
    "demo": Leaf("two agents talk, here and now, without key or network", "demo"),
    "rehearse": Leaf(
        "play a scene without a key: agents talk, a crash, a budget; or test yours", "rehearse"
    ),
    "status": Leaf("the gateway, its agents and sessions at a glance", "status"),
    "health": Leaf("whether the gateway lives", "status"),
    "doctor": Leaf("look for what is wrong here, and say what to do", "doctor"),
    "config": Group(
        "the config file: read, change, check",
        {
            "get": Leaf("show a value, secrets hidden", "config"),
            "set": Leaf("change a value; comments stay", "config"),
            "unset": Leaf("take a value out; comments stay", "config"),
            "path": Leaf("where the file lies", "config"),
            "check": Leaf("whether it is good, with file and line", "config"),
        },
    ),
    "import": Leaf("bring the sessions of an OpenClaw state folder in", "import_"),
    "ledger": Group(
        "where sessions, messages and runs are kept",
        {"move": Leaf("from a file into PostgreSQL, or back", "ledger")},
    ),
    "logs": Leaf("the last lines of the gateway's log", "logs"),
    "backup": Leaf("all that the gateway knows, in one file", "backup"),
    "restore": Leaf("a backup into an empty state folder", "backup"),
    "verify": Leaf("whether a backup, or the store, is whole", "backup"),
    "service": Group(
        "the gateway as a service that starts with this machine",
        {
            "install": Leaf("write the service's file and start it", "service"),
            "status": Leaf("whether it is installed and runs", "service"),
            "uninstall": Leaf("stop it and remove its file", "service"),
        },
        default="status",
    ),
    "completion": Leaf("complete commands in bash, zsh or fish", "completion"),
    "version": Leaf("which release this is", "version", hidden=True),
}

ELSEWHERE: dict[str, str] = {
    "setup": "crossclaw onboard sets up a model, an agent and the service.",
    "configure": "crossclaw onboard can be run again; crossclaw config set changes one setting.",
    "daemon": "crossclaw service install makes the gateway a service of yours.",
    "exec-policy": "crossclaw config get tools.exec shows it; crossclaw approvals lists what was allowed.",
    "nodes": "crossclaw devices lists them; crossclaw gateway call node.list asks the gateway.",
    "security": "crossclaw doctor looks at tokens, file modes and the sandbox.",
    "sandbox": "crossclaw config get agents shows its settings; crossclaw doctor tries it.",
    "hooks": "crossclaw config get hooks shows them; they are set in the config file.",
    "webhooks": "crossclaw config get hooks shows them; they are set in the config file.",
    "system": "crossclaw cron add --name note --at 1s --system-event TEXT says something to the main session.",
    "update": "Install the new release over this one, then start the gateway again.",
}
"""Words of OpenClaw's command line that are none here, with what does the work."""


class Chosen(NamedTuple):
    words: tuple[str, ...]
    leaf: Leaf
    rest: list[str]


class NotChosen(NamedTuple):
    """No command was chosen: the help of `words` is wanted, or `unknown` is not one of its words."""

    words: tuple[str, ...]
    unknown: str | None = None
    wants_help: bool = False
    """Whether help was asked for; otherwise a word is missing."""


HELP = ("-h", "--help", "help")


def choose(arguments: list[str]) -> Chosen | NotChosen:
    if not arguments or arguments[0] in HELP:
        return NotChosen((), wants_help=True)
    word, *rest = arguments
    entry = TREE.get(word)
    if entry is None:
        return NotChosen((), unknown=word)
    return Chosen((word,), entry, rest) if isinstance(entry, Leaf) else _inside(word, entry, rest)


def _inside(word: str, group: Group, rest: list[str]) -> Chosen | NotChosen:
    if rest and rest[0] in group.leaves:
        return Chosen((word, rest[0]), group.leaves[rest[0]], rest[1:])
    if rest and rest[0] in HELP:
        return NotChosen((word,), wants_help=True)
    if rest and not rest[0].startswith("-"):
        return NotChosen((word,), unknown=rest[0])
    if group.default is None:
        return NotChosen((word,))
    return Chosen((word, group.default), group.leaves[group.default], rest)


def names_in(words: tuple[str, ...]) -> dict[str, str]:
    """The words that may follow, with their summaries; OpenClaw's second words are left out."""
    entries = TREE[words[0]] if words else TREE
    leaves = entries.leaves if isinstance(entries, Group) else entries
    assert isinstance(leaves, dict)
    return {
        name: leaf.summary
        for name, leaf in leaves.items()
        if isinstance(leaf, Group) or not leaf.hidden
    }


def summary_of(words: tuple[str, ...]) -> str:
    return TREE[words[0]].summary if words else "sessions that know of each other"
