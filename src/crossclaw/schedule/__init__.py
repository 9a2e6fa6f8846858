"""The schedule: jobs and their ticks, heartbeats, hooks. Further doors that put rows into the inbox."""

__all__ = [
    "clockwork",
    "heartbeats",
    "hooks",
    "importing",
    "jobs",
    "notices",
    "work",
    "zones",
]
