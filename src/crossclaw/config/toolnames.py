"""Names of tools: the words that the lists of a tool policy can use.

Names that this release has no tool for belong here too: a config written for OpenClaw means the same when they
come. Tools of MCP servers are `<server>__<tool>`.
"""

from crossclaw.domain.tools import BUILT_IN, GROUP_RULES

ALIASES = {"bash": "exec", "apply-patch": "apply_patch", "bundle-mcp": "group:plugins"}

MISSING_HERE = (  # tools of OpenClaw's
    *("apply_patch", "process", "web_search", "x_search", "memory_search", "memory_get", "browser"),
    *("canvas", "cron", "gateway", "nodes", "image", "image_generate", "music_generate"),
    *("video_generate", "tts", "pdf"),
)
KNOWN = frozenset({*ALIASES, *GROUP_RULES, *BUILT_IN, *MISSING_HERE})


def is_plain(rule: str) -> bool:
    """Whether a rule names one tool or group that can be known now: no pattern, no server's tool."""
    return not any(mark in rule for mark in "*?[") and "__" not in rule
