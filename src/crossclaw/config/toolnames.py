"""Names of tools: what the lists of a tool policy can mean.

Names that this release has no tool for belong here too: a config written for OpenClaw means the same
when they come. Tools of MCP servers are `<server>__<tool>`.
"""

from collections.abc import Mapping

ALIASES = {"bash": "exec", "apply-patch": "apply_patch", "bundle-mcp": "group:plugins"}

SESSIONS = ("sessions_list", "sessions_history", "sessions_send", "sessions_spawn")

GROUPS: Mapping[str, tuple[str, ...]] = {
    "group:fs": ("read", "write", "edit", "apply_patch"),
    "group:runtime": ("exec", "process"),
    "group:sessions": (*SESSIONS, "session_status"),
    "group:web": ("web_fetch", "web_search"),
    "group:memory": ("memory_search", "memory_get"),
    "group:ui": ("browser", "canvas"),
    "group:automation": ("cron", "gateway"),
    "group:messaging": ("message",),
    "group:nodes": ("nodes",),
    "group:plugins": ("*__*",),
    "group:openclaw": (
        *("agents_list", *SESSIONS, "session_status", "web_fetch", "web_search"),
        *("memory_search", "memory_get", "browser", "canvas", "cron", "gateway", "message"),
        *("nodes", "image"),
    ),
}

_UNGROUPED = {"tts", "image_generate", "music_generate", "video_generate", "pdf", "x_search"}
KNOWN = frozenset({*ALIASES, *GROUPS, *_UNGROUPED}.union(*GROUPS.values()))


def is_plain(rule: str) -> bool:
    """Whether a rule names one tool or group that can be known now: no pattern, no server's tool."""
    return not any(mark in rule for mark in "*?[") and "__" not in rule
