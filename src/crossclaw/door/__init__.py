"""The door: everybody who wants something of the house comes through here, by name and with a scope."""
