"""Signal: an account of a signal-cli daemon, over its JSON-RPC interface: HTTP, TCP or a Unix socket."""
