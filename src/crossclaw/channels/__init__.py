"""Channels: adapters to chat platforms. Platform details stop here."""
