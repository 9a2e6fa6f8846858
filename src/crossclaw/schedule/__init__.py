"""The schedule: jobs and their ticks, heartbeats, hooks. Further doors that put rows into the inbox."""

__all__ = [
    "clockwork",
    "heartbeats",
    "hooks",
    "importing",
    "job_patches",
    "jobs",
    "notices",
    "work",
    "zones",
]
