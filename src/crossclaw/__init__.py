"""Crossclaw: sessions that know of each other."""

__version__ = "0.1.0"
