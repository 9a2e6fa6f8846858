"""Matrix: rooms of any homeserver, over its client-server API; with end-to-end encryption where it is asked for."""
