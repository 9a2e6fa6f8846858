"""HTTP beside the WebSocket: the same door, the same scopes."""
