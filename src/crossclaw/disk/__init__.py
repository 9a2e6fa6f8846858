"""Disk: how the gateway makes and replaces what only its owner may read."""
