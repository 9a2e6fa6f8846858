"""Slash commands: what a person says to the gateway instead of to the model.

A command is the whole message. It does what a gateway method does, with the sender's own rights, and is stored
as a run that has ended: it waits behind nobody, and a repeated request does not repeat it.
"""

import difflib
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec

from crossclaw.config import Config
from crossclaw.config.check import near_miss
from crossclaw.domain.errors import Busy, CrossclawError
from crossclaw.domain.keys import SHARED, SessionKey
from crossclaw.domain.queueing import Queueing
from crossclaw.door.registry import Caller
from crossclaw.policy.models import LISTED_MAX
from crossclaw.runs.run_store import RunStore
from crossclaw.sessions.arrivals import RequestId
from crossclaw.sessions.queueing import queueing_for, read_queue

DispatchCommand = Callable[[Caller, str, Any], Awaitable[Any]]
AllowCommand = Callable[[Caller, str], Awaitable[None]]
"""Raises where the caller may not call the method."""

STOP_WORDS = frozenset({"/stop", "stop", "esc", "abort", "wait", "exit", "interrupt"})  # OpenClaw's
ON_OFF = {
    "on": "allow",
    "allow": "allow",
    "off": "deny",
    "deny": "deny",
    "inherit": None,
    "default": None,
    "reset": None,
}
QUEUE_FIELDS = ("queueMode", "queueDebounceMs", "queueCap", "queueDrop")
ANSWERS = {
    "allow": "allow-once",
    "once": "allow-once",
    "allow-once": "allow-once",
    "always": "allow-always",
    "allow-always": "allow-always",
    "deny": "deny",
    "no": "deny",
}
APPROVED = {
    "allow-once": "Allowed, this once.",
    "allow-always": "Allowed, and from now on always.",
    "deny": "Denied.",
}
NEAR_MAX = 3  # suggestions for a mistyped command
RESETS = ("new", "reset")
CLEARING = ("default", "inherit", "reset")


class SlashCommand(msgspec.Struct, frozen=True):
    name: str
    argument: str = ""

    @property
    def words(self) -> str:
        """The words of `/new words`: the first message of the new session. Empty where there are none."""
        return self.argument.strip() if self.name in RESETS else ""


class KnownCommand(msgspec.Struct, frozen=True):
    usage: str
    summary: str
    owner: bool = False
    """Whether only the person who owns the gateway may say it."""
    text: bool = False
    """Whether it takes words of any length."""


COMMANDS: dict[str, KnownCommand] = {
    "help": KnownCommand("/help", "what can be said"),
    "status": KnownCommand("/status", "how this session stands"),
    "usage": KnownCommand("/usage", "what this session has used"),
    "stop": KnownCommand("/stop", "stop what runs here, and its sub-agents"),
    "new": KnownCommand("/new [words]", "begin anew, with these words", owner=True, text=True),
    "reset": KnownCommand("/reset [words]", "the same", owner=True, text=True),
    "model": KnownCommand(
        "/model [provider/model | default]", "see or choose the model", owner=True
    ),
    "think": KnownCommand(
        "/think [off|minimal|low|medium|high|xhigh]", "how hard to think", owner=True
    ),
    "verbose": KnownCommand("/verbose [on|off|full]", "how much of the work is shown", owner=True),
    "queue": KnownCommand(
        "/queue [collect|followup|steer|steer-backlog|interrupt|default] [debounce:2s] [cap:25] "
        "[drop:old|new|summarize]",
        "what becomes of messages that come while a run is at work",
        owner=True,
    ),
    "activation": KnownCommand(
        "/activation mention|always", "whether a group must mention the agent", owner=True
    ),
    "send": KnownCommand(
        "/send on|off|inherit", "whether anything is said in this chat", owner=True
    ),
    "compact": KnownCommand(
        "/compact [what matters]", "make room in the model's window", owner=True, text=True
    ),
    "approve": KnownCommand(
        "/approve <id> allow-once|allow-always|deny", "answer a call that needs a yes", owner=True
    ),
    "pin": KnownCommand("/pin", "keep your last message through every compaction", owner=True),
}

WORD_CHARS_MAX = (
    32  # a longer word is no command, nor nearly one: comparing it would only take time
)
_COMMAND = re.compile(rf"/([a-z]{{1,{WORD_CHARS_MAX}}})(?:\s*:)?(?:\s+(.*?))?\s*", re.I | re.S)
UNKNOWN = "unknown"
"""What a mistyped command becomes; its argument is the word."""


def find_command(text: str) -> SlashCommand | None:
    """The command that a message is; None for words to the model, which may begin with a slash."""
    if text.strip().lower() in STOP_WORDS:
        return SlashCommand("stop")
    found = _COMMAND.fullmatch(text.strip())
    if not found:
        return None
    argument = found[2] or ""
    known = COMMANDS.get(found[1].lower())
    if known is None:
        return _mistyped(found[1].lower(), argument)
    if not known.text and "\n" in argument:
        return None  # more than a command
    return SlashCommand(found[1].lower(), argument)


def _mistyped(word: str, argument: str) -> SlashCommand | None:
    """The command for a mistyped word. A single unknown word is no message to a model; with more words behind
    it, it is one, unless it is nearly a command: `/tmp is full` goes to the model, `/modle default` does not."""
    if argument and near_miss(word, set(COMMANDS)) is None:
        return None
    return SlashCommand(UNKNOWN, word) if "\n" not in argument else None


class CommandContext(msgspec.Struct, frozen=True):
    """Who says a command, in which session, and by which channel it came."""

    caller: Caller
    key: SessionKey
    channel: str

    @property
    def named(self) -> str:
        """The session's name for people: the shared session is `main` to everybody."""
        return self.key.display() if self.key.text == SHARED else self.key.text


class CommandAnswer(msgspec.Struct, frozen=True):
    text: str
    stopped: list[str] | None = None
    """The runs that `/stop` has stopped."""
    begins_anew: bool = False
    """Whether the session begins anew, in the step that stores the command: with its words, where it has some."""


async def _not_yet(_caller: Caller, _method: str, _params: Any = None) -> None:
    raise Busy("the gateway is still opening; say it again in a moment")


class Commands:
    def __init__(self, config: Config, run_store: RunStore) -> None:
        self._config = config
        self._run_store = run_store
        self._dispatch: DispatchCommand = _not_yet
        self._allow: AllowCommand = _not_yet
        self._under_way: dict[tuple[str, str], anyio.Lock] = {}

    def begin(self, dispatch: DispatchCommand, allow: AllowCommand) -> None:
        """Takes the door's dispatch once there is a door: commands do what methods do, through the one that knows
        them all. `allow` asks it for what the intake does itself, in the step that stores the command."""
        self._dispatch, self._allow = dispatch, allow

    @asynccontextmanager
    async def alone(self, request: RequestId) -> AsyncGenerator[None]:
        """Lets one of several requests with the same id be carried out at a time: the others then find what has
        become of it."""
        name = (request.scope, request.id)
        lock = self._under_way.setdefault(name, anyio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._under_way.pop(name, None)

    def find(self, text: str) -> SlashCommand | None:
        command = find_command(text)
        if command is not None and command.name in RESETS:
            triggers = [word.lower() for word in self._config.session.reset_triggers]
            return command if f"/{command.name}" in triggers else None
        return command

    async def run(self, context: CommandContext, command: SlashCommand) -> CommandAnswer:
        """Carries out a command with the rights of whoever sent it. A refusal is an answer as well."""
        if command.name == UNKNOWN:
            return CommandAnswer(_suggest(command.argument))
        if COMMANDS[command.name].owner and not context.caller.principal.authority.owner:
            return CommandAnswer(f"Only the owner can say /{command.name}.")
        act: Callable[[CommandContext, str], Awaitable[CommandAnswer]] = getattr(
            self, f"_{command.name}"
        )
        try:
            return await act(context, command.argument.strip())
        except CrossclawError as error:
            return CommandAnswer(f"⚠️ {error}")

    # ── what each does ─────────────────────────────────────────────────────────────────────────

    async def _help(self, context: CommandContext, argument: str) -> CommandAnswer:
        lines = [
            f"- {known.usage} — {known.summary}" + (" (owner)" if known.owner else "")
            for known in COMMANDS.values()
        ]
        return CommandAnswer("\n".join(lines))

    async def _status(self, context: CommandContext, argument: str) -> CommandAnswer:
        answer = await self._call(context, "tool.session_status", sessionKey=context.named)
        return CommandAnswer(answer["statusText"])

    async def _usage(self, context: CommandContext, argument: str) -> CommandAnswer:
        row = (await self._call(context, "sessions.describe", key=context.named))["session"]
        if row is None:
            return CommandAnswer("Nothing has been used yet.")
        spent = f"{row['inputTokens']} tokens in, {row['outputTokens']} out"
        cost = f", ${row['costUsd']:.4f}" if row.get("costUsd") else ""
        budget = f"\nBudget: {row['budget']['text']}." if row.get("budget") else ""
        return CommandAnswer(f"{spent}{cost}; {row['totalTokens']} fill the window now.{budget}")

    async def _stop(self, context: CommandContext, argument: str) -> CommandAnswer:
        stopped = (await self._call(context, "chat.abort", sessionKey=context.named))["runIds"]
        return CommandAnswer("Stopped." if stopped else "Nothing was running.", stopped=stopped)

    async def _new(self, context: CommandContext, argument: str) -> CommandAnswer:
        await self._allow(context.caller, "sessions.reset")
        return CommandAnswer("A new session has begun.", begins_anew=True)

    _reset = _new

    async def _model(self, context: CommandContext, argument: str) -> CommandAnswer:
        if not argument:
            answer = await self._call(context, "tool.session_status", sessionKey=context.named)
            line = next(line for line in answer["statusText"].splitlines() if "Model:" in line)
            listed = (await self._call(context, "models.list"))["models"]
            names = ", ".join(f"{each['provider']}/{each['id']}" for each in listed[:LISTED_MAX])
            return CommandAnswer(f"{line}. {COMMANDS['model'].usage}\nTo choose from: {names}")
        answer = await self._call(
            context, "tool.session_status", sessionKey=context.named, model=argument
        )
        line = next(line for line in answer["statusText"].splitlines() if "Model:" in line)
        return CommandAnswer(f"{line}.")

    async def _think(self, context: CommandContext, argument: str) -> CommandAnswer:
        return await self._set(context, "think", "thinkingLevel", "Thinking", argument)

    async def _verbose(self, context: CommandContext, argument: str) -> CommandAnswer:
        return await self._set(context, "verbose", "verboseLevel", "Verbose", argument)

    async def _queue(self, context: CommandContext, argument: str) -> CommandAnswer:
        word = argument.lower()
        if not word:
            return CommandAnswer(
                f"{await self._queue_now(context)} Usage: {COMMANDS['queue'].usage}"
            )
        changes = dict.fromkeys(QUEUE_FIELDS) if word in CLEARING else read_queue(word)
        await self._call(context, "sessions.patch", key=context.named, **changes)
        if word in CLEARING:
            return CommandAnswer(f"Queue mode set to {word}.")
        return CommandAnswer(f"Queue mode set to {word}. {await self._queue_now(context)}")

    async def _queue_now(self, context: CommandContext) -> str:
        """The settings that hold for messages which come as this one did."""
        key, session = context.key, await self._run_store.session(context.key)
        now = queueing_for(self._config.messages.queue, key, session, context.channel) or Queueing()
        pause = f"{now.debounce_ms / 1000:g} s"
        return f"Now: {now.mode}, debounce {pause}, cap {now.cap}, drop {now.drop}."

    async def _set(
        self, context: CommandContext, command: str, field: str, name: str, argument: str
    ) -> CommandAnswer:
        if not argument:
            return CommandAnswer(f"Usage: {COMMANDS[command].usage}")
        word = argument.lower()
        value = None if word in CLEARING else word
        await self._call(context, "sessions.patch", key=context.named, **{field: value})
        return CommandAnswer(f"{name} set to {word}.")

    async def _activation(self, context: CommandContext, argument: str) -> CommandAnswer:
        if context.key.kind != "group":
            return CommandAnswer(
                "/activation is for groups: in a direct chat everything is answered."
            )
        return await self._set(context, "activation", "groupActivation", "Activation", argument)

    async def _send(self, context: CommandContext, argument: str) -> CommandAnswer:
        word = argument.lower()
        if word not in ON_OFF:
            return CommandAnswer("⚙️ Usage: /send on|off|inherit")
        value = ON_OFF[word]
        await self._call(context, "sessions.patch", key=context.named, sendPolicy=value)
        said = {"allow": "on", "deny": "off", None: "inherit"}[value]
        return CommandAnswer(f"⚙️ Send policy set to {said}.")

    async def _compact(self, context: CommandContext, argument: str) -> CommandAnswer:
        asked = {"instructions": argument} if argument else {}
        answer = await self._call(context, "sessions.compact", key=context.named, **asked)
        if answer.get("compacted"):
            return CommandAnswer(
                "Compacted: older turns are a summary now; the history stays whole."
            )
        return CommandAnswer(
            f"Not compacted: {answer.get('reason') or 'there is nothing to shorten'}."
        )

    async def _approve(self, context: CommandContext, argument: str) -> CommandAnswer:
        named, _, word = argument.partition(" ")
        answer = ANSWERS.get(word.strip().lower())
        if not named or answer is None:
            return CommandAnswer(f"Usage: {COMMANDS['approve'].usage}")
        await self._call(context, "exec.approval.resolve", id=named, decision=answer)
        return CommandAnswer(APPROVED[answer])

    async def _pin(self, context: CommandContext, argument: str) -> CommandAnswer:
        await self._call(context, "sessions.pin", key=context.named)
        return CommandAnswer("Pinned.")

    async def _call(self, context: CommandContext, method: str, **params: Any) -> dict[str, Any]:
        answer = await self._dispatch(context.caller, method, params)
        fields: dict[str, Any] = msgspec.to_builtins(answer)
        return fields


def _suggest(word: str) -> str:
    begun = [name for name in COMMANDS if name.startswith(word)]
    near = difflib.get_close_matches(word, COMMANDS, n=NEAR_MAX, cutoff=0.5)
    names = list(dict.fromkeys([*begun, *near]))[:NEAR_MAX]
    meant = f" Did you mean {' or '.join(f'/{name}' for name in names)}?" if names else ""
    return f"There is no command /{word}.{meant} /help lists all of them."
