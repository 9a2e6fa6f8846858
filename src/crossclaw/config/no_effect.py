"""Settings of OpenClaw that have no effect here, as one list in three groups.

Which keys those are stands beside the types (`unused`, `idle`), and docs/config.md is made from the same. For
those that touch rights the list says what holds instead. Nothing is unlocked by what has no effect: a lock that
would be missing is refused.
"""

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple, get_args

from crossclaw.config.check import Problem
from crossclaw.config.source import dotted
from crossclaw.domain.aliases import KeyPath

NoEffectGroup = Literal["touches rights", "channels", "other"]
"""The groups of keys without effect, in the order in which they are listed."""


class NoEffect(NamedTuple):
    path: KeyPath
    group: NoEffectGroup
    instead: str = ""
    """The rule that holds instead, if it matters."""

    def __str__(self) -> str:
        return f"{dotted(self.path)}: {self.instead}" if self.instead else dotted(self.path)


_NO_LISTS = "no program is allowed by its name alone; security and ask say what needs a yes, which can hold for good"
_NO_SUCH = "there is no such way in"
_BWRAP = "commands are locked in by bubblewrap, as sandbox.mode and sandbox.network say"
_ALWAYS_ASKED = "every client shows the token, the password or its own paired key"

RIGHTS: dict[str, str] = {
    "*.elevated": "no command gets more rights than its agent has",
    "*.elevatedDefault": "no command gets more rights than its agent has",
    "*tools.fs": "files are always those of the workspace",
    "*tools.message": "agents have no tool that writes to other chats",
    "*tools.exec.node": "no commands run on nodes",
    "*tools.exec.safeBin*": _NO_LISTS,
    "*tools.exec.strictInlineEval": _NO_LISTS,
    "*tools.exec.applyPatch": "write and edit change files of the workspace only",
    "*tools.exec.pathPrepend": "commands get no other PATH",
    "tools.web.fetch.ssrfPolicy": "addresses of private networks are never fetched",
    "tools.web.fetch.useTrustedEnvProxy": "pages are fetched directly",
    "*.modelPolicy": "agents.defaults.models is the list of models that may be used",
    "agents.entries.*.models": "agents.defaults.models is the list of models that may be used",
    "agents.list.models": "agents.defaults.models is the list of models that may be used",
    "*.skills": "an agent has the skills of its workspace",
    "skills": "an agent has the skills of its workspace",
    "*.maxSpawnDepth": "sub-agents cannot spawn",
    "*.requireAgentId": "sessions_spawn without agentId means the agent itself",
    "*.sandbox.ssh": _BWRAP,
    "*.sandbox.backend": _BWRAP,
    "*.sandbox.perSession": "sandbox.scope says it",
    "*.sandbox.workspaceRoot": "a sandboxed session has its agent's workspace, as workspaceAccess says",
    "*.directPolicy": "a heartbeat's words go where its target says",
    "gateway.auth.allowTailscale": _ALWAYS_ASKED,
    "gateway.auth.trustedProxy": _ALWAYS_ASKED,
    "gateway.auth.rateLimit": "wrong secrets are slowed down and bounded by fixed limits",
    "gateway.controlUi.allowInsecureAuth": _ALWAYS_ASKED,
    "gateway.controlUi.dangerouslyDisable*": _ALWAYS_ASKED,
    "gateway.controlUi.dangerouslyAllow*": "allowedOrigins says which pages may connect",
    "gateway.controlUi.allowExternalEmbedUrls": "the page embeds nothing",
    "gateway.controlUi.embedSandbox": "the page embeds nothing",
    "gateway.http.securityHeaders": "the headers of the page are fixed",
    "gateway.nodes.allowCommands": "a node is asked for what it offers, without denyCommands",
    "gateway.tailscale": _NO_SUCH,
    "gateway.terminal": _NO_SUCH,
    "gateway.allowRealIpFallback": "trustedProxies says whose word is taken",
    "commands.bash": "there is no such command",
    "commands.config": "there is no such command",
    "commands.debug": "there is no such command",
    "commands.mcp": "there is no such command",
    "commands.plugins": "there is no such command",
    "commands.restart": "there is no such command",
    "commands.modelsWrite": "there is no such command",
    "commands.useAccessGroups": "commands.allowFrom says who may use commands",
    "hooks.mappings.allowUnsafeExternalContent": "what comes from elsewhere is always fenced",
    "mcp.servers.*.auth": "a server is shown its headers and nothing else",
    "mcp.servers.*.oauth": "a server is shown its headers and nothing else",
    "approvals.plugin": "there are no plugins; approvals.exec is for every tool that is asked about",
    "security": "crossclaw doctor looks at what is open",
    "secrets": "secrets come from the environment or the file",
    "proxy": "there is no managed proxy",
    "plugins": "no plugins are loaded",
}
"""What touches rights, and what holds instead. A path is without its numbers: agents.list.tools.elevated."""

_FILTER = "a list of what to leave out cannot be kept here"
REFUSED: dict[str, str] = {
    "*tools.toolsBySender": f"{_FILTER}; take it out, and take the tools from everybody by tools.deny",
    "agents.defaults.tools": "write it as tools, which is what all agents have in common",
    "mcp.servers.*.tools": f"{_FILTER}; take it out, and name them in tools.deny as server__tool",
    "tools.bash": "the old name of tools.exec; write it so",
}
"""Locks that cannot be enforced here."""

_CHANNELS = (
    "channels.*",
    "messages.*",
    "broadcast",
    "*.groupChat",
    "*.blockStreaming*",
    "*.typing*",
    "*.humanDelay",
    "gateway.channel*",
    "web",
)
_KEPT = ("*tools.fs", {"workspaceOnly": True})
"""A setting that holds in any case, so it is not listed."""


def judge(path: KeyPath, value: Any) -> NoEffect | Problem | None:
    """The verdict on a key that nothing reads. None: what it says is so anyway."""
    name = plain_name(path)
    if value in ({}, [], None) or (fnmatchcase(name, _KEPT[0]) and value == _KEPT[1]):
        return None
    if refused := _first(REFUSED, name):
        return Problem(path, refused)
    group, instead = group_of(name)
    if value is False and group == "touches rights":
        return None  # what is switched off there is not here at all
    return NoEffect(path, group, instead)


def plain_name(path: KeyPath) -> str:
    return ".".join(step for step in path if isinstance(step, str))


def group_of(name: str) -> tuple[NoEffectGroup, str]:
    if instead := _first(RIGHTS, name):
        return "touches rights", instead
    is_channels = any(fnmatchcase(name, pattern) for pattern in _CHANNELS)
    return "channels" if is_channels else "other", ""


def _first(patterns: dict[str, str], name: str) -> str | None:
    return next((words for each, words in patterns.items() if fnmatchcase(name, each)), None)


def grouped(found: Iterable[NoEffect]) -> Iterator[tuple[NoEffectGroup, list[NoEffect]]]:
    """Sorts keys into their groups, those that touch rights first; empty groups are left out."""
    entries = list(found)
    for group in get_args(NoEffectGroup):
        if members := [each for each in entries if each.group == group]:
            yield group, members


def lines_for_people(found: Iterable[NoEffect]) -> list[str]:
    """The settings without effect, for people: those about rights on a line each, with what holds instead; the
    others by name."""
    lines: list[str] = []
    for group, members in grouped(found):
        if group == "touches rights":
            lines += [f"{group}:", *(f"  {each}" for each in members)]
        else:
            lines.append(f"{group}: {', '.join(dotted(each.path) for each in members)}")
    return lines
