"""Policy: pure decisions that say why. Log, tool and page show the same reason."""

__all__ = [
    "agent_to_agent",
    "answering",
    "budget",
    "colleagues",
    "credentials",
    "decision",
    "freshness",
    "models",
    "owner",
    "sandbox",
    "send",
    "subagents",
    "tools",
    "visibility",
]
