"""IRC for Crossclaw: a channel in a package of its own."""
