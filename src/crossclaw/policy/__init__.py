"""Policy: pure decisions that say why. Log, tool and page show the same reason."""

__all__ = [
    "agent_to_agent",
    "answering",
    "approvals",
    "approving_chats",
    "budget",
    "channel_access",
    "colleagues",
    "credentials",
    "decision",
    "freshness",
    "main_address",
    "models",
    "owner",
    "sandbox",
    "send",
    "shell_words",
    "signals",
    "subagents",
    "tools",
    "visibility",
]
