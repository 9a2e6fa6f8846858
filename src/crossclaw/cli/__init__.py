"""The command line: one file a command group. Only this prints."""

__all__ = [
    "main",
]
