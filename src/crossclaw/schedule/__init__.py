"""The schedule: jobs and their ticks, heartbeats, hooks. Further sources of rows in the inbox."""

__all__ = [
    "clockwork",
    "heartbeats",
    "hooks",
    "importing",
    "job_patches",
    "job_runs",
    "jobs",
    "notices",
    "zones",
]
