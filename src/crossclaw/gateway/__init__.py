"""The gateway: frames in, `dispatch`, frames out. Thin wire, thick service."""
