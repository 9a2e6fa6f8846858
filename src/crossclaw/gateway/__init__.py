"""The gateway: frames in, `dispatch`, frames out. Thin wire, thick service."""

__all__ = [
    "auth",
    "certificate",
    "client",
    "context",
    "door_secrets",
    "edge",
    "event_types",
    "handshake",
    "hello",
    "http",
    "linking",
    "mcp_server",
    "methods",
    "otlp",
    "pairing",
    "publisher",
    "reception",
    "run_events",
    "server",
    "watchdog",
]
